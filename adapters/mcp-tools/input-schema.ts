import { isRecord, type JsonSchema } from "gantry/plugin";
import { removeInvisible } from "./printable-text.js";

/** Limits of one input schema: its size as JSON, and its nesting. The model reads every schema with each request. */
const SCHEMA_LIMITS = { bytes: 32 * 1024, depth: 24 };
const TYPE_NAMES = new Set(["object", "array", "string", "number", "integer", "boolean", "null"]);
/** Keywords whose value is one schema. */
const SCHEMA_KEYWORDS = new Set(
  "additionalProperties not contains propertyNames if then else items unevaluatedItems unevaluatedProperties contentSchema".split(
    " ",
  ),
);
/** Keywords whose value is a list of schemas. */
const SCHEMA_LIST_KEYWORDS = new Set(["anyOf", "oneOf", "allOf", "prefixItems"]);
/** Keywords whose value has schemas by name. */
const SCHEMA_MAP_KEYWORDS = new Set(["properties", "$defs", "definitions", "patternProperties", "dependentSchemas"]);
/**
 * Keywords whose value is not a schema, with a check of the value. A keyword with another value (such as `true` in an
 * older draft) is removed, because providers reject it.
 */
const VALUE_KEYWORDS: Readonly<Record<string, (value: unknown) => boolean>> = {
  ...createChecks("minimum maximum exclusiveMinimum exclusiveMaximum", Number.isFinite),
  ...createChecks("multipleOf", (value) => Number.isFinite(value) && (value as number) > 0),
  ...createChecks(
    "minLength maxLength minItems maxItems minProperties maxProperties minContains maxContains",
    (value) => Number.isSafeInteger(value) && (value as number) >= 0,
  ),
  ...createChecks("uniqueItems readOnly writeOnly deprecated", (value) => typeof value === "boolean"),
  ...createChecks("format contentEncoding contentMediaType", (value) => typeof value === "string"),
  ...createChecks("examples", Array.isArray),
  // References to other documents, and keywords of older drafts only: always removed.
  ...createChecks("$schema $id id $anchor $comment $vocabulary __proto__", () => false),
  ...createChecks("$dynamicRef $dynamicAnchor $recursiveRef $recursiveAnchor", () => false),
  ...createChecks("dependencies dependentRequired additionalItems", () => false),
};
const ALTERNATIVE_KEYWORDS = ["anyOf", "oneOf", "allOf"] as const;
/** Keywords that providers reject at the root of the arguments. */
const FORBIDDEN_ROOT_KEYWORDS = [
  ...ALTERNATIVE_KEYWORDS,
  "not",
  "if",
  "then",
  "else",
  "enum",
  "const",
  "dependentSchemas",
];
/** Argument names that Anthropic accepts. Other providers accept more names. */
const ARGUMENT_NAME_PATTERN = /^[A-Za-z0-9_.-]{1,64}$/;

const MAX_PATTERN_CHARACTERS = 1000;

/** A schema that cannot be sent to a model. The message is the reason. */
export class SchemaError extends Error {}

/**
 * Converts a tool's input schema to a schema that every provider accepts. A rejected schema would fail each model
 * request of the run.
 *
 * Optional constraints are removed, because the server validates the arguments. Throws `SchemaError` if the value is
 * not a usable schema.
 */
export function toArgumentsSchema(inputSchema: unknown): JsonSchema {
  // No schema: the tool takes no arguments.
  if (inputSchema === undefined) return { type: "object", properties: {} };
  if (!isRecord(inputSchema)) throw new SchemaError("the input schema is not an object");
  const alternatives = ALTERNATIVE_KEYWORDS.flatMap((key) =>
    Array.isArray(inputSchema[key]) ? (inputSchema[key] as unknown[]) : [],
  );
  const type =
    inputSchema["type"] ?? (alternatives.every((alternative) => isRecord(alternative)) ? "object" : undefined);
  if (type !== "object") throw new SchemaError("the type of the input schema must be object");
  const root: Record<string, unknown> = { ...inputSchema, type };
  for (const key of ["$schema", "$id", ...FORBIDDEN_ROOT_KEYWORDS]) delete root[key];
  const properties: Record<string, unknown> = {};
  for (const variant of [inputSchema, ...alternatives]) {
    const variantProperties = isRecord(variant) ? (variant["properties"] ?? {}) : {};
    if (!isRecord(variantProperties)) throw new SchemaError("the properties of the input schema are not an object");
    for (const [name, schema] of Object.entries(variantProperties)) {
      if (!ARGUMENT_NAME_PATTERN.test(name))
        throw new SchemaError(`invalid argument name ${JSON.stringify(name.slice(0, 64))}`);
      if (!Object.hasOwn(properties, name)) properties[name] = schema;
    }
  }
  const cleanedSchema = cleanSchema({ ...root, properties }, 0) as Record<string, unknown>;
  const { required } = cleanedSchema;
  if (Array.isArray(required))
    cleanedSchema["required"] = required.filter((name) => Object.hasOwn(properties, name as string));
  checkReferences(cleanedSchema, cleanedSchema);
  const schemaBytes = Buffer.byteLength(JSON.stringify(cleanedSchema));
  if (schemaBytes > SCHEMA_LIMITS.bytes)
    throw new SchemaError(`the input schema is larger than ${SCHEMA_LIMITS.bytes / 1024} kB`);
  return cleanedSchema;
}

