import { now } from "../base/ids.js";
import type { Message } from "../ports/message.js";
import type { Session } from "../ports/session.js";
import type { PartDelta, SessionChange, SessionDriver } from "../ports/session-driver.js";
import type { Instruction, RunRecord } from "../ports/run.js";
import type { Usage } from "../ports/usage.js";
import { addUsage } from "./usage.js";

/** What watchers see of a change. */
export type StoredChange = Pick<SessionChange, "add" | "append" | "finish" | "set" | "usage">;

/**
 * A change under a run's lease, and what it changes of the run. `sync` as that of the driver; `later`: the disk is not
 * waited for by this change, but by all that asks for `Recorder.onDisk`.
 */
type RunChange = Omit<SessionChange, "fence" | "sync"> & { sync: boolean | "later"; run?: Partial<RunRecord> };

/**
 * A batch of streamed text is written when it has so many pieces, or is so old, in ms, whichever comes first; or so many
 * characters, since a piece may hold many tokens that came together.
 */
const BATCH = { pieces: 10, characters: 100 };
const BATCH_MS = 100;

/**
 * Writes what a run says as it says it. Streamed text goes in small batches that never make the model wait; everything
 * else is stored when the promise resolves, and on the disk when `onDisk` does. A write that failed fails the next awaited one.
 */
export class Recorder {
  readonly #driver: SessionDriver;
  readonly #fence: number;
  #run: RunRecord;
  #sessionUsage: Usage;
  /** The newest of the chain: changes when a compaction starts a follow-up. */
  #sessionId: string;
  #growing: Message | undefined;
  #begun = false;
  /** By the index of a part in the answer its place in the growing message, which holds texts alone. */
  #places = new Map<number, number>();
  #pending: PartDelta[] = [];
  /** What is pending, before it was joined. */
  #pieces = 0;
  #characters = 0;
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> | undefined;
  #failure: { error: unknown } | undefined;
  #lastSeq: number;
  #onDisk = Promise.resolve();
  readonly #onFailure: (error: unknown) => void;
  readonly #onStored: (change: StoredChange) => void;

  /** `sessionUsage`: what the chain used before. `onFailure` hears at once of a batch that could not be written, so that the run can stop; `onStored` of each change that is in the store now. */
  constructor(
    driver: SessionDriver,
    sessionId: string,
    fence: number,
    run: RunRecord,
    sessionUsage: Usage,
    onFailure: (error: unknown) => void,
    onStored: (change: StoredChange) => void,
  ) {
    this.#driver = driver;
    this.#sessionId = sessionId;
    this.#fence = fence;
    this.#run = run;
    this.#lastSeq = run.after;
    this.#sessionUsage = sessionUsage;
    this.#onFailure = onFailure;
    this.#onStored = onStored;
  }

  /** The run as it was last written. */
  get run(): RunRecord {
    return this.#run;
  }

  /** Greatest `seq` of the messages that this run stored, or is about to. */
  get lastSeq(): number {
    return this.#lastSeq;
  }

  /** Of the whole chain, as the store has it: nobody else may count while the lease is held. */
  get sessionUsage(): Usage {
    return this.#sessionUsage;
  }

  /**
   * Resolves when all that was stored until now is on the disk: before that no model is asked, no tool runs and no run has
   * ended. Meanwhile what comes next is made ready. Rejects with `StoreError`.
   */
  get onDisk(): Promise<void> {
    return this.#onDisk;
  }

  /** Begin the session with its first message, and the run with it. Rejects as the driver's `create`. */
  async begin(session: Session, message: Message): Promise<void> {
    const sync = this.#driver.synced === undefined;
    this.#lastSeq = message.seq;
    await this.#driver.create({ session, messages: [message], run: this.#run, fence: this.#fence, sync });
    this.#bringToDisk();
    this.#onStored({ add: [message] });
  }

  /** Begin the chain's next session with a compacted view, and write on in it. Rejects as the driver's `create`. */
  async follow(session: Session, view: readonly Message[]): Promise<void> {
    await this.#driver.create({ session, view, fence: this.#fence });
    this.#sessionId = session.id;
    this.#onStored({});
  }

  /** Text of a growing message; `part` is its index in the answer, of which tool calls and what never got text are no part yet. Never waits. */
  append(message: Message, delta: Omit<PartDelta, "messageId">): void {
    if (this.#growing?.id !== message.id) {
      this.#growing = { ...message, parts: [], finished: false };
      this.#begun = false;
      this.#places = new Map();
    }
    const part = this.#places.get(delta.part) ?? this.#places.size;
    this.#places.set(delta.part, part);
    const last = this.#pending.at(-1);
    if (last?.part === part && last.messageId === message.id) last.text += delta.text;
    else this.#pending.push({ messageId: message.id, part, type: delta.type, text: delta.text });
    this.#pieces += 1;
    this.#characters += delta.text.length;
    this.#next();
  }

