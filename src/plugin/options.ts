import * as v from "valibot";
import { isRecord } from "../base/json.js";
import { findInvalidHeader } from "../http/header-map.js";
import type { JsonSchema } from "../ports/tool.js";
import { withDocs, type Option, type ReadValue, type Rest } from "./option.js";
import { createMismatchMessage, createPathStep } from "./read-options.js";

export {
  list,
  map,
  section,
  textOr,
  type OptionFault,
  type Section,
  type SectionRest,
  type SectionValue,
} from "./nested-options.js";
export type { Entries, Option, OptionDocs, ReadValue, Rest, Value } from "./option.js";
export { read } from "./read-options.js";

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
