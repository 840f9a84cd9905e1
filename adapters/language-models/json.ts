/** JSON of any shape, read with the functions below. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** Parses a JSON object or array; undefined for any other value. */
export function parseJsonObject(text: unknown): unknown {
  if (typeof text !== "string" || !/^\s*[[{]/.test(text)) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The object or array; an empty object for any other value. */
export function asObject(value: unknown): JsonObject {
  return typeof value === "object" && value !== null ? (value as JsonObject) : {};
}

/** The array; an object becomes an array of one. Empty for any other value. */
export function asList(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value as unknown[];
  return typeof value === "object" && value !== null ? [value] : [];
}

/** The string; empty for any other value. */
export function asText(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** The string or number as a key; undefined for any other value. */
export function asKey(value: unknown): string | undefined {
  return typeof value === "string" || typeof value === "number" ? String(value) : undefined;
}

/** A nonnegative number, also if it arrived as text; undefined for any other value. */
export function asCount(value: unknown): number | undefined {
  const number = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
  return typeof number === "number" && Number.isFinite(number) && number >= 0 ? number : undefined;
}

export function findFirstCount(...values: readonly unknown[]): number | undefined {
  for (const value of values) {
    const number = asCount(value);
    if (number !== undefined) return number;
  }
  return undefined;
}

/** Arguments of a call as JSON text; `""` without arguments. */
export function asArgumentsText(value: unknown): string {
  if (typeof value === "string") return value;
  return value === undefined || value === null ? "" : JSON.stringify(value);
}

/** Whether an `error` field contains an error. */
export function isErrorValue(value: unknown): boolean {
  if (typeof value === "string") return value !== "";
  return typeof value === "object" && value !== null && Object.keys(value).length > 0;
}

/** Replaces lone surrogates in JSON (a text truncated within an emoji), for which some providers reject the whole request. */
export function replaceLoneSurrogates<T>(body: T | string): T | string {
  if (typeof body !== "string" || !body.includes("\\ud")) return body;
  // JSON contains pairs unescaped, so an escaped surrogate is alone. The first alternative skips escaped backslashes.
  return body.replace(/\\\\|\\ud[89a-f][0-9a-f]{2}/g, (match) => (match === "\\\\" ? match : "\\ufffd"));
}
