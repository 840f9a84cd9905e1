/** The part of the platform's `Headers` that @ai-sdk/provider-utils uses. Stores names in lower case. */
export class Headers extends Map {
  /** True also for the platform's objects, which callers may pass. */
  static [Symbol.hasInstance](value) {
    return typeof value?.forEach === "function" && typeof value.get === "function";
  }

  constructor(fields = {}) {
    super();
    for (const [name, value] of Symbol.iterator in fields ? fields : Object.entries(fields)) this.set(name, value);
  }

  set(name, value) {
    return super.set(name.toLowerCase(), String(value).trim());
  }

  get(name) {
    return super.get(name.toLowerCase()) ?? null;
  }

  delete(name) {
    return super.delete(name.toLowerCase());
  }
}
