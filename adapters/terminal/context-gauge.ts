import type { GantryClient } from "gantry/client";
import type { TerminalConversation } from "./conversation.js";

/** Measures the share of the model's window that the next prompt needs, when a session opens and when a run ends. */
export class ContextGauge {
  readonly #client: GantryClient;
  readonly #signal: AbortSignal;
  readonly #onMeasured: () => void;
  /** State of the session at the last measurement. */
  #measuredState = "";
  /** Percent of the window; undefined before the first measurement. */
  percent: number | undefined;

  constructor(client: GantryClient, signal: AbortSignal, onMeasured: () => void) {
    this.#client = client;
    this.#signal = signal;
    this.#onMeasured = onMeasured;
  }

  /** Starts a measurement if the session is idle and has changed since the last one. Ignores errors. */
  update({ id, isRunning, mirror, model }: TerminalConversation): void {
    const { run } = mirror.state ?? {};
    const state = [id, model, run?.id, run?.state].join();
    if (!this.#measuredState.startsWith(`${id}`)) this.percent = undefined;
    if (id === undefined || isRunning || !run || state === this.#measuredState) return;
    this.#measuredState = state;
    this.#client.sessions.context(id, { signal: this.#signal }).then(
      ({ used, window }) => {
        if (state !== this.#measuredState) return;
        this.percent = Math.round((100 * used) / window);
        this.#onMeasured();
      },
      () => undefined,
    );
  }
}
