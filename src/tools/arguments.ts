import * as v from "valibot";
import { isRecord } from "../base/json.js";
import { ToolInputError } from "../ports/errors.js";
import type { JsonSchema } from "../ports/tool.js";
import type { SchemaIssue, SchemaResult, StandardSchema } from "./standard-schema.js";

/** Other argument names that models use for a path. */
export const PATH_ALIASES = ["file_path", "filePath", "filename", "file"] as const;
/** Maximum issues that an error message lists. Further issues are only counted. */
const MAX_ISSUES = 12;
/** Maximum characters of a wrong value in an error message. */
const MAX_SHOWN_VALUE_CHARACTERS = 80;

/** One argument: the schema that parses it, and its description for the model. */
export interface Field<T> extends v.GenericSchema<unknown, T> {
  readonly spec: FieldSpec;
}

interface FieldSpec {
  /**
   * The schema for the model, which every request contains. Therefore it omits what a model does not need: empty
   * descriptions, bounds and closed objects. `parse` checks the bounds.
   */
  readonly schema: JsonSchema;
  readonly required: boolean;
  /** Other argument names that models use. */
  readonly aliases: readonly string[];
  /** Whether null is a value. Default: false, null counts as absent. */
  readonly nullable?: boolean;
  /**
   * Whether the argument is omitted from the schema for the model, because only models trained for other agents send
   * it. Default: false.
   */
  readonly hidden?: boolean;
  /** Returns the keys of a value that are not read. Set for objects that ignore unknown keys. */
  readonly unreadKeys?: (value: Readonly<Record<string, unknown>>) => string[];
  /** Returns the keys that the items of a list do not read, such as `[0].count`. Undefined: they are ignored. */
  readonly unreadItemKeys?: ((value: unknown) => string[]) | undefined;
}

type Values<Fields> = { [Name in keyof Fields]: Fields[Name] extends Field<infer T> ? T : never };
// The constraint must accept every field type. `Values` restores each field's own type.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
type Fields = Record<string, Field<any>>;

/** The arguments of a tool: the schema for the model, and the parser for the model's input. */
export interface Arguments<T> extends StandardSchema<T> {
  readonly schema: JsonSchema;
  /** Throws `ToolInputError` with all wrong arguments, as a message for the model. */
  parse(input: unknown): T;
  /** Returns the names of arguments that `parse` ignores. */
  unreadKeys(input: Readonly<Record<string, unknown>>): string[];
}

/** Creates the issue for a value that does not have the expected type. */
export function createTypeIssue(expected: string, value: unknown): SchemaIssue {
  const received = value === undefined ? "nothing" : (JSON.stringify(value) ?? typeof value);
  return {
    message: `expected ${expected}, got ${received.length > MAX_SHOWN_VALUE_CHARACTERS ? `${received.slice(0, MAX_SHOWN_VALUE_CHARACTERS - 1)}…` : received}`,
  };
}

/** Returns a function that creates the message of `createTypeIssue`, in the form that valibot expects. */
export function createTypeMessage(expected: string): (issue: { readonly input: unknown }) => string {
  return ({ input }) => createTypeIssue(expected, input).message;
}

/** Parses a list or an object that the model sent as a JSON string. Returns any other value unchanged. */
export function unpackJson(value: unknown, openingBracket: "[" | "{"): unknown {
  if (typeof value !== "string" || !value.trimStart().startsWith(openingBracket)) return value;
  try {
    return JSON.parse(value) as unknown;
  } catch {
    return value;
  }
}

/** Creates a field. Default: required, without aliases. */
export function field<T>(
  schema: v.GenericSchema<unknown, T>,
  spec: Partial<FieldSpec> & Pick<FieldSpec, "schema">,
): Field<T> {
  return Object.assign(schema, { spec: { required: true, aliases: [], ...spec } });
}

/** Creates a schema from a function. `read` returns undefined for a value that does not match. */
export function readerSchema<T>(expected: string, read: (value: unknown) => T | undefined) {
  return v.pipe(
    v.unknown(),
    v.rawTransform<unknown, T>(({ dataset: { value }, addIssue, NEVER }) => {
      const result = read(value);
      if (result !== undefined) return result;
      addIssue(createTypeIssue(expected, value) as { message: string });
      return NEVER;
    }),
  );
}

/** Adds a description to a schema. `""`: the name of the argument says enough. */
function describeSchema(description: string, schema: JsonSchema): JsonSchema {
  return description === "" ? schema : { ...schema, description };
}

