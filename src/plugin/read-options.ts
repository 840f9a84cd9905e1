import { printable } from "../base/printable.js";
import { ConfigError } from "../ports/errors.js";
import type { StandardSchema } from "../tools/standard-schema.js";

/**
 * Validates raw options with a schema of any Standard Schema library. Throws `ConfigError` with one line: `where`, the
 * key and the expected value.
 */
export function read<Output>(schema: StandardSchema<Output>, raw: unknown, where: string): Output {
  let output: unknown;
  const issue = take(schema, raw, (taken) => (output = taken));
  if (!issue) return output as Output;
  const path = issue.path.reduce<string>(
    (so, { key }) => so + (typeof key === "number" ? `[${key}]` : `.${printable(key)}`),
    "",
  );
  // A path that starts at the file itself has no leading dot.
  const place = where === "" || where.endsWith(": ") ? where + path.slice(1) : where + path;
  const message = issue.message.replace(/\s+/g, " ");
  throw new ConfigError(place === "" || place.endsWith(": ") ? place + message : `${place}: ${message}`);
}

/** A validation error in the form that valibot accepts. */
export interface Issue {
  message: string;
  path: ReturnType<typeof at>[];
}

/** Validates a value. Calls `use` with the parsed value, or returns the first error. */
export function take(schema: StandardSchema, value: unknown, use: (taken: unknown) => void): Issue | undefined {
  const result = schema["~standard"].validate(value);
  if (result instanceof Promise) {
    result.catch(() => undefined);
    return { message: "expected a synchronous schema, got an asynchronous one", path: [] };
  }
  const [issue] = result.issues ?? [];
  if (!issue) return void use((result as { value: unknown }).value);
  const path = (issue.path ?? []).map((step) => (typeof step === "object" ? step.key : step));
  return { message: issue.message, path: path.map((key) => at({}, typeof key === "number" ? key : String(key))) };
}

/** Returns a message function for an unexpected value. If the value can be secret, only its type is shown. */
export function unexpected(expected: string, secret = false) {
  return ({ input }: { input: unknown }) => `expected ${expected}, got ${secret ? kindOf(input) : shown(input)}`;
}

/** Type of a value, without its content. */
export function kindOf(value: unknown): string {
  return value === undefined ? "nothing" : value === null ? "null" : Array.isArray(value) ? "Array" : typeof value;
}

/** Short form of a value, on one line. */
export function shown(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value.length > 60 ? `${value.slice(0, 59)}…` : value);
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  return typeof value === "object" && value !== null && !Array.isArray(value) ? "Object" : kindOf(value);
}

/** One step of a path in valibot's form. */
export function at(input: object, key: string | number) {
  return { type: "unknown" as const, origin: "value" as const, input, key, value: undefined };
}
