import { ConfigError } from "../ports/errors.js";
import { isRecord } from "../base/json.js";

/**
 * Reads an adapter's raw options key by key. Whatever is wrong, an unknown key too, throws a `ConfigError` that begins
 * with `where`, names the key and says what was expected.
 */
export class OptionReader {
  readonly #raw: Readonly<Record<string, unknown>>;
  readonly #where: string;

  /** `known`: every key there may be. */
  constructor(raw: Readonly<Record<string, unknown>>, where: string, known: readonly string[]) {
    this.#raw = raw;
    this.#where = where;
    const unknown = Object.keys(raw).find((key) => !known.includes(key));
    if (unknown !== undefined) {
      const expected = known.length === 0 ? "there are no options" : `expected one of ${known.join(", ")}`;
      throw this.error(unknown, `unknown key; ${expected}`);
    }
  }

  string(key: string, fallback: string): string {
    return this.#read(key, fallback, "a string", (value) => typeof value === "string");
  }

  /** A string that must be there and is not empty. */
  required(key: string): string {
    const value = this.#read(key, "", "a string", (given) => typeof given === "string");
    if (value === "") throw this.error(key, "expected a string that is not empty");
    return value;
  }

  boolean(key: string, fallback: boolean): boolean {
    return this.#read(key, fallback, "true or false", (value) => typeof value === "boolean");
  }

  integer(key: string, fallback: number, least: number, most = Number.MAX_SAFE_INTEGER): number {
    const range = most === Number.MAX_SAFE_INTEGER ? `, at least ${least}` : ` from ${least} to ${most}`;
    return this.#read(
      key,
      fallback,
      `a whole number${range}`,
      (value) => Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most,
    );
  }

  oneOf<T extends string>(key: string, choices: readonly T[], fallback: T): T {
    const names = choices.map((choice) => JSON.stringify(choice)).join(", ");
    return this.#read(key, fallback, `one of ${names}`, (value) => choices.includes(value as T));
  }

  strings(key: string, fallback: readonly string[]): readonly string[] {
    return this.#read(
      key,
      fallback,
      "a list of strings",
      (value) => Array.isArray(value) && value.every((one) => typeof one === "string"),
    );
  }

  /** An object of its own, read by a reader of its own. */
  section(key: string, known: readonly string[]): OptionReader {
    return new OptionReader(this.#read(key, {}, "an object", isRecord), this.#path(key), known);
  }

  /** For a rule of the adapter's own: `throw options.error("host", "expected a name that resolves")`. */
  error(key: string, why: string): ConfigError {
    return new ConfigError(`${this.#path(key)}: ${why}`);
  }

  #read<T>(key: string, fallback: T, expected: string, fits: (value: unknown) => boolean): T {
    const value = Object.hasOwn(this.#raw, key) ? this.#raw[key] : undefined;
    if (value === undefined) return fallback;
    if (!fits(value)) throw this.error(key, `expected ${expected}, got ${shown(value)}`);
    return value as T;
  }

  #path(key: string): string {
    return this.#where === "" ? key : `${this.#where}.${key}`;
  }
}

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? typeof value;
  return text.length > 60 ? `${text.slice(0, 59)}…` : text;
}
