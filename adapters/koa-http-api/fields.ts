import { HttpError } from "./errors.js";

/** A field that is not what it must be; `name` as clients write it. */
export function invalidField(name: string): HttpError {
  return new HttpError(400, `invalid field: ${name}`, {}, "invalid_field");
}

/** The fields of a request's body. All that it reads throws `HttpError` for another type. */
export class Fields {
  readonly #body: Readonly<Record<string, unknown>>;

  constructor(body: Readonly<Record<string, unknown>>) {
    this.#body = body;
  }

  get names(): string[] {
    return Object.keys(this.#body);
  }

  /** Whatever it is; undefined when it is left out. */
  own(name: string): unknown {
    return Object.hasOwn(this.#body, name) ? this.#body[name] : undefined;
  }

  /** Text where it is given; `""` is none. */
  text(name: string): string | undefined {
    const value = this.own(name);
    if (value !== undefined && typeof value !== "string") throw invalidField(name);
    // Clients of typed languages send what they do not set as "".
    return value === "" ? undefined : value;
  }

  /** Default `false`. */
  flag(name: string): boolean {
    const value = this.own(name);
    if (value !== undefined && typeof value !== "boolean") throw invalidField(name);
    return value ?? false;
  }

  oneOf<T extends string>(name: string, values: readonly T[]): T | undefined {
    const value = this.text(name);
    const known = values.find((one) => one === value);
    if (value !== undefined && known === undefined) throw invalidField(name);
    return known;
  }
}
