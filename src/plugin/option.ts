import * as v from "valibot";
import type { JsonSchema } from "../ports/tool.js";
import type { StandardSchema } from "../tools/standard-schema.js";

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

/** Parsed value of an option or section. */
export type Value<Schema> = Schema extends StandardSchema<infer Output> ? Output : never;

/** Default of an option, and whether it is required. An option with neither can be undefined. */
export interface Rest<T> {
  readonly default?: T;
  readonly required?: boolean;
}

/** The parsed value of an option with these settings. */
export type ReadValue<T, R> = R extends { readonly default: T } | { readonly required: true } ? T : T | undefined;

/** Adds the default and the documentation to a check. */
export function withDocs<T, R extends Rest<T>>(
  check: v.GenericSchema<unknown, T>,
  settings: Omit<OptionDocs, "required" | "secret" | "default"> & { readonly secret?: boolean } & Rest<T>,
): Option<ReadValue<T, R>> {
  const { required = false, secret = false } = settings;
  const schema = required ? check : v.optional(check, settings.default as never);
  return Object.assign(schema as v.GenericSchema<unknown, ReadValue<T, R>>, {
    docs: { ...settings, required, secret },
  });
}
