import * as v from "valibot";
import { isRecord } from "../base/json.js";
import { findInvalidHeader } from "../http/header-map.js";
import type { JsonSchema } from "../ports/tool.js";
import type { StandardSchema } from "../tools/standard-schema.js";
import { createPathStep, describeType, formatValue, validate, createMismatchMessage } from "./read-options.js";

export { read } from "./read-options.js";

/** Documentation of an option, for the reference pages and editors. */
export interface OptionDocs {
  /** Description, one sentence of Markdown. */
  readonly about: string;
  /** Readable type, such as `number, 0–65535`. */
  readonly type: string;
  /** JSON Schema of the value, without the contents of sections and lists. */
  readonly json: JsonSchema;
  readonly default?: unknown;
  readonly required: boolean;
  /** Whether values can be secret. Messages never contain them. */
  readonly secret: boolean;
  /** For sections: the options by key. */
  readonly entries?: Entries;
  /** For sections: whether other keys are allowed. */
  readonly open?: boolean;
  /** Whether a string can replace the section. */
  readonly orText?: boolean;
  /** For lists and maps: the option of each item. */
  readonly item?: Option<unknown>;
  /** Whether the option is a map. */
  readonly isMap?: boolean;
}

/** An option or a section: its validation, its default and its documentation. */
export interface Option<Value> extends v.GenericSchema<unknown, Value> {
  readonly docs: OptionDocs;
}

/** Options of a section by key. Schemas of other Standard Schema libraries are allowed. */
export type Entries = Readonly<Record<string, Option<unknown> | StandardSchema>>;

/** An option that is an object with known keys. */
export interface Section<E extends Entries = Entries, Value = SectionValue<E>> extends Option<Value> {
  readonly entries: E;
}

type CamelCase<Key> = Key extends `${infer Head}_${infer Rest}` ? `${Head}${Capitalize<CamelCase<Rest>>}` : Key;

/** Parsed value of a section. Keys are snake_case in a file and camelCase in the program. */
export type SectionValue<E extends Entries> = { [Key in keyof E as CamelCase<Key>]: Value<E[Key]> };

/** Parsed value of an option or section. */
export type Value<Schema> = Schema extends StandardSchema<infer Output> ? Output : never;

/** Default of an option, and whether it is required. An option with neither can be undefined. */
export interface Rest<T> {
  readonly default?: T;
  readonly required?: boolean;
}
type ReadValue<T, R> = R extends { readonly default: T } | { readonly required: true } ? T : T | undefined;

/** An option with a custom check. */
export function custom<T, const R extends Rest<T> = Rest<T>>(
  about: string,
  settings: {
    readonly fits: (value: unknown) => boolean;
    /** Text after "expected" in error messages. */
    readonly expected: string;
    readonly type: string;
    readonly json: JsonSchema;
    readonly secret?: boolean;
  } & R,
): Option<ReadValue<T, R>> {
  return withDocs(v.custom<T>(settings.fits, createMismatchMessage(settings.expected, settings.secret)), {
    ...settings,
    about,
  });
}

/** A string. `fits` and `expected` restrict it; `pattern` is the restriction in JSON Schema. */
export function text<
  const R extends Rest<string> & {
    readonly fits?: (value: string) => boolean;
    readonly expected?: string;
    readonly pattern?: string;
    readonly secret?: boolean;
  },
>(about: string, settings: R = {} as R): Option<ReadValue<string, R>> {
  const { fits = () => true, expected = "a string", pattern } = settings;
  return custom<string, R>(about, {
    ...settings,
    expected,
    type: "string",
    json: { type: "string", ...(pattern === undefined ? {} : { pattern }) },
    fits: (value) => typeof value === "string" && fits(value),
  });
}

/** The path of a file or folder. The reader resolves it against the config file's folder. */
export function path<const R extends Rest<string>>(about: string, settings: R = {} as R): Option<ReadValue<string, R>> {
  return text(about, { ...settings, expected: "a path", fits: (value: string) => !value.includes("\0") });
}