export function text(
  description = "",
  options: { minLength?: number; oneOf?: readonly string[]; aliases?: readonly string[] } = {},
): Field<string> {
  const { minLength = 0, oneOf, aliases = [] } = options;
  const schema = describeSchema(description, { type: "string", ...(oneOf ? { enum: [...oneOf] } : {}) });
  const expected = oneOf ? `one of ${oneOf.map((choice) => `"${choice}"`).join(", ")}` : "a string";
  const valueSchema = readerSchema(expected, (value) => {
    const candidate = typeof value === "number" || typeof value === "boolean" ? String(value) : value;
    return typeof candidate === "string" && (oneOf?.includes(candidate) ?? true) ? candidate : undefined;
  });
  const lengthDescription = minLength === 1 ? "a string that is not empty" : `at least ${minLength} characters`;
  return field(v.pipe(valueSchema, v.minLength(minLength, createTypeMessage(lengthDescription))), { schema, aliases });
}

export function integer(
  description: string,
  options: { min: number; max?: number; aliases?: readonly string[] },
): Field<number> {
  const { min, max, aliases = [] } = options;
  const schema = describeSchema(description, { type: "integer" });
  const valueSchema = readerSchema(`an integer >= ${min}`, (value) => {
    const number = asNumber(value);
    if (typeof number !== "number" || !Number.isSafeInteger(number) || number < min) return undefined;
    // A value above the maximum is reduced to the maximum: the model wants as much as possible.
    return Math.min(number, max ?? Infinity);
  });
  return field(valueSchema, { schema, aliases });
}

/** Converts a number that came as a string. Returns any other value unchanged. */
export function asNumber(value: unknown): unknown {
  return typeof value === "string" && value.trim() !== "" ? Number(value) : value;
}

export function flag(description = "", { aliases = [] }: { aliases?: readonly string[] } = {}): Field<boolean> {
  const valueSchema = readerSchema("true or false", (value) => {
    if (typeof value === "boolean") return value;
    return typeof value === "string" && /^(true|false)$/i.test(value) ? value.toLowerCase() === "true" : undefined;
  });
  return field(valueSchema, { schema: describeSchema(description, { type: "boolean" }), aliases });
}

/** Creates a field for a list. `isStrict`: whether keys that its items do not read count as unknown arguments. */
export function list<T>(
  description: string,
  item: Field<T>,
  options: { min?: number; max: number; isStrict?: boolean },
): Field<T[]> {
  const { min = 0, max, isStrict = false } = options;
  const schema = describeSchema(description, { type: "array", items: item.spec.schema });
  const valueSchema = v.pipe(
    readerSchema("an array", (value) => {
      const unpackedValue = unpackJson(value, "[");
      return Array.isArray(unpackedValue) ? (unpackedValue as unknown[]) : undefined;
    }),
    v.minLength(min, createTypeMessage(`an array of at least ${min}`)),
    v.maxLength(max, ({ input }) => createTypeIssue(`an array of at most ${max}`, `${input.length} entries`).message),
    v.array(item),
  );
  const unreadItemKeys = (value: unknown): string[] => {
    const items = unpackJson(value, "[");
    if (!Array.isArray(items)) return [];
    return (items as unknown[]).flatMap((entry, i) =>
      isRecord(entry) ? (item.spec.unreadKeys?.(entry) ?? []).map((key) => `[${i}].${key}`) : [],
    );
  };
  return field(valueSchema, { schema, ...(isStrict && { unreadItemKeys }) });
}

/**
 * Creates a field for an object.
 *
 * - `isSparse`: absent fields are omitted from the result instead of undefined. Default: false.
 * - `keepsOthers`: keys that are not fields stay in the result. Default: false.
 */
export function object<ObjectFields extends Fields>(
  fields: ObjectFields,
  { isSparse = false, keepsOthers = false } = {},
): Field<Values<ObjectFields>> {
  const entries = Object.entries(fields);
  const visibleEntries = entries.filter(([, { spec }]) => spec.hidden !== true);
  const required = entries.filter(([, { spec }]) => spec.required).map(([name]) => name);
  const schema = {
    type: "object",
    properties: Object.fromEntries(visibleEntries.map(([name, { spec }]) => [name, spec.schema])),
    ...(required.length > 0 && { required }),
  };
  const objectSchema = v.pipe(
    readerSchema("an object", (value) => {
      const unpackedValue = unpackJson(value, "{");
      return isRecord(unpackedValue) ? resolveAliases(fields, unpackedValue, keepsOthers) : undefined;
    }),
    (keepsOthers ? v.looseObject(fields) : v.object(fields)) as v.GenericSchema<object, object>,
    v.transform((values) => (isSparse ? omitUndefined(values) : values)),
  );
  return field(objectSchema as v.GenericSchema<unknown, Values<ObjectFields>>, {
    schema,
    unreadKeys(value) {
      const names = new Map(entries.map(([name, { spec }]) => [keyOf(name, spec, value), spec]));
      // If the same value comes under two names, neither counts as unread.
      const isCopy = (key: string) =>
        [...names].some(([name, { aliases }]) => aliases.includes(key) && value[name] === value[key]);
      return Object.keys(value).flatMap((key) => {
        const spec = names.get(key);
        if (spec) return spec.unreadItemKeys?.(value[key]).map((itemKey) => `${key}${itemKey}`) ?? [];
        return isCopy(key) ? [] : [key];
      });
    },
  });
}

