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
const MAX_FLUSH_DELAY_MS = 250;

/**
 * Timeline rows for the messages of a session. A change of a message renders only its row. Changes within one frame are
 * shown together.
 */
export class TimelineRows {
  readonly #mirror: SessionMirror;
  readonly #rows = signal<readonly Row[]>([]);
  readonly #rowsBySeq = new Map<number, WritableRow>();
  readonly #resultSignalsByCallId = new Map<string, Signal<ApiMessage | undefined>>();
  readonly #changedSeqs = new Set<number>();
  #needsRebuild = false;
  #isScheduled = false;

  constructor(mirror: SessionMirror) {
    this.#mirror = mirror;
  }

  get rows(): ReadonlySignal<readonly Row[]> {
    return this.#rows;
  }

  /** The result of a tool call; undefined before the tool has ended. */
  getResultSignal(callId: string): ReadonlySignal<ApiMessage | undefined> {
    return this.#getResultSignal(callId);
  }

  /** Schedules an update after an event was applied to the mirror. */
  scheduleUpdate(event: WatchedEvent): void {
    if (event.type === "delta") this.#changedSeqs.add(event.seq);
    else if (event.type === "message" || event.type === "message_end") this.#changedSeqs.add(event.message.seq);
    else this.#needsRebuild = true;
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    const flush = () => this.flush();
    if (document.visibilityState === "visible") requestAnimationFrame(flush);
    setTimeout(flush, MAX_FLUSH_DELAY_MS);
  }

  /** Shows the changes since the last flush. */
  flush(): void {
    if (!this.#isScheduled) return;
    this.#isScheduled = false;
    batch(() => {
      for (const seq of this.#changedSeqs) {
        const message = this.#mirror.at(seq);
        const row = this.#rowsBySeq.get(seq);
        if (message && row?.key === message.id) row.message.value = message;
        else this.#needsRebuild = true;
        if (message?.role === "tool") this.#needsRebuild = true;
      }
      if (this.#needsRebuild) this.rebuild();
    });
    this.#changedSeqs.clear();
    this.#needsRebuild = false;
  }

  /** Rebuilds the rows from all messages. */
  rebuild(): void {
    const callIds = new Set<string>();
    const answeredCallIds = new Set<string>();
    const rows: Row[] = [];
    const removedSeqs = new Set(this.#rowsBySeq.keys());
    for (const message of this.#mirror.messages) {
      for (const { id } of message.tool_calls) callIds.add(id);
      if (message.role === "tool") {
        this.#getResultSignal(message.tool_call_id).value = message;
        answeredCallIds.add(message.tool_call_id);
        // A result is shown with its call, if the call is loaded.
        if (callIds.has(message.tool_call_id)) continue;
      }
      removedSeqs.delete(message.seq);
      rows.push(this.#updateRow(message));
    }
    for (const seq of removedSeqs) this.#rowsBySeq.delete(seq);
    for (const [id, result] of this.#resultSignalsByCallId) if (!answeredCallIds.has(id)) result.value = undefined;
    this.#rows.value = rows;
  }

  #updateRow(message: ApiMessage): WritableRow {
    const existingRow = this.#rowsBySeq.get(message.seq);
    if (existingRow?.key === message.id) {
      existingRow.message.value = message;
      return existingRow;
    }
    const newRow: WritableRow = { key: message.id, seq: message.seq, message: signal(message) };
    this.#rowsBySeq.set(message.seq, newRow);
    return newRow;
  }

  #getResultSignal(callId: string): Signal<ApiMessage | undefined> {
    let resultSignal = this.#resultSignalsByCallId.get(callId);
    if (!resultSignal)
      this.#resultSignalsByCallId.set(callId, (resultSignal = signal<ApiMessage | undefined>(undefined)));
    return resultSignal;
  }
}
