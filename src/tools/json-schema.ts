import { isRecord } from "../base/json.js";
import type { JsonSchema } from "../ports/tool.js";
import {
  asNumber,
  flag,
  list,
  object,
  optional,
  readBy,
  text,
  unpacked,
  wrong,
  type Arguments,
  type Field,
} from "./arguments.js";

/** What is told by a JSON Schema that TypeScript knows word for word; `unknown` where it says what is not checked. */
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
              ? ObjectOf<Fields, Always<S, Fields>>
              : S extends { readonly type: "object" }
                ? Record<string, unknown>
                : unknown;

/** Names that are required or have a default. */
type Always<S, Fields> =
  | (S extends { readonly required: readonly (infer Name)[] } ? Name : never)
  | { [Name in keyof Fields]: Fields[Name] extends { readonly default: unknown } ? Name : never }[keyof Fields];

type ObjectOf<Fields, Names> = {
  -readonly [Name in keyof Fields as Name extends Names ? Name : never]: FromJsonSchema<Fields[Name]>;
} & { -readonly [Name in keyof Fields as Name extends Names ? never : Name]?: FromJsonSchema<Fields[Name]> };

/**
 * Arguments as a plain JSON Schema tells them. Looked at are `type`, `enum`, `const`, `properties`, `required`, `items`,
 * bounds, lengths, `default` and `additionalProperties: false`; every other word is for the model alone.
 */
export function argumentsBy(schema: JsonSchema): Arguments<unknown> {
  return readBy({ ...fieldOf(schema), schema });
}

function fieldOf(schema: unknown): Field<unknown> {
  if (!isRecord(schema)) return anything();
  const types = [schema["type"] ?? []].flat();
  const nullable = types.includes("null");
  const [type] = types.filter((one) => one !== "null");
  // Of several types none is asked for in particular: what came is looked at as it is.
  const field = types.length > (nullable ? 2 : 1) ? anything() : ofType(type, schema);
  return {
    ...field,
    nullable: nullable || type === undefined,
    read: (value) => (value === null && nullable ? null : field.read(value)),
  };
}

function ofType(type: unknown, schema: Readonly<Record<string, unknown>>): Field<unknown> {
  const choice = "const" in schema ? [schema["const"]] : schema["enum"];
  if (Array.isArray(choice)) return oneOf(choice);
  switch (type) {
    case "string":
      return checked(text("", { minLength: bound(schema["minLength"], 0) }), (value) => {
        const most = bound(schema["maxLength"], Infinity);
        return value.length > most ? `at most ${most} characters` : undefined;
      });
    case "integer":
    case "number":
      return numeric(type === "integer", schema);
    case "boolean":
      return flag("");
    case "array":
      return list("", fieldOf(schema["items"]), {
        min: bound(schema["minItems"], 0),
        max: bound(schema["maxItems"], Infinity),
      });
    case "object":
      return structure(schema);
    default:
      return anything();
  }
}

/** Unlike `object`: what was left out is not there, and unknown names stay unless the schema closes the door. */
function structure(schema: Readonly<Record<string, unknown>>): Field<unknown> {
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  const properties = isRecord(schema["properties"]) ? schema["properties"] : {};
  const fields = Object.entries(properties).map(([name, one]): [string, Field<unknown>] => {
    const fallback = isRecord(one) ? one["default"] : undefined;
    const field = fieldOf(one);
    return [name, required.includes(name) && fallback === undefined ? field : optional(field, fallback)];
  });
  const { unreadKeys, ...known } = object(Object.fromEntries(fields));
  return {
    ...known,
    ...(schema["additionalProperties"] === false && unreadKeys && { unreadKeys }),
    read(value) {
      const given = unpacked(value, "{");
      const read = Object.entries(known.read(given)).filter(([, one]) => one !== undefined);
      const others = Object.entries(given as object).filter(([name]) => !Object.hasOwn(properties, name));
      return Object.fromEntries(schema["additionalProperties"] === false ? read : [...others, ...read]);
    },
  };
}

function anything(): Field<unknown> {
  return {
    schema: {},
    required: true,
    aliases: [],
    nullable: true,
    read(value) {
      if (value === undefined) throw wrong("a value", value);
      return value;
    },
  };
}

function oneOf(choice: readonly unknown[]): Field<unknown> {
  return {
    ...anything(),
    nullable: choice.includes(null),
    read(value) {
      const found = choice.find((one) => one === value || (typeof one !== "string" && String(one) === value));
      if (found === undefined) throw wrong(`one of ${choice.map((one) => JSON.stringify(one)).join(", ")}`, value);
      return found;
    },
  };
}

function numeric(whole: boolean, schema: Readonly<Record<string, unknown>>): Field<number> {
  const min = bound(schema["minimum"], -Infinity);
  const max = bound(schema["maximum"], Infinity);
  const limits = [...(min > -Infinity ? [`>= ${min}`] : []), ...(max < Infinity ? [`<= ${max}`] : [])].join(" and ");
  const expected = `${whole ? "an integer" : "a number"}${limits && ` ${limits}`}`;
  return {
    ...anything(),
    nullable: false,
    read(value) {
      const given = asNumber(value);
      const right = whole ? Number.isSafeInteger(given) : Number.isFinite(given);
      if (!right || (given as number) < min || (given as number) > max) throw wrong(expected, value);
      return given as number;
    },
  };
}

function checked<T>(field: Field<T>, fault: (value: T) => string | undefined): Field<T> {
  return {
    ...field,
    read(value) {
      const read = field.read(value);
      const expected = fault(read);
      if (expected !== undefined) throw wrong(expected, value);
      return read;
    },
  };
}

function bound(value: unknown, fallback: number): number {
  return typeof value === "number" ? value : fallback;
}
