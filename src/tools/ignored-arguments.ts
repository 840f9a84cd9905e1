import { isRecord } from "../base/json.js";
import { toPrintable } from "../base/printable.js";
import { ToolInputError } from "../ports/errors.js";
import type { JsonSchema } from "../ports/tool.js";
import type { ToolKind } from "../ports/tool-display.js";
import type { Arguments } from "./arguments.js";
import type { StandardSchema } from "./standard-schema.js";

/** Tool kinds for which an ignored argument is harmless. */
const TOLERANT_KINDS: readonly ToolKind[] = ["read", "search", "fetch"];
/** Arguments that models add to explain a call. They are ignored. */
const COMMENT_ARGUMENTS: readonly string[] = ["description", "explanation", "justification", "purpose", "reason"];
/** JSON Schema keywords that can allow further properties. */
const COMBINING_KEYWORDS = ["additionalProperties", "patternProperties", "allOf", "anyOf", "oneOf", "$ref"];
/** Maximum unknown arguments that a message names. */
const MAX_LISTED_NAMES = 10;

/** Rejects or reports arguments of a call that the tool does not know. */
export class IgnoredArguments {
  readonly #validator: StandardSchema | Arguments<unknown>;
  readonly #properties: Readonly<Record<string, unknown>>;
  readonly #isClosed: boolean;
  readonly #kind: ToolKind;
  readonly #notesByArguments = new WeakMap<object, string>();

  constructor(validator: StandardSchema | Arguments<unknown>, schema: JsonSchema, kind: ToolKind) {
    const { properties, additionalProperties } = schema;
    this.#validator = validator;
    this.#properties = isRecord(properties) ? properties : {};
    this.#isClosed = additionalProperties === false || !COMBINING_KEYWORDS.some((keyword) => keyword in schema);
    this.#kind = kind;
  }

  /**
   * Throws `ToolInputError` for an unknown argument, unless the argument is harmless. `input`: the arguments as sent.
   * `args`: the parsed arguments.
   */
  check(input: Readonly<Record<string, unknown>>, args: unknown): void {
    const unknownArguments = this.#findIgnored(input, args).filter(
      (key) => !(Object.hasOwn(input, key) && isUnset(input[key])) && !COMMENT_ARGUMENTS.includes(key),
    );
    if (unknownArguments.length === 0) return;
    const hiddenCount =
      unknownArguments.length > MAX_LISTED_NAMES ? `, and ${unknownArguments.length - MAX_LISTED_NAMES} more` : "";
    const names = unknownArguments.slice(0, MAX_LISTED_NAMES).map(toPrintable).join(", ") + hiddenCount;
    const knownArguments = `Known arguments: ${Object.keys(this.#properties).join(", ") || "none"}.`;
    if (!TOLERANT_KINDS.includes(this.#kind))
      throw new ToolInputError(`unknown argument ${names}. The call did not run. ${knownArguments}`);
    if (isRecord(args)) this.#notesByArguments.set(args, `[unknown argument ${names} was ignored. ${knownArguments}]`);
  }

  /** Returns the note for a call that ran without an unknown argument. Undefined if no argument was ignored. */
  noteOf(args: unknown): string | undefined {
    return isRecord(args) ? this.#notesByArguments.get(args) : undefined;
  }

  #findIgnored(input: Readonly<Record<string, unknown>>, args: unknown): string[] {
    if ("unreadKeys" in this.#validator) return this.#validator.unreadKeys(input);
    // A third-party validator keeps the arguments that it knows in its result.
    const isKept = (key: string) => isRecord(args) && Object.hasOwn(args, key);
    return this.#isClosed
      ? Object.keys(input).filter((key) => !Object.hasOwn(this.#properties, key) && !isKept(key))
      : [];
  }
}

/** Whether the value means that an option is not used. */
function isUnset(value: unknown): boolean {
  return value === undefined || value === null || value === false || value === "";
}
