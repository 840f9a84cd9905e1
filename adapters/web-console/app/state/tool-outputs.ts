import { signal, type ReadonlySignal, type Signal } from "@preact/signals";
import type { SessionMirror } from "gantry/client";

/** Maximum characters of a running tool's output that are shown: the newest characters. */
const MAX_OUTPUT_CHARACTERS = 64 * 1024;

/** The newest output of running tools, as signals by call id. */
export class ToolOutputs {
  readonly #mirror: SessionMirror;
  readonly #signalsByCallId = new Map<string, Signal<string>>();

  constructor(mirror: SessionMirror) {
    this.#mirror = mirror;
  }

  getSignal(callId: string): ReadonlySignal<string> {
    const existingSignal = this.#signalsByCallId.get(callId);
    if (existingSignal) return existingSignal;
    const outputSignal = signal(this.#mirror.progress.get(callId)?.slice(-MAX_OUTPUT_CHARACTERS) ?? "");
    this.#signalsByCallId.set(callId, outputSignal);
    return outputSignal;
  }

  /** Appends output of a call that has a signal. */
  append(callId: string, text: string): void {
    const outputSignal = this.#signalsByCallId.get(callId);
    if (outputSignal) outputSignal.value = (outputSignal.peek() + text).slice(-MAX_OUTPUT_CHARACTERS);
  }
}