/** A boolean. */
export function flag<const R extends Rest<boolean>>(
  about: string,
  settings: R = {} as R,
): Option<ReadValue<boolean, R>> {
  const json = { type: "boolean" };
  const fits = (value: unknown) => typeof value === "boolean";
  return custom<boolean, R>(about, { ...settings, expected: "true or false", type: "boolean", json, fits });
}

/** One of several strings. */
export function oneOf<const T extends string, const R extends Rest<T>>(
  allowedValues: readonly T[],
  about: string,
  settings: R = {} as R,
): Option<ReadValue<T, R>> {
  return custom<T, R>(about, {
    ...settings,
    expected: `one of ${allowedValues.map((value) => JSON.stringify(value)).join(", ")}`,
    type: "string",
    json: { type: "string", enum: allowedValues },
    fits: (value) => (allowedValues as readonly unknown[]).includes(value),
  });
}

/** Bounds of a number. `above` is exclusive. */
export interface Range {
  readonly above?: number;
  readonly min?: number;
  readonly max?: number;
}

/** A number. `unit` is its unit, such as `seconds`. */
export function number<const R extends Rest<number> & Range & { readonly unit?: string }>(
  about: string,
  settings: R = {} as R,
): Option<ReadValue<number, R>> {
  const { unit } = settings;
  return rangedNumber<R>(about, settings, unit ?? "a number", unit ?? "number", Number.isFinite);
}

/** An integer. */
export function integer<const R extends Rest<number> & Range>(
  about: string,
  settings: R = {} as R,
): Option<ReadValue<number, R>> {
  return rangedNumber<R>(about, settings, "a whole number", "number", Number.isSafeInteger);
}

function rangedNumber<R extends Rest<number> & Range>(
  about: string,
  settings: R,
  noun: string,
  type: string,
  isNumber: (value: unknown) => boolean,
): Option<ReadValue<number, R>> {
  const { above, min, max } = settings;
  const minText = above === undefined ? (min === undefined ? "" : `, at least ${min}`) : ` above ${above}`;
  const maxText = max === undefined ? "" : `, at most ${max}`;
  return custom<number, R>(about, {
    ...settings,
    expected: noun + (min !== undefined && max !== undefined ? ` from ${min} to ${max}` : minText + maxText),
    type: type + (min !== undefined && max !== undefined ? `, ${min}–${max}` : ""),
    json: {
      type: isNumber === Number.isFinite ? "number" : "integer",
      ...(above === undefined ? {} : { exclusiveMinimum: above }),
      ...(min === undefined ? {} : { minimum: min }),
      ...(max === undefined ? {} : { maximum: max }),
    },
    fits: (value) =>
      isNumber(value) &&
      (value as number) > (above ?? -Infinity) &&
      (value as number) >= (min ?? -Infinity) &&
      (value as number) <= (max ?? Infinity),
  });
}

/**
 * Header names and values. `sent`: whether this server sends the headers. `reserved`: names in lower case that the user
 * must not set, because this server sets them.
 */
export function headers<const R extends Rest<Record<string, string>>>(
  about: string,
  settings: R & { readonly sent?: boolean; readonly reserved?: ReadonlySet<string> } = {} as R,
): Option<ReadValue<Record<string, string>, R>> {
  const { sent = false, reserved } = settings;
  const check = v.pipe(
    // A value that is not an object could be a secret: do not show it.
    v.custom<Record<string, string>>(isRecord, createMismatchMessage("an object of header names and values", true)),
    v.rawTransform(({ dataset: { value }, addIssue, NEVER }) => {
      const fault = findInvalidHeader(value, sent);
      const reservedName = Object.keys(value).find((name) => reserved?.has(name.toLowerCase()));
      if (fault === undefined && reservedName === undefined) return value;
      // The value could be a secret: show the key or the type only.
      const key = fault?.key.slice(1) ?? reservedName ?? "";
      const shownText = key.startsWith('"') || fault === undefined ? key : typeof value[key];
      const expected = fault?.expected ?? "another header: this one is set by the server";
      addIssue({ message: `expected ${expected}, got ${shownText}`, path: [createPathStep(value, key)] });
      return NEVER;
    }),
  );
  const json = { type: "object", additionalProperties: { type: "string" } };
  return withDocs(check, { ...settings, about, type: "object", json });
}

