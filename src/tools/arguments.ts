import { ToolInputError } from "../ports/errors.js";
import type { JsonSchema } from "../ports/tool.js";
import type { SchemaIssue, SchemaResult, StandardSchema } from "./standard-schema.js";

/** Other names under which models send a path. */
export const PATH_ALIASES = ["file_path", "filePath", "filename", "file"] as const;

/** One argument: its JSON Schema and how it is read. `read` throws `Wrong`. */
export interface Field<T> {
  readonly schema: JsonSchema;
  readonly required: boolean;
  /** Other names under which models send it. */
  readonly aliases: readonly string[];
  /** Whether null is a value; else it is as left out. */
  readonly nullable?: boolean;
  /** Whether it is left out of the schema, because only models of other agents send it. Default false. */
  readonly hidden?: boolean;
  /** Set for objects that ignore other keys: the keys of a value that are not read. */
  unreadKeys?(value: Readonly<Record<string, unknown>>): string[];
  read(value: unknown): T;
}

type Values<Fields> = { [Name in keyof Fields]: Fields[Name] extends Field<infer T> ? T : never };

/** The arguments of a tool: one description for the model's schema and for the check of what it sends. */
export interface Arguments<T> extends StandardSchema<T> {
  readonly schema: JsonSchema;
  /** Throws `ToolInputError` that names every wrong argument, for the model. */
  parse(input: unknown): T;
  /** Names of arguments that `parse` ignores. */
  unreadKeys(input: Readonly<Record<string, unknown>>): string[];
}

class Wrong extends Error {
  constructor(readonly issues: readonly SchemaIssue[]) {
    super("wrong arguments");
  }
}

/** What is thrown for a value that is not as expected. */
export function wrong(expected: string, value: unknown): Error {
  return new Wrong([unexpected(expected, value)]);
}

export function unexpected(expected: string, value: unknown): SchemaIssue {
  const got = value === undefined ? "nothing" : (JSON.stringify(value) ?? typeof value);
  return { message: `expected ${expected}, got ${got.length > 80 ? `${got.slice(0, 79)}…` : got}` };
}

/** Models sometimes put a whole list or object into a string. */
export function unpacked(value: unknown, open: "[" | "{"): unknown {
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
        throw wrong(`one of ${oneOf.map((one) => `"${one}"`).join(", ")}`, value);
      }
      if (typeof given !== "string") throw wrong("a string", value);
      if (given.length < minLength)
        throw wrong(minLength === 1 ? "a string that is not empty" : `at least ${minLength} characters`, value);
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
      const given = asNumber(value);
      if (typeof given !== "number" || !Number.isSafeInteger(given) || given < min)
        throw wrong(`an integer >= ${min}`, value);
      // More than there is to have is what was meant, not a fault.
      return max === undefined ? given : Math.min(given, max);
    },
  };
}

/** A number that came as a string. */
export function asNumber(value: unknown): unknown {
  return typeof value === "string" && value.trim() !== "" ? Number(value) : value;
}

export function flag(description: string): Field<boolean> {
  return {
    schema: { type: "boolean", description },
    required: true,
    aliases: [],
    read(value) {
      if (typeof value === "boolean") return value;
      if (typeof value === "string" && /^(true|false)$/i.test(value)) return value.toLowerCase() === "true";
      throw wrong("true or false", value);
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
      if (!Array.isArray(given)) throw wrong("an array", value);
      if (given.length < min) throw wrong(`an array of at least ${min}`, value);
      if (given.length > max) throw wrong(`an array of at most ${max}`, `${given.length} entries`);
      return given.map((one, index) => within(index, () => item.read(one)));
    },
  };
}

