import { isRecord, type JsonSchema } from "gantry/plugin";
import { plain as withoutUnseen } from "./printable-text.js";

/** Limits of one input schema: its size as JSON, and its nesting. The model reads every schema with each request. */
const MOST = { bytes: 32 * 1024, depth: 24 };
const TYPES = new Set(["object", "array", "string", "number", "integer", "boolean", "null"]);
/** Schema keywords whose value is one schema; below, a list of schemas, and schemas by name. */
const ONE = new Set(
  "additionalProperties not contains propertyNames if then else items unevaluatedItems unevaluatedProperties contentSchema".split(
    " ",
  ),
);
const LIST = new Set(["anyOf", "oneOf", "allOf", "prefixItems"]);
const NAMED = new Set(["properties", "$defs", "definitions", "patternProperties", "dependentSchemas"]);
/**
 * Keywords whose value is not a schema, with a check of the value. A keyword with another value (such as `true` in an
 * older draft) is removed, because providers reject it.
 */
const PLAIN: Readonly<Record<string, (value: unknown) => boolean>> = {
  ...keys("minimum maximum exclusiveMinimum exclusiveMaximum", Number.isFinite),
  ...keys("multipleOf", (value) => Number.isFinite(value) && (value as number) > 0),
  ...keys(
    "minLength maxLength minItems maxItems minProperties maxProperties minContains maxContains",
    (value) => Number.isSafeInteger(value) && (value as number) >= 0,
  ),
  ...keys("uniqueItems readOnly writeOnly deprecated", (value) => typeof value === "boolean"),
  ...keys("format contentEncoding contentMediaType", (value) => typeof value === "string"),
  ...keys("examples", Array.isArray),
  // References to other documents, and keywords of older drafts only: always removed.
  ...keys("$schema $id id $anchor $comment $vocabulary __proto__", () => false),
  ...keys("$dynamicRef $dynamicAnchor $recursiveRef $recursiveAnchor", () => false),
  ...keys("dependencies dependentRequired additionalItems", () => false),
};
/** Keywords that providers reject at the root of the arguments. */
const ALTERNATIVES = ["anyOf", "oneOf", "allOf"] as const;
const CONDITIONS = [...ALTERNATIVES, "not", "if", "then", "else", "enum", "const", "dependentSchemas"];
/** Argument names that Anthropic accepts. Other providers accept more. */
const ARGUMENT = /^[A-Za-z0-9_.-]{1,64}$/;

/** A schema that cannot be sent to a model. The message is the reason. */
export class SchemaFault extends Error {}

/**
 * Converts a tool's input schema to one that every provider accepts. A rejected schema would fail each model request of
 * the run.
 *
 * Optional constraints are removed, because the server validates the arguments. Throws `SchemaFault` if the value is
 * not a usable schema.
 */
export function argumentsSchema(given: unknown): JsonSchema {
  // No schema: the tool takes no arguments.
  if (given === undefined) return { type: "object", properties: {} };
  if (!isRecord(given)) throw new SchemaFault("its input schema is none");
  const arms = ALTERNATIVES.flatMap((key) => (Array.isArray(given[key]) ? (given[key] as unknown[]) : []));
  const type = given["type"] ?? (arms.every((arm) => isRecord(arm)) ? "object" : undefined);
  if (type !== "object") throw new SchemaFault("its input schema is not that of an object");
  const root: Record<string, unknown> = { ...given, type };
  for (const key of ["$schema", "$id", ...CONDITIONS]) delete root[key];
  const properties: Record<string, unknown> = {};
  for (const one of [given, ...arms]) {
    const own = isRecord(one) ? (one["properties"] ?? {}) : {};
    if (!isRecord(own)) throw new SchemaFault("the properties of its input schema are no object");
    for (const [name, schema] of Object.entries(own)) {
      if (!ARGUMENT.test(name))
        throw new SchemaFault(`it has an argument of the name ${JSON.stringify(name.slice(0, 64))}`);
      if (!Object.hasOwn(properties, name)) properties[name] = schema;
    }
  }
  const plain = clean({ ...root, properties }, 0) as Record<string, unknown>;
  const { required } = plain;
  if (Array.isArray(required)) plain["required"] = required.filter((name) => Object.hasOwn(properties, name as string));
  checkReferences(plain, plain);
  const bytes = Buffer.byteLength(JSON.stringify(plain));
  if (bytes > MOST.bytes) throw new SchemaFault(`its input schema is larger than ${MOST.bytes / 1024} kB`);
  return plain;
}

