import { toPrintable } from "../base/printable.js";
import { ConfigError } from "../ports/errors.js";
import type { StandardSchema } from "../tools/standard-schema.js";

/**
 * Validates raw options with a schema of any Standard Schema library. Throws `ConfigError` with one line:
 * `errorPrefix`, the key and the expected value.
 */
export function read<Output>(schema: StandardSchema<Output>, raw: unknown, errorPrefix: string): Output {
  let output: unknown;
  const issue = validate(schema, raw, (value) => (output = value));
  if (!issue) return output as Output;
  const path = issue.path.reduce<string>(
    (text, { key }) => text + (typeof key === "number" ? `[${key}]` : `.${toPrintable(key)}`),
    "",
  );
  // After an empty prefix or a file name (`: `), the path has no leading dot.
  const location = errorPrefix === "" || errorPrefix.endsWith(": ") ? errorPrefix + path.slice(1) : errorPrefix + path;
  const message = issue.message.replace(/\s+/g, " ");
  throw new ConfigError(location === "" || location.endsWith(": ") ? location + message : `${location}: ${message}`);
}

/** A validation error in the form that valibot accepts. */
export interface ValidationIssue {
  message: string;
  path: ReturnType<typeof createPathStep>[];
}

/** Validates a value. Calls `onOutput` with the parsed value and returns undefined, or returns the first error. */
export function validate(
  schema: StandardSchema,
  value: unknown,
  onOutput: (output: unknown) => void,
): ValidationIssue | undefined {
  const result = schema["~standard"].validate(value);
  if (result instanceof Promise) {
    result.catch(() => undefined);
    return { message: "expected a synchronous schema, got an asynchronous one", path: [] };
  }
  const [issue] = result.issues ?? [];
  if (!issue) return void onOutput((result as { value: unknown }).value);
  const path = (issue.path ?? []).map((step) => (typeof step === "object" ? step.key : step));
  return {
    message: issue.message,
    path: path.map((key) => createPathStep({}, typeof key === "number" ? key : String(key))),
  };
}

/**
 * Returns a function for valibot that creates the message for an invalid value. Shows only the type of a secret value.
 */
export function createMismatchMessage(expected: string, isSecret = false) {
  return ({ input }: { input: unknown }) =>
    `expected ${expected}, got ${isSecret ? describeType(input) : formatValue(input)}`;
}

/** Returns the type of a value, without its content. */
export function describeType(value: unknown): string {
  return value === undefined ? "nothing" : value === null ? "null" : Array.isArray(value) ? "Array" : typeof value;
}

/** Maximum length of a string in an error message. */
const MAX_SHOWN_CHARACTERS = 60;

/** Returns a short form of a value, on one line. */
export function formatValue(value: unknown): string {
  if (typeof value === "string")
    return JSON.stringify(value.length > MAX_SHOWN_CHARACTERS ? `${value.slice(0, MAX_SHOWN_CHARACTERS - 1)}…` : value);
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  return typeof value === "object" && value !== null && !Array.isArray(value) ? "Object" : describeType(value);
}

/** Returns one step of a path in valibot's form. */
export function createPathStep(input: object, key: string | number) {
  return { type: "unknown" as const, origin: "value" as const, input, key, value: undefined };
}