/** Removes the keywords that some provider rejects. */
function cleanSchema(schema: unknown, depth: number): unknown {
  if (typeof schema === "boolean") return schema;
  if (!isRecord(schema)) throw new SchemaError("a part of the input schema is not a schema");
  if (depth > SCHEMA_LIMITS.depth) throw new SchemaError("the input schema is nested too deeply");
  const result: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(schema)) {
    const cleanValue = cleanKeyword(key, value, depth + 1);
    if (cleanValue !== undefined) result[key] = cleanValue;
  }
  // Providers reject an array without `items`.
  if (result["type"] === "array" && result["items"] === undefined) result["items"] = {};
  return result;
}

/** Returns the value of a keyword for providers; undefined removes the keyword. */
function cleanKeyword(key: string, value: unknown, depth: number): unknown {
  if (Object.hasOwn(VALUE_KEYWORDS, key)) return VALUE_KEYWORDS[key]!(value) ? value : undefined;
  if (key === "title" || key === "description") return typeof value === "string" ? removeInvisible(value) : undefined;
  if (key === "$ref") {
    if (typeof value === "string" && value.startsWith("#")) return value;
    throw new SchemaError("the input schema refers to another document");
  }
  if (key === "type") {
    const typeNames = Array.isArray(value) ? (value as unknown[]) : [value];
    if (typeNames.length > 0 && typeNames.every((typeName) => TYPE_NAMES.has(typeName as string)))
      return Array.isArray(value) ? [...new Set(typeNames)] : value;
    throw new SchemaError(`the input schema has the invalid type ${JSON.stringify(value)?.slice(0, 40) ?? "nothing"}`);
  }
  if (key === "pattern") return isSupportedPattern(value) ? value : undefined;
  if (key === "required")
    return Array.isArray(value) ? [...new Set(value)].filter((name) => typeof name === "string") : undefined;
  if (key === "enum") return Array.isArray(value) && value.length > 0 ? value : undefined;
  // The older form of tuples.
  if (key === "items" && Array.isArray(value)) return {};
  if (SCHEMA_KEYWORDS.has(key)) return cleanSchema(value, depth);
  if (SCHEMA_LIST_KEYWORDS.has(key)) {
    if (!Array.isArray(value) || value.length === 0) throw new SchemaError(`${key} in the input schema is not a list`);
    return value.map((item) => cleanSchema(item, depth));
  }
  if (SCHEMA_MAP_KEYWORDS.has(key)) {
    if (!isRecord(value)) throw new SchemaError(`${key} in the input schema is not an object`);
    return Object.fromEntries(Object.entries(value).map(([name, subschema]) => [name, cleanSchema(subschema, depth)]));
  }
  return value;
}

/** Throws `SchemaError` if a reference does not resolve. Recursive references are allowed. */
function checkReferences(value: unknown, root: unknown): void {
  if (Array.isArray(value)) for (const item of value) checkReferences(item, root);
  if (!isRecord(value)) return;
  for (const [key, child] of Object.entries(value)) {
    if (key === "$ref" && typeof child === "string" && !canResolve(child, root))
      throw new SchemaError("the input schema has a reference that does not resolve");
    checkReferences(child, root);
  }
}

function canResolve(reference: string, root: unknown): boolean {
  if (reference !== "#" && !reference.startsWith("#/")) return false;
  let target = root;
  for (const step of reference.split("/").slice(1)) {
    const key = decodeStep(step).replaceAll("~1", "/").replaceAll("~0", "~");
    if (typeof target !== "object" || target === null || !Object.hasOwn(target, key)) return false;
    target = (target as Readonly<Record<string, unknown>>)[key];
  }
  return isRecord(target) || typeof target === "boolean";
}

function decodeStep(step: string): string {
  try {
    return decodeURIComponent(step);
  } catch {
    return step;
  }
}

function createChecks<T>(names: string, check: T): Record<string, T> {
  return Object.fromEntries(names.split(" ").map((name) => [name, check]));
}

/** Whether all providers accept the pattern. Some providers do not support lookaround. */
function isSupportedPattern(value: unknown): boolean {
  if (typeof value !== "string" || value.length > MAX_PATTERN_CHARACTERS || /\(\?[=!<]/.test(value)) return false;
  try {
    new RegExp(value, "u");
    return true;
  } catch {
    return false;
  }
}
