import { signal, type ReadonlySignal, type Signal } from "@preact/signals";
import type { ApiMessage, SessionMirror } from "gantry/client";
import type { Row } from "./rows.js";

/** The parts of an open session that a jump uses. */
interface JumpHost {
  readonly rows: ReadonlySignal<readonly Row[]>;
  readonly hasOlder: ReadonlySignal<boolean>;
  loadOlder(size: number): Promise<void>;
  getUnfoldedSignal(itemKey: string): Signal<boolean | undefined>;
}

/** Messages of each page that a jump loads: the maximum of the server. */
const PAGE_SIZE = 1_000;

/** Position of the requested message: a `seq`, or `Infinity` for the end of the conversation. */
export interface JumpRequest {
  readonly seq: number;
}

/** Jumps of the timeline to messages, which may not be loaded yet. */
export class MessageJump {
  readonly #host: JumpHost;
  readonly #mirror: Pick<SessionMirror, "at" | "messages">;
  readonly #request = signal<JumpRequest | undefined>(undefined);
  /** Key of the row that the last jump has found. */
  readonly foundKey = signal<string | undefined>(undefined);
  readonly isLoading = signal(false);

  constructor(host: JumpHost, mirror: Pick<SessionMirror, "at" | "messages">) {
    this.#host = host;
    this.#mirror = mirror;
  }

  /** The last requested jump; a new object for each request. */
  get request(): ReadonlySignal<JumpRequest | undefined> {
    return this.#request;
  }

  toMessage(seq: number): void {
    this.#request.value = { seq };
  }

  toFirst(): void {
    this.toMessage(1);
  }

  toEnd(): void {
    this.toMessage(Infinity);
  }

  /**
   * Loads the messages from `seq` on and sets `foundKey` to the row that shows the message. Unfolds a tool call whose
   * result is the message. Resolves with the key; undefined without messages, or if a newer request replaces this one.
   */
  async find(request: JumpRequest): Promise<string | undefined> {
    this.isLoading.value = true;
    try {
      await this.#load(request);
    } finally {
      this.isLoading.value = false;
    }
    if (this.#request.peek() !== request) return undefined;
    const message: ApiMessage | undefined = this.#mirror.at(request.seq);
    if (message?.role === "tool") {
      this.#host.getUnfoldedSignal(`call ${message.tool_call_id}`).value = true;
      this.#host.getUnfoldedSignal(`result ${message.id}`).value = true;
    }
    const rows = this.#host.rows.peek();
    this.foundKey.value = (rows.findLast(({ seq }) => seq <= request.seq) ?? rows[0])?.key;
    return this.foundKey.peek();
  }

  async #load(request: JumpRequest): Promise<void> {
    let previousSeq = Infinity;
    while (this.#host.hasOlder.peek() && this.#request.peek() === request) {
      const firstSeq = this.#mirror.messages[0]?.seq ?? 0;
      // Without progress, the request has failed.
      if (firstSeq <= request.seq || firstSeq === previousSeq) return;
      previousSeq = firstSeq;
      await this.#host.loadOlder(PAGE_SIZE);
    }
  }
}
