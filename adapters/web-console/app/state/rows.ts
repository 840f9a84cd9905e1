import { batch, signal, type ReadonlySignal, type Signal } from "@preact/signals";
import type { ApiMessage, SessionMirror, WatchedEvent } from "gantry/client";

/** One row of the timeline. Its `key` does not change while the message exists. */
export interface Row {
  readonly key: string;
  readonly seq: number;
  readonly message: ReadonlySignal<ApiMessage>;
}

interface WritableRow extends Row {
  readonly message: Signal<ApiMessage>;
}

/** Maximum delay before changes are shown if the page draws no frames, in ms. */
const MAX_DELAY_MS = 250;

/**
 * Timeline rows of a page. A change in one message renders only its row. Changes within one frame are shown together.
 */
export class Rows {
  readonly #page: SessionMirror;
  readonly #rows = signal<readonly Row[]>([]);
  readonly #bySeq = new Map<number, WritableRow>();
  readonly #results = new Map<string, Signal<ApiMessage | undefined>>();
  readonly #changed = new Set<number>();
  #needsRebuild = false;
  #isScheduled = false;

  constructor(page: SessionMirror) {
    this.#page = page;
  }

  get rows(): ReadonlySignal<readonly Row[]> {
    return this.#rows;
  }

  result(callId: string): ReadonlySignal<ApiMessage | undefined> {
    return this.#result(callId);
  }

  /** Schedules an update after an event was applied to the page. */
  changed(event: WatchedEvent): void {
    if (event.type === "delta") this.#changed.add(event.seq);
    else if (event.type === "message" || event.type === "message_end") this.#changed.add(event.message.seq);
    else this.#needsRebuild = true;
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    const flush = () => this.flush();
    if (document.visibilityState === "visible") requestAnimationFrame(flush);
    setTimeout(flush, MAX_DELAY_MS);
  }

  /** Shows pending changes. */
  flush(): void {
    if (!this.#isScheduled) return;
    this.#isScheduled = false;
    batch(() => {
      for (const seq of this.#changed) {
        const message = this.#page.at(seq);
        const row = this.#bySeq.get(seq);
        if (message && row?.key === message.id) row.message.value = message;
        else this.#needsRebuild = true;
        if (message?.role === "tool") this.#needsRebuild = true;
      }
      if (this.#needsRebuild) this.rebuild();
    });
    this.#changed.clear();
    this.#needsRebuild = false;
  }

  /** Rebuilds the rows from all messages. */
  rebuild(): void {
    const calls = new Set<string>();
    const answered = new Set<string>();
    const rows: Row[] = [];
    const removedSeqs = new Set(this.#bySeq.keys());
    for (const message of this.#page.messages) {
      for (const { id } of message.tool_calls) calls.add(id);
      if (message.role === "tool") {
        this.#result(message.tool_call_id).value = message;
        answered.add(message.tool_call_id);
        // A result is shown with its call, if the call is loaded.
        if (calls.has(message.tool_call_id)) continue;
      }
      removedSeqs.delete(message.seq);
      rows.push(this.#row(message));
    }
    for (const seq of removedSeqs) this.#bySeq.delete(seq);
    for (const [id, result] of this.#results) if (!answered.has(id)) result.value = undefined;
    this.#rows.value = rows;
  }

  #row(message: ApiMessage): WritableRow {
    const knownRow = this.#bySeq.get(message.seq);
    if (knownRow?.key === message.id) {
      knownRow.message.value = message;
      return knownRow;
    }
    const made: WritableRow = { key: message.id, seq: message.seq, message: signal(message) };
    this.#bySeq.set(message.seq, made);
    return made;
  }

  #result(callId: string): Signal<ApiMessage | undefined> {
    let resultSignal = this.#results.get(callId);
    if (!resultSignal) this.#results.set(callId, (resultSignal = signal<ApiMessage | undefined>(undefined)));
    return resultSignal;
  }
}
