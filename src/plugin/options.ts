import * as v from "valibot";
import { isRecord } from "../base/json.js";
import { headerFaultIn } from "../http/header-map.js";
import type { JsonSchema } from "../ports/tool.js";
import type { StandardSchema } from "../tools/standard-schema.js";
import { at, kindOf, shown, take, unexpected } from "./read-options.js";

export { read } from "./read-options.js";

/** Documentation of an option, for the reference pages and editors. */
export interface OptionDocs {
  /** One sentence of Markdown. */
  readonly about: string;
  /** Readable type, such as `number, 0–65535`. */
  readonly type: string;
  /** JSON Schema of the value, without the contents of sections and lists. */
  readonly json: JsonSchema;
  readonly default?: unknown;
  readonly required: boolean;
  /** Whether values can be secret. Messages never contain them. */
  readonly secret: boolean;
  /** For sections: the options by key, and below, whether other keys are allowed. */
  readonly entries?: Entries;
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

type Camel<Key> = Key extends `${infer Head}_${infer Rest}` ? `${Head}${Capitalize<Camel<Rest>>}` : Key;

/** Parsed value of a section. Keys are snake_case in a file and camelCase in the program. */
export type SectionValue<E extends Entries> = { [Key in keyof E as Camel<Key>]: Value<E[Key]> };

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
  return withDocs(v.custom<T>(settings.fits, unexpected(settings.expected, settings.secret)), { ...settings, about });
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
  words: readonly T[],
  about: string,
  settings: R = {} as R,
): Option<ReadValue<T, R>> {
  return custom<T, R>(about, {
    ...settings,
    expected: `one of ${words.map((word) => JSON.stringify(word)).join(", ")}`,
    type: "string",
    json: { type: "string", enum: words },
    fits: (value) => (words as readonly unknown[]).includes(value),
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
  isOne: (value: unknown) => boolean,
): Option<ReadValue<number, R>> {
  const { above, min, max } = settings;
  const least = above === undefined ? (min === undefined ? "" : `, at least ${min}`) : ` above ${above}`;
  const most = max === undefined ? "" : `, at most ${max}`;
  return custom<number, R>(about, {
    ...settings,
    expected: noun + (min !== undefined && max !== undefined ? ` from ${min} to ${max}` : least + most),
    type: type + (min !== undefined && max !== undefined ? `, ${min}–${max}` : ""),
    json: {
      type: isOne === Number.isFinite ? "number" : "integer",
      ...(above === undefined ? {} : { exclusiveMinimum: above }),
      ...(min === undefined ? {} : { minimum: min }),
      ...(max === undefined ? {} : { maximum: max }),
    },
    fits: (value) =>
      isOne(value) &&
      (value as number) > (above ?? -Infinity) &&
      (value as number) >= (min ?? -Infinity) &&
      (value as number) <= (max ?? Infinity),
  });
}

/**
 * Header names and values. `sent` is true for headers that this server sends. `reserved` are names in lower case that
 * it sets itself.
 */
export function headers<const R extends Rest<Record<string, string>>>(
  about: string,
  settings: R & { readonly sent?: boolean; readonly reserved?: ReadonlySet<string> } = {} as R,
): Option<ReadValue<Record<string, string>, R>> {
  const { sent = false, reserved } = settings;
  const check = v.pipe(
    // Without a name, the value could be the secret: do not show it.
    v.custom<Record<string, string>>(isRecord, unexpected("an object of header names and values", true)),
    v.rawTransform(({ dataset: { value }, addIssue, NEVER }) => {
      const fault = headerFaultIn(value, sent);
      const taken = Object.keys(value).find((name) => reserved?.has(name.toLowerCase()));
      if (fault === undefined && taken === undefined) return value;
      // The value could be a secret: show the key or the type only.
      const key = fault?.key.slice(1) ?? taken ?? "";
      const got = key.startsWith('"') || fault === undefined ? key : typeof value[key];
      const expected = fault?.expected ?? "another header: this one is set by the server";
      addIssue({ message: `expected ${expected}, got ${got}`, path: [at(value, key)] });
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
    v.custom<unknown[]>(Array.isArray, unexpected(noun)),
    v.rawTransform(({ dataset: { value }, addIssue, NEVER }) => {
      if (settings.filled !== undefined && value.length === 0) {
        addIssue({ message: `expected at least one ${settings.filled}, got 0` });
        return NEVER;
      }
      const read: Exclude<T, undefined>[] = [];
      for (const [i, element] of value.entries()) {
        const issue = take(item, element, (taken) => read.push(taken as Exclude<T, undefined>));
        if (!issue) continue;
        addIssue({ ...issue, path: [at(value, i), ...issue.path] });
        return NEVER;
      }
      return read;
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
    v.custom<Record<string, unknown>>(isRecord, unexpected("an object")),
    v.rawTransform(({ dataset: { value }, addIssue, NEVER }) => {
      // Without the members of Object.prototype.
      const read = Object.create(null) as Record<string, Exclude<T, undefined>>;
      for (const [name, rawValue] of Object.entries(value)) {
        const issue = names.fits(name)
          ? take(item, rawValue, (taken) => (read[name] = taken as Exclude<T, undefined>))
          : { message: `expected ${names.expected}, got ${shown(name)}`, path: [] };
        if (!issue) continue;
        addIssue({ ...issue, path: [at(value, name), ...issue.path] });
        return NEVER;
      }
      return read;
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
  /** Whether other keys are allowed. They are kept unchanged. */
  readonly open?: boolean;
  /** Whether an absent section is undefined. By default it is a section of defaults. */
  readonly optional?: boolean;
  /** Checks several options together. Undefined if they are valid. */
  readonly rule?: (read: SectionValue<E>) => OptionFault | undefined;
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
    v.custom<Record<string, unknown>>(isRecord, unexpected(expected)),
    v.rawTransform(({ dataset: { value }, addIssue, NEVER }) => {
      const extraKeys = Object.keys(value).filter((key) => !Object.hasOwn(entries, key));
      const [unknown] = extraKeys;
      if (unknown !== undefined && !open) {
        const expectedKeys = keys.length === 0 ? "there are no options" : `expected one of ${keys.join(", ")}`;
        addIssue({ message: `unknown key; ${expectedKeys}`, path: [at(value, unknown)] });
        return NEVER;
      }
      const read: Record<string, unknown> = Object.fromEntries(extraKeys.map((key) => [key, value[key]]));
      for (const key of keys) {
        const rawValue = Object.hasOwn(value, key) ? value[key] : undefined;
        const issue = take(entries[key]!, rawValue, (taken) => (read[camel(key)] = taken));
        if (!issue) continue;
        addIssue({ ...issue, path: [at(value, key), ...issue.path] });
        return NEVER;
      }
      const fault = rule?.(read as SectionValue<E>);
      if (fault === undefined) return read as SectionValue<E>;
      const { secret = true } = (entries[fault.key] as Partial<Option<unknown>> | undefined)?.docs ?? {};
      const got = (secret ? kindOf : shown)(value[fault.key]);
      addIssue({ message: `expected ${fault.expected}, got ${got}`, path: [at(value, fault.key)] });
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
      let read: unknown;
      const issue = take(fullSection, typeof value === "string" ? { [key]: value } : value, (taken) => (read = taken));
      if (!issue) return read as SectionValue<E>;
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

function camel(key: string): string {
  return key.replace(/_([a-z0-9])/g, (_all, letter: string) => letter.toUpperCase());
}
