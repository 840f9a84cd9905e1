import * as v from "valibot";
import { isRecord } from "../base/json.js";
import { withDocs, type Entries, type Option, type ReadValue, type Rest, type Value } from "./option.js";
import { createMismatchMessage, createPathStep, describeType, formatValue, validate } from "./read-options.js";

/** An option that is an object with known keys. */
export interface Section<E extends Entries = Entries, Value = SectionValue<E>> extends Option<Value> {
  readonly entries: E;
}

type CamelCase<Key> = Key extends `${infer Head}_${infer Rest}` ? `${Head}${Capitalize<CamelCase<Rest>>}` : Key;

/** Parsed value of a section. Keys are snake_case in a file and camelCase in the program. */
export type SectionValue<E extends Entries> = { [Key in keyof E as CamelCase<Key>]: Value<E[Key]> };

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

function toCamelCase(key: string): string {
  return key.replace(/_([a-z0-9])/g, (_all, letter: string) => letter.toUpperCase());
}
