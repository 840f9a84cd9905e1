import { ToolInputError } from "../ports/errors.js";
import type { JsonSchema } from "../ports/tool.js";

/** One argument: its JSON Schema and how it is read. `read` throws what was expected, as a string. */
export interface Field<T> {
  readonly schema: JsonSchema;
  readonly required: boolean;
  /** Other names under which models send it. */
  readonly aliases: readonly string[];
  read(value: unknown): T;
}

type Values<Fields> = { [Name in keyof Fields]: Fields[Name] extends Field<infer T> ? T : never };

/** The arguments of a tool: one description for the model's schema and for the check of what it sends. */
export interface Arguments<T> {
  readonly schema: JsonSchema;
  /** Throws `ToolInputError` that names every wrong argument, for the model. */
  parse(input: unknown): T;
}

class Expected extends Error {
  constructor(
    readonly expected: string,
    readonly got: unknown,
    readonly path = "",
  ) {
    super(expected);
  }
}

/** Models sometimes put a whole list or object into a string. */
function unpacked(value: unknown, open: "[" | "{"): unknown {
  if (typeof value !== "string" || !value.trimStart().startsWith(open)) return value;
  try {
    return JSON.parse(value) as unknown;
  } catch {
    return value;
  }
}

export function text(
  description: string,
  options: { minLength?: number; oneOf?: readonly string[]; aliases?: readonly string[] } = {},
): Field<string> {
  const { minLength = 0, oneOf, aliases = [] } = options;
  return {
    schema: {
      type: "string",
      description,
      ...(oneOf ? { enum: [...oneOf] } : {}),
      ...(minLength > 0 ? { minLength } : {}),
    },
    required: true,
    aliases,
    read(value) {
      const given = typeof value === "number" || typeof value === "boolean" ? String(value) : value;
      if (oneOf) {
        if (typeof given === "string" && oneOf.includes(given)) return given;
        throw new Expected(`one of ${oneOf.map((one) => `"${one}"`).join(", ")}`, value);
      }
      if (typeof given !== "string") throw new Expected("a string", value);
      if (given.length < minLength) throw new Expected("a string that is not empty", value);
      return given;
    },
  };
}

export function integer(
  description: string,
  options: { min: number; max?: number; aliases?: readonly string[] },
): Field<number> {
  const { min, max, aliases = [] } = options;
  return {
    schema: { type: "integer", description, minimum: min, ...(max === undefined ? {} : { maximum: max }) },
    required: true,
    aliases,
    read(value) {
      const given = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
      if (typeof given !== "number" || !Number.isSafeInteger(given) || given < min)
        throw new Expected(`an integer >= ${min}`, value);
      // More than there is to have is what was meant, not a fault.
      return max === undefined ? given : Math.min(given, max);
    },
  };
}

export function flag(description: string): Field<boolean> {
  return {
    schema: { type: "boolean", description },
    required: true,
    aliases: [],
    read(value) {
      if (typeof value === "boolean") return value;
      if (typeof value === "string" && /^(true|false)$/i.test(value)) return value.toLowerCase() === "true";
      throw new Expected("true or false", value);
    },
  };
}

export function list<T>(description: string, item: Field<T>, options: { min?: number; max: number }): Field<T[]> {
  const { min = 0, max } = options;
  return {
    schema: { type: "array", description, items: item.schema, ...(min > 0 ? { minItems: min } : {}) },
    required: true,
    aliases: [],
    read(value) {
      const given = unpacked(value, "[");
      if (!Array.isArray(given)) throw new Expected("an array", value);
      if (given.length < min) throw new Expected(`an array of at least ${min}`, value);
      if (given.length > max) throw new Expected(`an array of at most ${max}`, `${given.length} entries`);
      return given.map((one, index) => within(`[${index}]`, () => item.read(one)));
    },
  };
}

// The constraint must let every field type in; `Values` gives each its own type back.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export function object<Fields extends Record<string, Field<any>>>(fields: Fields): Field<Values<Fields>> {
  const required = Object.keys(fields).filter((name) => fields[name]?.required);
  return {
    schema: {
      type: "object",
      properties: Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, field.schema])),
      required,
      additionalProperties: false,
    },
    required: true,
    aliases: [],
    read(value) {
      const given = unpacked(value, "{");
      if (typeof given !== "object" || given === null || Array.isArray(given)) throw new Expected("an object", value);
      const faults: Expected[] = [];
      const entries: [string, unknown][] = [];
      for (const [name, field] of Object.entries(fields)) {
        const key = [name, ...field.aliases].find((one) => Object.hasOwn(given, one)) ?? name;
        const own = Object.hasOwn(given, key) ? ((given as Record<string, unknown>)[key] ?? undefined) : undefined;
        try {
          entries.push([name, within(name, (): unknown => field.read(own))]);
        } catch (error) {
          if (!(error instanceof Expected)) throw error;
          faults.push(error);
        }
      }
      const [fault] = faults;
      if (fault) throw faults.length === 1 ? fault : new Several(faults);
      return Object.fromEntries(entries) as Values<Fields>;
    },
  };
}

class Several extends Expected {
  constructor(readonly faults: readonly Expected[]) {
    super(faults.map((fault) => tell(fault)).join("; "), undefined);
  }
}

/** May be left out or null; then it is `fallback`. */
export function optional<T>(field: Field<T>): Field<T | undefined>;
export function optional<T>(field: Field<T>, fallback: T): Field<T>;
export function optional<T>(field: Field<T>, fallback?: T): Field<T | undefined> {
  return {
    schema: fallback === undefined ? field.schema : { ...field.schema, default: fallback },
    required: false,
    aliases: field.aliases,
    read: (value) => (value === undefined ? fallback : field.read(value)),
  };
}

function within<T>(path: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof Several) throw new Several(error.faults.map((fault) => prefixed(path, fault)));
    if (error instanceof Expected) throw prefixed(path, error);
    throw error;
  }
}

function prefixed(path: string, fault: Expected): Expected {
  const join = fault.path === "" || fault.path.startsWith("[") ? "" : ".";
  return new Expected(fault.expected, fault.got, `${path}${join}${fault.path}`);
}

function tell(fault: Expected): string {
  if (fault instanceof Several) return fault.expected;
  const got = fault.got === undefined ? "nothing" : (JSON.stringify(fault.got) ?? typeof fault.got);
  const shown = got.length > 80 ? `${got.slice(0, 79)}…` : got;
  return `${fault.path === "" ? "arguments" : fault.path}: expected ${fault.expected}, got ${shown}`;
}

/** Describe a tool's arguments. Unknown ones are ignored, null is absent, numbers and booleans may come as strings. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- see `object`.
export function defineArguments<Fields extends Record<string, Field<any>>>(fields: Fields): Arguments<Values<Fields>> {
  const whole = object(fields);
  return {
    schema: whole.schema,
    parse(input) {
      try {
        return whole.read(input ?? {});
      } catch (error) {
        if (error instanceof Expected) throw new ToolInputError(tell(error));
        throw error;
      }
    },
  };
}
