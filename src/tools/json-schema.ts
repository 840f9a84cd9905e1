import * as v from "valibot";
import { isRecord } from "../base/json.js";
import type { JsonSchema } from "../ports/tool.js";
import {
  asNumber,
  field,
  flag,
  createTypeMessage,
  list,
  object,
  optional,
  toArguments,
  readerSchema,
  text,
  type Arguments,
  type Field,
} from "./arguments.js";

/** The type that a literal JSON Schema describes. `unknown` for keywords that are not checked. */
export type FromJsonSchema<S> = S extends { readonly enum: readonly (infer V)[] }
  ? V
  : S extends { readonly const: infer V }
    ? V
    : S extends { readonly type: "string" }
      ? string
      : S extends { readonly type: "integer" | "number" }
        ? number
        : S extends { readonly type: "boolean" }
          ? boolean
          : S extends { readonly type: "array"; readonly items: infer Item }
            ? FromJsonSchema<Item>[]
            : S extends { readonly type: "object"; readonly properties: infer Fields }
              ? ObjectOf<Fields, AlwaysPresent<S, Fields>>
              : S extends { readonly type: "object" }
                ? Record<string, unknown>
                : unknown;

/** Names of properties that are required or have a default. */
type AlwaysPresent<S, Fields> =
  | (S extends { readonly required: readonly (infer Name)[] } ? Name : never)
  | { [Name in keyof Fields]: Fields[Name] extends { readonly default: unknown } ? Name : never }[keyof Fields];

type ObjectOf<Fields, Names> = {
  -readonly [Name in keyof Fields as Name extends Names ? Name : never]: FromJsonSchema<Fields[Name]>;
} & { -readonly [Name in keyof Fields as Name extends Names ? never : Name]?: FromJsonSchema<Fields[Name]> };

/**
 * Creates the arguments of a tool from a plain JSON Schema. Checks `type`, `enum`, `const`, `properties`, `required`,
 * `items`, bounds, lengths, `default` and `additionalProperties: false`. All other keywords only inform the model.
 */
export function argumentsFromJsonSchema(schema: JsonSchema): Arguments<unknown> {
  const rootField = createField(schema);
  return toArguments(field(rootField, { ...rootField.spec, schema }));
}

function createField(schema: unknown): Field<unknown> {
  if (!isRecord(schema)) return createAnyField();
  const types = [schema["type"] ?? []].flat();
  const isNullable = types.includes("null");
  const [type] = types.filter((typeName) => typeName !== "null");
  // If several types besides null are allowed, the value is not checked.
  const typedField = types.length > (isNullable ? 2 : 1) ? createAnyField() : createTypedField(type, schema);
  return field(isNullable ? v.nullable(typedField) : typedField, {
    ...typedField.spec,
    nullable: isNullable || type === undefined,
  });
}

function createTypedField(type: unknown, schema: Readonly<Record<string, unknown>>): Field<unknown> {
  const choices = "const" in schema ? [schema["const"]] : schema["enum"];
  if (Array.isArray(choices)) return createEnumField(choices);
  switch (type) {
    case "string":
      return createStringField(schema);
    case "integer":
    case "number":
      return createNumberField(type === "integer", schema);
    case "boolean":
      return flag("");
    case "array":
      return list("", createField(schema["items"]), {
        min: readBound(schema["minItems"], 0),
        max: readBound(schema["maxItems"], Infinity),
      });
    case "object":
      return createObjectField(schema);
    default:
      return createAnyField();
  }
}

function createObjectField(schema: Readonly<Record<string, unknown>>): Field<unknown> {
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  const properties = isRecord(schema["properties"]) ? schema["properties"] : {};
  const fields = Object.entries(properties).map(([name, propertySchema]): [string, Field<unknown>] => {
    const fallback = isRecord(propertySchema) ? propertySchema["default"] : undefined;
    const propertyField = createField(propertySchema);
    return [
      name,
      required.includes(name) && fallback === undefined ? propertyField : optional(propertyField, fallback),
    ];
  });
  const isClosed = schema["additionalProperties"] === false;
  const baseField = object(Object.fromEntries(fields), { isSparse: true, keepsOthers: !isClosed });
  const { unreadKeys: _unread, ...openSpec } = baseField.spec;
  return isClosed ? baseField : field(baseField, openSpec);
}

const createAnyField = (): Field<unknown> =>
  field(
    readerSchema("a value", (value) => value),
    { schema: {}, nullable: true },
  );

function createEnumField(choices: readonly unknown[]): Field<unknown> {
  const valueSchema = readerSchema(
    `one of ${choices.map((choiceValue) => JSON.stringify(choiceValue)).join(", ")}`,
    (value) =>
      choices.find(
        (choiceValue) => choiceValue === value || (typeof choiceValue !== "string" && String(choiceValue) === value),
      ),
  );
  return field(valueSchema, { schema: {}, nullable: choices.includes(null) });
}

function createNumberField(isInteger: boolean, schema: Readonly<Record<string, unknown>>): Field<unknown> {
  const min = readBound(schema["minimum"], -Infinity);
  const max = readBound(schema["maximum"], Infinity);
  const limits = [...(min > -Infinity ? [`>= ${min}`] : []), ...(max < Infinity ? [`<= ${max}`] : [])].join(" and ");
  const valueSchema = readerSchema(`${isInteger ? "an integer" : "a number"}${limits && ` ${limits}`}`, (value) => {
    const number = asNumber(value) as number;
    const isValid = isInteger ? Number.isSafeInteger(number) : Number.isFinite(number);
    return isValid && number >= min && number <= max ? number : undefined;
  });
  return field(valueSchema, { schema: {} });
}

function createStringField(schema: Readonly<Record<string, unknown>>): Field<unknown> {
  const max = readBound(schema["maxLength"], Infinity);
  const textField = text("", { minLength: readBound(schema["minLength"], 0) });
  return field(v.pipe(textField, v.maxLength(max, createTypeMessage(`at most ${max} characters`))), textField.spec);
}

function readBound(value: unknown, fallback: number): number {
  return typeof value === "number" ? value : fallback;
}
