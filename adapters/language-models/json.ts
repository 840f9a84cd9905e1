/** JSON of any shape, read with the questions below. */
export type Bag = Readonly<Record<string, unknown>>;

/** An object or a list as JSON text; undefined for what is neither. */
export function parsed(text: unknown): unknown {
  if (typeof text !== "string" || !/^\s*[[{]/.test(text)) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Without the fields that are undefined, so that what is spread over others hides none of theirs. */
export function present<T extends object>(fields: T): T {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T;
}

/** An object, a list too, as one; empty for anything else. */
export function bag(value: unknown): Bag {
  return typeof value === "object" && value !== null ? (value as Bag) : {};
}

/** A list, also of the one where a list is due. */
export function list(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value as unknown[];
  return typeof value === "object" && value !== null ? [value] : [];
}

/** A text; empty for anything else. */
export function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** A place or an id, as a key; undefined for what is neither. */
export function key(value: unknown): string | undefined {
  return typeof value === "string" || typeof value === "number" ? String(value) : undefined;
}

/** A count, also one that came as text; undefined for anything else. */
export function count(value: unknown): number | undefined {
  const number = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
  return typeof number === "number" && Number.isFinite(number) && number >= 0 ? number : undefined;
}

export function firstCount(...values: readonly unknown[]): number | undefined {
  for (const value of values) {
    const found = count(value);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Arguments of a call as JSON text, however they came. */
export function argumentsOf(value: unknown): string {
  if (typeof value === "string") return value;
  return value === undefined || value === null ? "" : JSON.stringify(value);
}

/** Whether an `error` field says anything. */
export function tellsError(value: unknown): boolean {
  if (typeof value === "string") return value !== "";
  return typeof value === "object" && value !== null && Object.keys(value).length > 0;
}
