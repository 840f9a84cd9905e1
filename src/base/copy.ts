/** A deep copy of plain data, several times as fast as `structuredClone`, which makes that of anything else. */
export function copied<T>(value: T): T {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(copied) as T;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return structuredClone(value);
  // A spread makes own fields of all, so that a field named `__proto__` is one, here and when it is set below.
  const copy = { ...value } as Record<string, unknown>;
  for (const key of Object.keys(copy)) {
    const field = copy[key];
    if (typeof field === "object" && field !== null) copy[key] = copied(field);
  }
  return copy as T & object;
}
