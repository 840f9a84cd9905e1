import { createHash } from "node:crypto";
import { RepeatedCallsError } from "../../ports/errors.js";
import type { ToolCallPart } from "../../ports/message.js";

/** Number of repetitions from which the model is warned. */
const WARN_AT = 4;
/** Number of repetitions that ends the run. */
const END_AT = 16;

/**
 * Detects a model in a loop: it repeats earlier calls and gets the same results. Anything new (another call, or another
 * result of the same call) resets the count. Polling a changing value and testing between edits are therefore never
 * detected as a loop.
 */
export class RepeatedCalls {
  /** The last result hash of every call. */
  readonly #results = new Map<string, string>();
  /** For each call, the number of answers that contained it since the last reset. */
  readonly #times = new Map<string, number>();
  readonly #inAnswer = new Set<string>();
  #stuck: { tool: string; times: number } | undefined;

  /** Starts a new answer. Calls of one answer cannot see each other's results, so they count once. */
  nextAnswer(): void {
    this.#inAnswer.clear();
  }

  /** Counts a call. Returns the warning that is appended to its result, or `""`. */
  note(call: Pick<ToolCallPart, "name" | "arguments">, result: string): string {
    const key = hash(JSON.stringify([call.name, call.arguments]));
    const got = hash(result);
    const isRepeated = this.#results.get(key) === got;
    if (isRepeated && this.#inAnswer.has(key)) return "";
    if (!isRepeated) this.#times.clear();
    this.#results.set(key, got);
    this.#inAnswer.add(key);
    const times = (this.#times.get(key) ?? 0) + 1;
    this.#times.set(key, times);
    if (times >= END_AT) this.#stuck = { tool: call.name, times };
    if (times < WARN_AT) return "";
    return `\n\n[This call was made ${times} times with this very result, and nothing new in between. Do something else, or say what keeps you. At ${END_AT} times the run ends.]`;
  }

  /** Throws `RepeatedCallsError` if the limit is reached. */
  check(): void {
    if (this.#stuck) throw new RepeatedCallsError(this.#stuck.tool, this.#stuck.times);
  }
}

function hash(text: string): string {
  return createHash("sha256").update(text).digest("base64");
}
