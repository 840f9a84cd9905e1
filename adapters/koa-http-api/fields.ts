import * as v from "valibot";
import { HttpError } from "./errors.js";

/** Error for an invalid field; `name` is the name on the wire. */
export function createFieldError(name: string): HttpError {
  return new HttpError(400, `invalid field: ${name}`, {}, "invalid_field");
}

type SchemasByField = Record<string, v.GenericSchema>;
type SentValue<Shape extends v.GenericSchema | undefined> = Shape extends v.GenericSchema ? v.InferInput<Shape> : never;

/** Reads the fields of a request body by a schema. Ignores inherited properties. */
export class Fields<const Schemas extends SchemasByField> {
  readonly #schemas: Schemas;
  readonly #body: Readonly<Record<string, unknown>>;

  constructor({ entries }: { readonly entries: Schemas }, body: Readonly<Record<string, unknown>>) {
    this.#schemas = entries;
    this.#body = body;
  }

  /**
   * The value as sent; undefined if the field is absent, even a required field. Throws `HttpError` if the value does
   * not match the schema.
   */
  get<Name extends keyof Schemas & string>(name: Name): SentValue<Schemas[Name]> | undefined {
    if (!Object.hasOwn(this.#body, name)) return undefined;
    const value = this.#body[name];
    if (!v.is(this.#schemas[name]!, value)) throw createFieldError(name);
    return value as SentValue<Schemas[Name]>;
  }

  /** Like `get` for a text; undefined also for `""`. */
  getText<Name extends keyof Schemas & string>(name: Name): Exclude<SentValue<Schemas[Name]>, ""> | undefined {
    const value = this.get(name);
    // Clients in typed languages send unset fields as "".
    return value === "" ? undefined : (value as Exclude<SentValue<Schemas[Name]>, "">);
  }
}