/** Removes the keywords that some provider rejects. */
function clean(schema: unknown, depth: number): unknown {
  if (typeof schema === "boolean") return schema;
  if (!isRecord(schema)) throw new SchemaFault("a part of its input schema is no schema");
  if (depth > MOST.depth) throw new SchemaFault("its input schema is nested too deep");
  const result: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(schema)) {
    const kept = cleanKey(key, value, depth + 1);
    if (kept !== undefined) result[key] = kept;
  }
  // Providers reject an array without `items`.
  if (result["type"] === "array" && result["items"] === undefined) result["items"] = {};
  return result;
}

function cleanKey(key: string, value: unknown, depth: number): unknown {
  if (Object.hasOwn(PLAIN, key)) return PLAIN[key]!(value) ? value : undefined;
  if (key === "title" || key === "description") return typeof value === "string" ? withoutUnseen(value) : undefined;
  if (key === "$ref") {
    if (typeof value === "string" && value.startsWith("#")) return value;
    throw new SchemaFault("its input schema refers to another place");
  }
  if (key === "type") {
    const all = Array.isArray(value) ? (value as unknown[]) : [value];
    if (all.length > 0 && all.every((one) => TYPES.has(one as string)))
      return Array.isArray(value) ? [...new Set(all)] : value;
    throw new SchemaFault(`its input schema has the type ${JSON.stringify(value)?.slice(0, 40) ?? "nothing"}`);
  }
  if (key === "pattern") return isPlainPattern(value) ? value : undefined;
  if (key === "required")
    return Array.isArray(value) ? [...new Set(value)].filter((one) => typeof one === "string") : undefined;
  if (key === "enum") return Array.isArray(value) && value.length > 0 ? value : undefined;
  // The older form of tuples.
  if (key === "items" && Array.isArray(value)) return {};
  if (ONE.has(key)) return clean(value, depth);
  if (LIST.has(key)) {
    if (!Array.isArray(value) || value.length === 0) throw new SchemaFault(`${key} of its input schema is no list`);
    return value.map((one) => clean(one, depth));
  }
  if (NAMED.has(key)) {
    if (!isRecord(value)) throw new SchemaFault(`${key} of its input schema is no object`);
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, clean(one, depth)]));
  }
  return value;
}

/** Throws `SchemaFault` if a reference does not resolve. Recursive references are allowed. */
function checkReferences(value: unknown, root: unknown): void {
  if (Array.isArray(value)) for (const one of value) checkReferences(one, root);
  if (!isRecord(value)) return;
  for (const [key, one] of Object.entries(value)) {
    if (key === "$ref" && typeof one === "string" && !leadsTo(one, root))
      throw new SchemaFault("its input schema refers to what is not there");
    checkReferences(one, root);
  }
}

function leadsTo(reference: string, root: unknown): boolean {
  if (reference !== "#" && !reference.startsWith("#/")) return false;
  let at = root;
  for (const step of reference.split("/").slice(1)) {
    const key = unescaped(step).replaceAll("~1", "/").replaceAll("~0", "~");
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, key)) return false;
    at = (at as Readonly<Record<string, unknown>>)[key];
  }
  return isRecord(at) || typeof at === "boolean";
}

function unescaped(step: string): string {
  try {
    return decodeURIComponent(step);
  } catch {
    return step;
  }
}

function keys<T>(names: string, fits: T): Record<string, T> {
  return Object.fromEntries(names.split(" ").map((name) => [name, fits]));
}

/** Whether all providers accept the pattern. Lookaround is not supported by all of them. */
function isPlainPattern(value: unknown): boolean {
  if (typeof value !== "string" || value.length > 1000 || /\(\?[=!<]/.test(value)) return false;
  try {
    new RegExp(value, "u");
    return true;
  } catch {
    return false;
  }
}
