import * as v from "valibot";
import { HttpError } from "./errors.js";

/** Error for an invalid field; `name` is the name on the wire. */
export function invalidField(name: string): HttpError {
  return new HttpError(400, `invalid field: ${name}`, {}, "invalid_field");
}

type Entries = Record<string, v.GenericSchema>;
type Given<Shape extends v.GenericSchema | undefined> = Shape extends v.GenericSchema ? v.InferInput<Shape> : never;

/** The fields of a request body, read by a schema. Inherited properties are ignored. */
export class Fields<const Known extends Entries> {
  readonly #schemas: Known;
  readonly #body: Readonly<Record<string, unknown>>;

  constructor({ entries }: { readonly entries: Known }, body: Readonly<Record<string, unknown>>) {
    this.#schemas = entries;
    this.#body = body;
  }

  /**
   * The value as sent; undefined if it is absent, also for required fields. Throws `HttpError` if the schema does not
   * match.
   */
  get<Name extends keyof Known & string>(name: Name): Given<Known[Name]> | undefined {
    if (!Object.hasOwn(this.#body, name)) return undefined;
    const value = this.#body[name];
    if (!v.is(this.#schemas[name]!, value)) throw invalidField(name);
    return value as Given<Known[Name]>;
  }

  /** Like `get` for a text; `""` counts as absent. */
  text<Name extends keyof Known & string>(name: Name): Exclude<Given<Known[Name]>, ""> | undefined {
    const value = this.get(name);
    // Clients in typed languages send unset fields as "".
    return value === "" ? undefined : (value as Exclude<Given<Known[Name]>, "">);
  }
}