/** Returns an object with its fields under their main names. Null becomes undefined unless the field is nullable. */
function resolveAliases(fields: Fields, input: Readonly<Record<string, unknown>>, keepsOthers: boolean): object {
  // No prototype, because valibot treats inherited properties as arguments.
  const values = Object.assign(Object.create(null) as Record<string, unknown>, keepsOthers ? input : {});
  for (const [name, { spec }] of Object.entries(fields)) {
    const key = keyOf(name, spec, input);
    const fieldValue = Object.hasOwn(input, key) ? input[key] : undefined;
    values[name] = spec.nullable ? fieldValue : (fieldValue ?? undefined);
  }
  return values;
}

function omitUndefined(values: object): object {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
}

/** Returns the key of a field in an object: its name, or the first alias that exists. */
function keyOf(name: string, { aliases }: FieldSpec, value: object): string {
  return [name, ...aliases].find((key) => Object.hasOwn(value, key)) ?? name;
}

/**
 * Makes a field optional. An absent or null value becomes `fallback`, which is undefined by default. The schema for the
 * model names `fallback` unless it is false or 0.
 */
export function optional<T>(baseField: Field<T>): Field<T | undefined>;
export function optional<T>(baseField: Field<T>, fallback: T): Field<T>;
export function optional<T>(baseField: Field<T>, fallback?: T): Field<T | undefined> {
  const schema = fallback ? { ...baseField.spec.schema, default: fallback } : baseField.spec.schema;
  // valibot's own default is not used, because valibot would parse it like input of the model.
  const valueSchema = v.pipe(
    v.optional(baseField),
    v.transform((value) => (value === undefined ? fallback : value)),
  );
  return field(valueSchema, { ...baseField.spec, schema, required: false });
}

/** Creates an optional argument that is omitted from the schema for the model. */
export function hidden<T>(baseField: Field<T>): Field<T | undefined> {
  return field(v.optional(baseField), { ...baseField.spec, required: false, hidden: true });
}

/**
 * Defines the arguments of a tool. Null counts as absent; numbers and booleans may come as strings.
 *
 * `check` receives all values. `check` returns the values, possibly changed, or throws `ToolInputError`.
 */
export function defineArguments<ObjectFields extends Fields>(
  fields: ObjectFields,
  check: (values: Values<ObjectFields>) => Values<ObjectFields> = (values) => values,
): Arguments<Values<ObjectFields>> {
  const objectField = object(fields);
  return toArguments(field(v.pipe(objectField, v.transform(check)), objectField.spec));
}

/** Creates the arguments of a tool from a field that parses the whole input. */
export function toArguments<T>(objectField: Field<T>): Arguments<T> {
  const { schema, unreadKeys } = objectField.spec;
  const validate = (input: unknown) => objectField["~standard"].validate(input ?? {}) as SchemaResult<T>;
  return {
    schema,
    parse(input) {
      const result = validate(input);
      if (result.issues) throw new ToolInputError(describeIssues(result.issues));
      return result.value;
    },
    unreadKeys: (input) => unreadKeys?.(input) ?? [],
    "~standard": { version: 1, vendor: "valibot", validate, jsonSchema: { input: () => schema } },
  };
}

/** Formats issues as one line for the model. */
export function describeIssues(issues: readonly SchemaIssue[]): string {
  const messages = issues.slice(0, MAX_ISSUES).map(({ message, path = [] }) => {
    const keys = path.map((step) => (typeof step === "object" ? step.key : step));
    const pathText = keys.map((key, i) => (typeof key === "number" ? `[${key}]` : `${i > 0 ? "." : ""}${String(key)}`));
    return `${pathText.join("") || "arguments"}: ${message}`;
  });
  if (issues.length > MAX_ISSUES) messages.push(`and ${issues.length - MAX_ISSUES} more`);
  return messages.join("; ");
}
