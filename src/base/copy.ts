/**
 * Deep copy of plain data, several times as fast as `structuredClone`. Values that are not plain data are copied with
 * `structuredClone`.
 */
export function deepCopy<T>(value: T): T {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) {
    const copy = new Array<unknown>(value.length);
    for (let i = 0; i < copy.length; i++) copy[i] = deepCopy(value[i] as unknown);
    return copy as T & object;
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return structuredClone(value);
  // The spread makes all fields own properties. A field named `__proto__` is then an ordinary field, here and in the
  // assignment below.
  const copy = { ...value } as Record<string, unknown>;
  for (const key in copy) {
    const field = copy[key];
    if (typeof field === "object" && field !== null) copy[key] = deepCopy(field);
  }
  return copy as T & object;
}