  /** The final form of a message; nothing of it had to be streamed before. Resolves with `instructions` of the driver's `write`. */
  async finish(
    message: Message,
    more: Pick<SessionChange, "usage" | "followed" | "release"> & { run?: Partial<RunRecord> } = {},
  ): Promise<Instruction[]> {
    await this.#settle();
    const begun = this.#begun && this.#growing?.id === message.id;
    this.#growing = undefined;
    this.#begun = false;
    const said = begun ? { finish: [message] } : { add: [message] };
    return this.write({ sync: "later", ...said, ...more, set: { updatedAt: now() } });
  }

  /** A growing message that will grow no more, and is not whole: stored as far as it came, and never finished. */
  async breakOff(message: Message): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    // Taken first, so that the end of a batch does not begin the next.
    const pending = this.#taken();
    while (this.#writing !== undefined) await this.#writing;
    if (this.#growing?.id !== message.id) return;
    const add = this.#begun ? [] : [{ ...message, parts: [], finished: false }];
    this.#growing = undefined;
    this.#begun = false;
    await this.write({ sync: true, add, append: pending, set: { updatedAt: now() } });
  }

  /** Any other change, under the run's lease. What is used counts to the run too; `run`: fields of it that change. Resolves with `instructions` of the driver's `write`. */
  async write({ run, ...change }: RunChange): Promise<Instruction[]> {
    if (this.#failure) throw this.#failure.error;
    const usage = change.usage && { usage: addUsage(this.#run.usage, change.usage) };
    const left = await this.#write(change, run || usage ? { ...run, ...usage } : undefined);
    if (change.usage) this.#sessionUsage = addUsage(this.#sessionUsage, change.usage);
    return left;
  }

  /** The run waits to ask its model again; null: no more. Rejects as the driver's `write`. */
  async waits(retry: RunRecord["retry"]): Promise<void> {
    await this.write({ sync: false, run: { retry } });
  }

  /** How the run ended, where no change before said so; also where one before could not be written. Resolves with `instructions` of the driver's `write`. */
  async end(how: Partial<RunRecord>, more: Pick<SessionChange, "followed" | "release"> = {}): Promise<Instruction[]> {
    return this.#write({ sync: true, ...more }, how);
  }

  async #write(change: Omit<RunChange, "run">, run: Partial<RunRecord> | undefined): Promise<Instruction[]> {
    const { runs = [], sync, ...rest } = change;
    if (run) this.#run = { ...this.#run, ...run };
    const put = run ? [...runs, this.#run] : runs;
    const later = sync === "later";
    // Before anybody can read them.
    for (const { seq } of change.add ?? []) this.#lastSeq = Math.max(this.#lastSeq, seq);
    const { instructions } = await this.#driver.write(this.#sessionId, {
      ...rest,
      sync: later ? this.#driver.synced === undefined : sync,
      fence: this.#fence,
      ...(put.length > 0 ? { runs: put } : {}),
    });
    if (later) this.#bringToDisk();
    this.#onStored(rest);
    return instructions;
  }

  #bringToDisk(): void {
    if (!this.#driver.synced) return;
    this.#onDisk = this.#driver.synced();
    this.#onDisk.catch((error: unknown) => {
      this.#failure ??= { error };
      this.#onFailure(error);
    });
  }

  /** Nothing of this recorder is under way any more. Never rejects. */
  async close(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    await this.#writing;
  }

  /** Write the batch when it is whole. */
  #next(): void {
    if (this.#writing !== undefined || this.#pieces === 0) return;
    if (this.#pieces >= BATCH.pieces || this.#characters >= BATCH.characters) this.#flush();
    // At the same time for all runs of a process: what is written together shares a transaction.
    else this.#timer ??= setTimeout(() => this.#flush(), BATCH_MS - (Date.now() % BATCH_MS));
  }

  /** What is pending, and is so no more. */
  #taken(): PartDelta[] {
    const pending = this.#pending;
    this.#pending = [];
    this.#pieces = 0;
    this.#characters = 0;
    return pending;
  }

  #flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const growing = this.#growing;
    if (this.#pending.length === 0 || growing === undefined || this.#failure) return;
    const append = this.#taken();
    const add = this.#begun ? {} : { add: [growing] };
    this.#begun = true;
    this.#writing = this.write({ sync: false, ...add, append })
      .then(() => undefined)
      .catch((error: unknown) => {
        this.#failure ??= { error };
        this.#onFailure(error);
      })
      .finally(() => {
        this.#writing = undefined;
        // Tokens that came while the batch was written are the next one.
        this.#next();
      });
  }

  /** What is pending is dropped (the final form holds it), what is being written is waited for. */
  async #settle(): Promise<void> {
    this.#taken();
    clearTimeout(this.#timer);
    this.#timer = undefined;
    while (this.#writing !== undefined) await this.#writing;
  }
}