/** A list of items. `filled` is the item's name if the list must not be empty. */
export function list<T, const R extends Rest<readonly Exclude<T, undefined>[]>>(
  item: Option<T>,
  about: string,
  settings: R & { readonly filled?: string } = {} as R,
): Option<ReadValue<readonly Exclude<T, undefined>[], R>> {
  const { type } = item.docs;
  const noun = type === "" ? "a list" : `a list of ${type}s`;
  const check = v.pipe(
    v.custom<unknown[]>(Array.isArray, createMismatchMessage(noun)),
    v.rawTransform(({ dataset: { value }, addIssue, NEVER }) => {
      if (settings.filled !== undefined && value.length === 0) {
        addIssue({ message: `expected at least one ${settings.filled}, got 0` });
        return NEVER;
      }
      const items: Exclude<T, undefined>[] = [];
      for (const [i, element] of value.entries()) {
        const issue = validate(item, element, (output) => items.push(output as Exclude<T, undefined>));
        if (!issue) continue;
        addIssue({ ...issue, path: [createPathStep(value, i), ...issue.path] });
        return NEVER;
      }
      return items;
    }),
  );
  const json = { type: "array", ...(settings.filled === undefined ? {} : { minItems: 1 }) };
  return withDocs(check, { ...settings, about, type: noun.slice(2), json, item });
}

/** Items by names that the user chooses. `names` restricts the names. */
export function map<T>(
  item: Option<T>,
  about: string,
  names: { readonly fits: (name: string) => boolean; readonly expected: string },
): Option<Readonly<Record<string, Exclude<T, undefined>>>> {
  const check = v.pipe(
    v.custom<Record<string, unknown>>(isRecord, createMismatchMessage("an object")),
    v.rawTransform(({ dataset: { value }, addIssue, NEVER }) => {
      // Without a prototype, names such as `constructor` find no inherited member.
      const parsedMap = Object.create(null) as Record<string, Exclude<T, undefined>>;
      for (const [name, rawValue] of Object.entries(value)) {
        const issue = names.fits(name)
          ? validate(item, rawValue, (output) => (parsedMap[name] = output as Exclude<T, undefined>))
          : { message: `expected ${names.expected}, got ${formatValue(name)}`, path: [] };
        if (!issue) continue;
        addIssue({ ...issue, path: [createPathStep(value, name), ...issue.path] });
        return NEVER;
      }
      return parsedMap;
    }),
  );
  const docs = { about, type: "object", json: { type: "object" }, item, isMap: true, default: {} };
  return withDocs<Readonly<Record<string, Exclude<T, undefined>>>, { default: Record<string, never> }>(check, docs);
}

/** A violated rule of a section: the key, and the value expected there. */
export interface OptionFault {
  readonly key: string;
  readonly expected: string;
}

/** Further settings of a section. */
export interface SectionRest<E extends Entries> {
  readonly about?: string;
  /** Text after "expected" if the value is not an object. Default: an object with these keys. */
  readonly expected?: string;
  /** Whether other keys are allowed. Their values are not checked or changed. */
  readonly open?: boolean;
  /** Whether an absent section is undefined. By default it is a section of defaults. */
  readonly optional?: boolean;
  /** Checks several options together. Returns undefined if they are valid. */
  readonly rule?: (values: SectionValue<E>) => OptionFault | undefined;
}

