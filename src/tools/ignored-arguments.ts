import { isRecord } from "../base/json.js";
import { printable } from "../base/printable.js";
import { ToolInputError } from "../ports/errors.js";
import type { JsonSchema, ToolKind } from "../ports/tool.js";
import type { Arguments } from "./arguments.js";
import type { StandardSchema } from "./standard-schema.js";

/** Kinds of tools whose calls do no harm if an argument is ignored. */
const TOLERANT: readonly ToolKind[] = ["read", "search", "fetch"];
/** Arguments by which models say why they make a call. */
const COMMENTS: readonly string[] = ["description", "explanation", "justification", "purpose", "reason"];
/** Keywords by which a schema can have further properties. */
const COMBINING = ["additionalProperties", "patternProperties", "allOf", "anyOf", "oneOf", "$ref"];
const MAX_NAMES = 10;

/** Reports the arguments of a call that its tool does not know. */
export class IgnoredArguments {
  readonly #check: StandardSchema | Arguments<unknown>;
  readonly #properties: Readonly<Record<string, unknown>>;
  readonly #isClosed: boolean;
  readonly #kind: ToolKind;
  readonly #notes = new WeakMap<object, string>();

  constructor(check: StandardSchema | Arguments<unknown>, schema: JsonSchema, kind: ToolKind) {
    const { properties, additionalProperties } = schema;
    this.#check = check;
    this.#properties = isRecord(properties) ? properties : {};
    this.#isClosed = additionalProperties === false || !COMBINING.some((keyword) => keyword in schema);
    this.#kind = kind;
  }

  /** Throws `ToolInputError` for an unknown argument, unless it can do no harm to ignore it. `args`: the parsed `given`. */
  check(given: Readonly<Record<string, unknown>>, args: unknown): void {
    const unknown = this.#ignoredIn(given, args).filter((key) => !isEmpty(given[key]) && !COMMENTS.includes(key));
    if (unknown.length === 0) return;
    const more = unknown.length > MAX_NAMES ? `, and ${unknown.length - MAX_NAMES} more` : "";
    const names = unknown.slice(0, MAX_NAMES).map(printable).join(", ") + more;
    const known = `Known arguments: ${Object.keys(this.#properties).join(", ") || "none"}.`;
    if (!TOLERANT.includes(this.#kind))
      throw new ToolInputError(`unknown argument ${names}. The call did not run. ${known}`);
    if (isRecord(args)) this.#notes.set(args, `[unknown argument ${names} was ignored. ${known}]`);
  }

  /** The note for the result of a call that runs although an argument is unknown. */
  noteOf(args: unknown): string | undefined {
    return isRecord(args) ? this.#notes.get(args) : undefined;
  }

  #ignoredIn(given: Readonly<Record<string, unknown>>, args: unknown): string[] {
    if ("unreadKeys" in this.#check) return this.#check.unreadKeys(given);
    // A validator of a third party keeps in its result what it knows.
    const isKept = (key: string) => isRecord(args) && Object.hasOwn(args, key);
    return this.#isClosed
      ? Object.keys(given).filter((key) => !Object.hasOwn(this.#properties, key) && !isKept(key))
      : [];
  }
}

/** Whether a value says that an option is not used. */
function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || value === false || value === "";
}