// The constraint must let every field type in; `Values` gives each its own type back.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export function object<Fields extends Record<string, Field<any>>>(fields: Fields): Field<Values<Fields>> {
  const required = Object.keys(fields).filter((name) => fields[name]?.required);
  const shown = Object.entries(fields).filter(([, field]) => field.hidden !== true);
  return {
    schema: {
      type: "object",
      properties: Object.fromEntries(shown.map(([name, field]) => [name, field.schema])),
      required,
      additionalProperties: false,
    },
    required: true,
    aliases: [],
    unreadKeys(value) {
      const read = new Map(Object.entries(fields).map(([name, field]) => [keyOf(name, field, value), field]));
      // The same value under two names is read whichever of them is taken.
      const isCopy = (key: string) =>
        [...read].some(([name, { aliases }]) => aliases.includes(key) && value[name] === value[key]);
      return Object.keys(value).filter((key) => !read.has(key) && !isCopy(key));
    },
    read(value) {
      const given = unpacked(value, "{");
      if (typeof given !== "object" || given === null || Array.isArray(given)) throw wrong("an object", value);
      const issues: SchemaIssue[] = [];
      const entries: [string, unknown][] = [];
      for (const [name, field] of Object.entries(fields)) {
        const key = keyOf(name, field, given);
        const own = Object.hasOwn(given, key) ? (given as Record<string, unknown>)[key] : undefined;
        try {
          entries.push([name, within(name, (): unknown => field.read(field.nullable ? own : (own ?? undefined)))]);
        } catch (error) {
          if (!(error instanceof Wrong)) throw error;
          issues.push(...error.issues);
        }
      }
      if (issues.length > 0) throw new Wrong(issues);
      return Object.fromEntries(entries) as Values<Fields>;
    },
  };
}

/** The key under which an object has a field: the name, or the first alias that is there. */
function keyOf(name: string, { aliases }: Pick<Field<unknown>, "aliases">, value: object): string {
  return [name, ...aliases].find((key) => Object.hasOwn(value, key)) ?? name;
}

/** May be left out or null; then it is `fallback`. */
export function optional<T>(field: Field<T>): Field<T | undefined>;
export function optional<T>(field: Field<T>, fallback: T): Field<T>;
export function optional<T>(field: Field<T>, fallback?: T): Field<T | undefined> {
  return {
    ...field,
    schema: fallback === undefined ? field.schema : { ...field.schema, default: fallback },
    required: false,
    read: (value) => (value === undefined ? fallback : field.read(value)),
  };
}

/** An optional argument that the schema leaves out. */
export function hidden<T>(field: Field<T>): Field<T | undefined> {
  return { ...optional(field), hidden: true };
}

function within<T>(key: PropertyKey, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof Wrong)) throw error;
    throw new Wrong(error.issues.map(({ message, path = [] }) => ({ message, path: [key, ...path] })));
  }
}

/**
 * Describe a tool's arguments. Null is absent, numbers and booleans may come as strings.
 * `check` looks at them together; it throws `ToolInputError`, or changes them.
 */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- see `object`.
export function defineArguments<Fields extends Record<string, Field<any>>>(
  fields: Fields,
  check: (values: Values<Fields>) => Values<Fields> = (values) => values,
): Arguments<Values<Fields>> {
  const whole = object(fields);
  return readBy({ ...whole, read: (value) => check(whole.read(value)) });
}

/** Arguments that a field reads whole. */
export function readBy<T>(whole: Field<T>): Arguments<T> {
  const validate = (input: unknown): SchemaResult<T> => {
    try {
      return { value: whole.read(input ?? {}) };
    } catch (error) {
      if (error instanceof Wrong) return { issues: error.issues };
      throw error;
    }
  };
  return {
    schema: whole.schema,
    parse(input) {
      const result = validate(input);
      if (result.issues) throw new ToolInputError(toldOf(result.issues));
      return result.value;
    },
    unreadKeys: (input) => whole.unreadKeys?.(input) ?? [],
    "~standard": {
      version: 1,
      vendor: "gantry",
      validate,
      jsonSchema: { input: () => whole.schema },
    },
  };
}

/** What was wrong, for a model. */
export function toldOf(issues: readonly SchemaIssue[]): string {
  return issues
    .map(({ message, path = [] }) => {
      const keys = path.map((step) => (typeof step === "object" ? step.key : step));
      const where = keys.map((key, i) => (typeof key === "number" ? `[${key}]` : `${i > 0 ? "." : ""}${String(key)}`));
      return `${where.join("") || "arguments"}: ${message}`;
    })
    .join("; ");
}
