import { batch, signal, type ReadonlySignal, type Signal } from "@preact/signals";
import type { Message, SessionPage, WatchedEvent } from "gantry/client";

/** What the timeline shows of one message, of the same `key` as long as it is there. */
export interface Row {
  readonly key: string;
  readonly seq: number;
  readonly message: ReadonlySignal<Message>;
}

interface OwnRow extends Row {
  readonly message: Signal<Message>;
}

/** Longest wait in milliseconds before what came is shown, where the page draws no frames. */
const HIDDEN = 250;

/**
 * The rows of a page. What changes in one message draws that message again and nothing else; what comes within one frame
 * is shown with it.
 */
export class Rows {
  readonly #page: SessionPage;
  readonly #rows = signal<readonly Row[]>([]);
  readonly #bySeq = new Map<number, OwnRow>();
  readonly #results = new Map<string, Signal<Message | undefined>>();
  readonly #changed = new Set<number>();
  #renew = false;
  #waits = false;

  constructor(page: SessionPage) {
    this.#page = page;
  }

  get rows(): ReadonlySignal<readonly Row[]> {
    return this.#rows;
  }

  result(callId: string): ReadonlySignal<Message | undefined> {
    return this.#result(callId);
  }

  /** An event was applied to the page. */
  changed(event: WatchedEvent): void {
    if (event.type === "delta") this.#changed.add(event.seq);
    else if (event.type === "message" || event.type === "message_end") this.#changed.add(event.message.seq);
    else this.#renew = true;
    if (this.#waits) return;
    this.#waits = true;
    const flush = () => this.flush();
    if (document.visibilityState === "visible") requestAnimationFrame(flush);
    setTimeout(flush, HIDDEN);
  }

  /** Show what came. */
  flush(): void {
    if (!this.#waits) return;
    this.#waits = false;
    batch(() => {
      for (const seq of this.#changed) {
        const message = this.#page.at(seq);
        const row = this.#bySeq.get(seq);
        if (message && row?.key === message.id) row.message.value = message;
        else this.#renew = true;
        if (message?.role === "tool") this.#renew = true;
      }
      if (this.#renew) this.renew();
    });
    this.#changed.clear();
    this.#renew = false;
  }

  /** Make the rows from all messages. */
  renew(): void {
    const calls = new Set<string>();
    const answered = new Set<string>();
    const rows: Row[] = [];
    const left = new Set(this.#bySeq.keys());
    for (const message of this.#page.messages) {
      for (const { id } of message.tool_calls) calls.add(id);
      if (message.role === "tool") {
        this.#result(message.tool_call_id).value = message;
        answered.add(message.tool_call_id);
        // Shown with its call, where that is there.
        if (calls.has(message.tool_call_id)) continue;
      }
      left.delete(message.seq);
      rows.push(this.#row(message));
    }
    for (const seq of left) this.#bySeq.delete(seq);
    for (const [id, result] of this.#results) if (!answered.has(id)) result.value = undefined;
    this.#rows.value = rows;
  }

  #row(message: Message): OwnRow {
    const known = this.#bySeq.get(message.seq);
    if (known?.key === message.id) {
      known.message.value = message;
      return known;
    }
    const made: OwnRow = { key: message.id, seq: message.seq, message: signal(message) };
    this.#bySeq.set(message.seq, made);
    return made;
  }

  #result(callId: string): Signal<Message | undefined> {
    let known = this.#results.get(callId);
    if (!known) this.#results.set(callId, (known = signal<Message | undefined>(undefined)));
    return known;
  }
}
