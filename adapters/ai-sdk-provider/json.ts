/** JSON of any shape, read with the questions below. */
export type Bag = Readonly<Record<string, unknown>>;

export function bag(value: unknown): Bag {
  return typeof value === "object" && value !== null ? (value as Bag) : {};
}

export function list(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value as unknown[];
  // One where a list is due.
  return typeof value === "object" && value !== null ? [value] : [];
}

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

/** The first count that is there. */
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
