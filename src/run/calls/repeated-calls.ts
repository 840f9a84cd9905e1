import { createHash } from "node:crypto";
import { RepeatedCallsError } from "../../ports/errors.js";
import type { ToolCallPart } from "../../ports/message.js";

const WARNING_REPETITIONS = 4;
/** Number of repetitions that ends the run. */
const MAX_REPETITIONS = 16;

/**
 * Detects a model in a loop: it repeats earlier calls and gets the same results. Anything new (another call, or another
 * result of the same call) resets the count. Polling a changing value and testing between edits are therefore never
 * detected as a loop.
 */
export class RepeatedCalls {
  /** Hash of the last result, by hash of the call. */
  readonly #lastResultHashes = new Map<string, string>();
  /** Number of answers that contained a call since the last reset, by hash of the call. */
  readonly #repetitions = new Map<string, number>();
  readonly #callsOfAnswer = new Set<string>();
  #loopingCall: { tool: string; times: number } | undefined;

  /** Starts a new answer. Calls of one answer cannot see each other's results, so they count once. */
  startAnswer(): void {
    this.#callsOfAnswer.clear();
  }

  /** Counts a call. Returns the warning that is appended to its result, or `""`. */
  recordCall(call: Pick<ToolCallPart, "name" | "arguments">, result: string): string {
    const key = hashText(JSON.stringify([call.name, call.arguments]));
    const resultHash = hashText(result);
    const isRepeated = this.#lastResultHashes.get(key) === resultHash;
    if (isRepeated && this.#callsOfAnswer.has(key)) return "";
    if (!isRepeated) this.#repetitions.clear();
    this.#lastResultHashes.set(key, resultHash);
    this.#callsOfAnswer.add(key);
    const times = (this.#repetitions.get(key) ?? 0) + 1;
    this.#repetitions.set(key, times);
    if (times >= MAX_REPETITIONS) this.#loopingCall = { tool: call.name, times };
    if (times < WARNING_REPETITIONS) return "";
    return `\n\n[This call was made ${times} times with the same result and nothing new in between. Do something else, or explain what blocks you. The run ends at ${MAX_REPETITIONS} times.]`;
  }

  /** Throws `RepeatedCallsError` if the limit is reached. */
  throwIfLooping(): void {
    if (this.#loopingCall) throw new RepeatedCallsError(this.#loopingCall.tool, this.#loopingCall.times);
  }
}

function hashText(text: string): string {
  return createHash("sha256").update(text).digest("base64");
}
