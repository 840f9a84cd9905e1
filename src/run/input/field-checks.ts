import { InputError } from "../../ports/errors.js";

const EXPECTED_TYPES = { string: "a string", boolean: "true or false", function: "a function" };

type FieldType = keyof typeof EXPECTED_TYPES | "any";
/** The `typeof` of each field of a record, as far as `checkFields` checks it. */
export type FieldTypes<T> = Readonly<Record<keyof T, FieldType>>;

/** Throws `InputError` for an unknown field, or a field of another type. Undefined fields are valid. */
export function checkFields<T extends object>(record: T, types: FieldTypes<T>): void {
  for (const [field, value] of Object.entries(record)) {
    if (!Object.hasOwn(types, field)) throw new InputError(field, `one of ${Object.keys(types).join(", ")}`);
    const type: FieldType = types[field as keyof T];
    if (type !== "any" && value !== undefined && typeof value !== type)
      throw new InputError(field, EXPECTED_TYPES[type]);
  }
}

/** Throws `InputError` unless `value` is one of the names. */
export function checkOneOf(field: string, names: readonly string[], value: unknown): void {
  if (!names.includes(value as string))
    throw new InputError(field, `one of ${names.map((name) => JSON.stringify(name)).join(", ")}`);
}

/** Throws `InputError` unless `value` is a list of objects with a name and these methods. */
export function checkObjects(field: string, value: unknown, noun: string, methods: readonly string[]): void {
  if (!Array.isArray(value)) throw new InputError(field, `a list of ${noun}`);
  value.forEach((entry, i) => checkObject(`${field}[${i}]`, entry, `one of the ${noun}, with`, methods));
}

/** Throws `InputError` unless `value` has a name and these methods. */
export function checkObject(field: string, value: unknown, expected: string, methods: readonly string[]): void {
  const record = (typeof value === "object" && value !== null ? value : {}) as Readonly<Record<string, unknown>>;
  const missingMembers = methods.filter((name) => typeof record[name] !== "function");
  if (typeof record["name"] !== "string") missingMembers.unshift("name");
  if (missingMembers.length > 0) throw new InputError(field, `${expected} ${missingMembers.join(", ")}`);
}
