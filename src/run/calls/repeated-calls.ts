import { createHash } from "node:crypto";
import { RepeatedCallsError } from "../../ports/errors.js";
import type { ToolCallPart } from "../../ports/message.js";

/** From so many times on the model is told. */
const WARN_AT = 4;
/** So many times end the run. */
const END_AT = 16;

/**
 * Notices a model that goes round in circles: calls that were made before and get the result that they got then.
 * Whatever is new (another call, another result of the same) begins the count anew, so that polling what changes and
 * testing between edits are never taken for it.
 */
export class RepeatedCalls {
  /** The last result of every call. */
  readonly #results = new Map<string, string>();
  /** Since something was new: in how many answers each call came. */
  readonly #times = new Map<string, number>();
  readonly #inAnswer = new Set<string>();
  #stuck: { tool: string; times: number } | undefined;

  /** Calls of one answer cannot know each other's results: they count once. */
  nextAnswer(): void {
    this.#inAnswer.clear();
  }

  /** Count a call; what the model is told behind its result, or `""`. */
  note(call: Pick<ToolCallPart, "name" | "arguments">, result: string): string {
    const key = hash(JSON.stringify([call.name, call.arguments]));
    const got = hash(result);
    const known = this.#results.get(key) === got;
    if (known && this.#inAnswer.has(key)) return "";
    if (!known) this.#times.clear();
    this.#results.set(key, got);
    this.#inAnswer.add(key);
    const times = (this.#times.get(key) ?? 0) + 1;
    this.#times.set(key, times);
    if (times >= END_AT) this.#stuck = { tool: call.name, times };
    if (times < WARN_AT) return "";
    return `\n\n[This call was made ${times} times with this very result, and nothing new in between. Do something else, or say what keeps you. At ${END_AT} times the run ends.]`;
  }

  /** Throws `RepeatedCallsError` when it is enough. */
  check(): void {
    if (this.#stuck) throw new RepeatedCallsError(this.#stuck.tool, this.#stuck.times);
  }
}

function hash(text: string): string {
  return createHash("sha256").update(text).digest("base64");
}
