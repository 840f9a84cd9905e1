import * as v from "valibot";
import { HttpError } from "./errors.js";

/** A field that is not what it must be; `name` as clients write it. */
export function invalidField(name: string): HttpError {
  return new HttpError(400, `invalid field: ${name}`, {}, "invalid_field");
}

type Entries = Record<string, v.GenericSchema>;
type Given<Shape extends v.GenericSchema | undefined> = Shape extends v.GenericSchema ? v.InferInput<Shape> : never;

/** The fields of a request's body, as a shape has them; what is inherited is none of them. */
export class Fields<const Known extends Entries> {
  readonly #known: Known;
  readonly #body: Readonly<Record<string, unknown>>;

  constructor({ entries }: { readonly entries: Known }, body: Readonly<Record<string, unknown>>) {
    this.#known = entries;
    this.#body = body;
  }

  /** As it was given; undefined when it is left out, also where it is required. Throws `HttpError` for another shape. */
  get<Name extends keyof Known & string>(name: Name): Given<Known[Name]> | undefined {
    if (!Object.hasOwn(this.#body, name)) return undefined;
    const value = this.#body[name];
    if (!v.is(this.#known[name]!, value)) throw invalidField(name);
    return value as Given<Known[Name]>;
  }

  /** As `get`, of text, where `""` is none. */
  text<Name extends keyof Known & string>(name: Name): Exclude<Given<Known[Name]>, ""> | undefined {
    const value = this.get(name);
    // Clients of typed languages send what they do not set as "".
    return value === "" ? undefined : (value as Exclude<Given<Known[Name]>, "">);
  }
}