/** An object with an option for each key. The keys of the result are in camelCase. */
export function section<const E extends Entries, const R extends SectionRest<E> = SectionRest<E>>(
  entries: E,
  settings: R = {} as R,
): Section<E, SectionValue<E> | (R extends { optional: true } ? undefined : never)> {
  const keys = Object.keys(entries);
  const {
    open = false,
    expected = `an object${keys.length === 0 ? "" : ` with the keys ${keys.join(", ")}`}`,
    rule,
  } = settings;
  const check = v.pipe(
    // Valibot accepts a list as an object and drops keys such as `__proto__`.
    v.custom<Record<string, unknown>>(isRecord, createMismatchMessage(expected)),
    v.rawTransform(({ dataset: { value }, addIssue, NEVER }) => {
      const extraKeys = Object.keys(value).filter((key) => !Object.hasOwn(entries, key));
      const [unknownKey] = extraKeys;
      if (unknownKey !== undefined && !open) {
        const expectedKeys = keys.length === 0 ? "there are no options" : `expected one of ${keys.join(", ")}`;
        addIssue({ message: `unknown key; ${expectedKeys}`, path: [createPathStep(value, unknownKey)] });
        return NEVER;
      }
      const values: Record<string, unknown> = Object.fromEntries(extraKeys.map((key) => [key, value[key]]));
      for (const key of keys) {
        const rawValue = Object.hasOwn(value, key) ? value[key] : undefined;
        const issue = validate(entries[key]!, rawValue, (output) => (values[toCamelCase(key)] = output));
        if (!issue) continue;
        addIssue({ ...issue, path: [createPathStep(value, key), ...issue.path] });
        return NEVER;
      }
      const fault = rule?.(values as SectionValue<E>);
      if (fault === undefined) return values as SectionValue<E>;
      const { secret = true } = (entries[fault.key] as Partial<Option<unknown>> | undefined)?.docs ?? {};
      const shownText = (secret ? describeType : formatValue)(value[fault.key]);
      const message = `expected ${fault.expected}, got ${shownText}`;
      addIssue({ message, path: [createPathStep(value, fault.key)] });
      return NEVER;
    }),
  );
  const sectionOption = withDocs<SectionValue<E>, Rest<SectionValue<E>>>(check, {
    about: settings.about ?? "",
    type: "object",
    json: { type: "object" },
    ...(settings.optional === true ? {} : { default: {} as SectionValue<E> }),
    entries,
    open,
  });
  return Object.assign(sectionOption, { entries }) as Section<E, SectionValue<E>>;
}

/** A section that a string can replace. The string is the value of `key`. */
export function textOr<const E extends Entries>(key: keyof E & string, fullSection: Section<E>): Section<E> {
  const check = v.pipe(
    v.unknown(),
    v.rawTransform(({ dataset: { value }, addIssue, NEVER }) => {
      let sectionValue: unknown;
      const issue = validate(
        fullSection,
        typeof value === "string" ? { [key]: value } : value,
        (output) => (sectionValue = output),
      );
      if (!issue) return sectionValue as SectionValue<E>;
      addIssue({ ...issue, path: issue.path as never });
      return NEVER;
    }),
  );
  return Object.assign(withDocs(check, { ...fullSection.docs, orText: true }), {
    entries: fullSection.entries,
  }) as Section<E>;
}

function withDocs<T, R extends Rest<T>>(
  check: v.GenericSchema<unknown, T>,
  settings: Omit<OptionDocs, "required" | "secret" | "default"> & { readonly secret?: boolean } & Rest<T>,
): Option<ReadValue<T, R>> {
  const { required = false, secret = false } = settings;
  const schema = required ? check : v.optional(check, settings.default as never);
  return Object.assign(schema as v.GenericSchema<unknown, ReadValue<T, R>>, {
    docs: { ...settings, required, secret },
  });
}

function toCamelCase(key: string): string {
  return key.replace(/_([a-z0-9])/g, (_all, letter: string) => letter.toUpperCase());
}
