import { lastCharacters } from "../base/last-characters.js";

/** Maximum cached characters of a running tool's output, for slow watchers. */
const MAX_PROGRESS_CHARACTERS = 64 * 1024;

/** Output of a running tool. */
interface Progress {
  /** Total characters, including those that are no longer cached. */
  length: number;
  /** The last characters. */
  text: string;
}

/** The output that the running tools of a chain's run have printed, by call id. */
export class ToolProgress {
  readonly #outputs = new Map<string, Progress>();

  append(callId: string, text: string): void {
    const { length, text: cachedText } = this.#outputs.get(callId) ?? { length: 0, text: "" };
    this.#outputs.set(callId, {
      length: length + text.length,
      text: lastCharacters(cachedText + text, MAX_PROGRESS_CHARACTERS),
    });
  }

  /** Returns the output of running tools after the lengths in `reportedLengths`, and updates these lengths. */
  take(reportedLengths: Map<string, number>): { callId: string; text: string }[] {
    const newOutputs: { callId: string; text: string }[] = [];
    for (const callId of reportedLengths.keys()) if (!this.#outputs.has(callId)) reportedLengths.delete(callId);
    for (const [callId, { length, text }] of this.#outputs) {
      const unreportedCharacters = Math.min(length - (reportedLengths.get(callId) ?? 0), text.length);
      if (unreportedCharacters > 0) newOutputs.push({ callId, text: text.slice(text.length - unreportedCharacters) });
      reportedLengths.set(callId, length);
    }
    return newOutputs;
  }

  /** Removes the output of a call that has ended. */
  delete(callId: string): void {
    this.#outputs.delete(callId);
  }

  clear(): void {
    this.#outputs.clear();
  }
}
