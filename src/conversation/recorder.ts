import { now } from "../base/ids.js";
import type { Message } from "../ports/message.js";
import type { Session } from "../ports/session.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { PartDelta, SessionChange } from "../ports/session-change.js";
import type { Instruction, RunRecord } from "../ports/run.js";
import type { Usage } from "../ports/usage.js";
import { addUsage } from "./usage.js";

/** The fields of a change that watchers see. */
export type StoredChange = Pick<SessionChange, "add" | "append" | "finish" | "set" | "usage">;

/**
 * A change under a run's lease, with the changed fields of the run. `sync` is as in the driver's `write`. With `later`,
 * this change does not wait for the disk, but readers of `Recorder.onDisk` do.
 */
type RunChange = Omit<SessionChange, "fence" | "sync"> & { sync: boolean | "later"; run?: Partial<RunRecord> };

/**
 * A batch of streamed text is written when it has this many pieces or characters, or after `BATCH_INTERVAL_MS`. A piece
 * may contain many tokens that arrived together.
 */
const BATCH_LIMITS = { pieces: 10, characters: 100 };
const BATCH_INTERVAL_MS = 100;

/**
 * Stores the messages of a run while the run produces them.
 *
 * Streamed text is written in small batches without delaying the model. Every other change is stored when its promise
 * resolves, and on the disk when `onDisk` resolves. If a write fails, the next awaited write fails too.
 */
export class Recorder {
  readonly #driver: SessionDriver;
  readonly #fence: number;
  #run: RunRecord;
  #sessionUsage: Usage;
  /** The newest session of the chain. Changes when a compaction starts a follow-up. */
  #sessionId: string;
  /** The message that streamed text is added to; undefined between messages. */
  #growingMessage: Message | undefined;
  #isMessageStored = false;
  /** Maps the index of a part in the answer to its index in the growing message, which contains only texts. */
  #partIndexes = new Map<number, number>();
  #pendingDeltas: PartDelta[] = [];
  /** Number of pending pieces before they were joined. */
  #pieceCount = 0;
  #characterCount = 0;
  #timer: NodeJS.Timeout | undefined;
  #batchWrite: Promise<void> | undefined;
  #failure: { error: unknown } | undefined;
  #lastSeq: number;
  #onDisk = Promise.resolve();
  readonly #onFailure: (error: unknown) => void;
  readonly #onStored: (change: StoredChange) => void;

  /**
   * Parameters:
   * - `run`: the run as it will be stored with the first change. A continued run has usage already.
   * - `lastSeq`: greatest `seq` of the conversation.
   * - `sessionUsage`: the chain's usage so far.
   * - `onFailure`: called as soon as a batch cannot be written or synced, so that the run can stop.
   * - `onStored`: called for each change after it is stored.
   */
  constructor(
    driver: SessionDriver,
    sessionId: string,
    fence: number,
    { run, lastSeq, sessionUsage }: { run: RunRecord; lastSeq: number; sessionUsage: Usage },
    onFailure: (error: unknown) => void,
    onStored: (change: StoredChange) => void,
  ) {
    this.#driver = driver;
    this.#sessionId = sessionId;
    this.#fence = fence;
    this.#run = run;
    this.#lastSeq = lastSeq;
    this.#sessionUsage = sessionUsage;
    this.#onFailure = onFailure;
    this.#onStored = onStored;
  }

  /** The run record as last written. */
  get run(): RunRecord {
    return this.#run;
  }

  /** Greatest `seq` of the messages that this run has stored or is storing. */
  get lastSeq(): number {
    return this.#lastSeq;
  }

  /** Usage of the whole chain as stored. No other process changes it while the lease is held. */
  get sessionUsage(): Usage {
    return this.#sessionUsage;
  }

  /**
   * Resolves when everything stored until now is on the disk. Rejects with `StoreError`.
   *
   * Model requests, tool calls and the end of a run wait for this promise. The next step is prepared meanwhile.
   */
  get onDisk(): Promise<void> {
    return this.#onDisk;
  }

  /** Creates the session with its first message and the run. Rejects as the driver's `create`. */
  async createSession(session: Session, message: Message): Promise<void> {
    const sync = this.#driver.synced === undefined;
    this.#lastSeq = message.seq;
    await this.#driver.create({ session, messages: [message], run: this.#run, fence: this.#fence, sync });
    this.#startSync();
    this.#onStored({ add: [message] });
  }

  /** Creates the chain's next session with a compacted view and continues in it. Rejects as the driver's `create`. */
  async createFollowUp(session: Session, view: readonly Message[]): Promise<void> {
    await this.#driver.create({ session, view, fence: this.#fence });
    this.#sessionId = session.id;
    this.#onStored({});
  }

  /**
   * Adds streamed text to a growing message. `part` is the index in the answer; tool calls and parts without text are
   * not stored yet. Never waits.
   */
  append(message: Message, delta: Omit<PartDelta, "messageId">): void {
    if (this.#growingMessage?.id !== message.id) {
      this.#growingMessage = { ...message, parts: [], finished: false };
      this.#isMessageStored = false;
      this.#partIndexes = new Map();
    }
    const part = this.#partIndexes.get(delta.part) ?? this.#partIndexes.size;
    this.#partIndexes.set(delta.part, part);
    const lastDelta = this.#pendingDeltas.at(-1);
    if (lastDelta?.part === part && lastDelta.messageId === message.id) lastDelta.text += delta.text;
    else this.#pendingDeltas.push({ messageId: message.id, part, type: delta.type, text: delta.text });
    this.#pieceCount += 1;
    this.#characterCount += delta.text.length;
    this.#scheduleBatch();
  }

  /**
   * Stores the final form of a message, whether or not it was streamed before. Resolves with the `instructions` of the
   * driver's `write`.
   */
  async finish(
    message: Message,
    extraChanges: Pick<SessionChange, "usage" | "consumedInstructions" | "release"> & { run?: Partial<RunRecord> } = {},
  ): Promise<Instruction[]> {
    // The final form of the message contains the pending text.
    await this.#settle();
    const isMessageStored = this.#isMessageStored && this.#growingMessage?.id === message.id;
    this.#growingMessage = undefined;
    this.#isMessageStored = false;
    const messageChange = isMessageStored ? { finish: [message] } : { add: [message] };
    return this.write({ sync: "later", ...messageChange, ...extraChanges, set: { updatedAt: now(this.#driver) } });
  }

  /**
   * Ends a growing message that will not be completed. The text received so far is stored, and the message stays
   * unfinished. `sync`: whether to wait for the disk; false if a write that waits follows.
   */
  async interrupt(message: Message, sync: boolean): Promise<void> {
    const pendingDeltas = await this.#settle();
    if (this.#growingMessage?.id !== message.id) return;
    const add = this.#isMessageStored ? [] : [{ ...message, parts: [], finished: false }];
    this.#growingMessage = undefined;
    this.#isMessageStored = false;
    await this.write({ sync, add, append: pendingDeltas, set: { updatedAt: now(this.#driver) } });
  }

  /**
   * Writes any other change under the run's lease. The usage of the change is also added to the run. `run`: changed
   * fields of the run. Resolves with the `instructions` of the driver's `write`.
   */
  async write({ run, ...change }: RunChange): Promise<Instruction[]> {
    if (this.#failure) throw this.#failure.error;
    const usage = change.usage && { usage: addUsage(this.#run.usage, change.usage) };
    const instructions = await this.#write(change, run || usage ? { ...run, ...usage } : undefined);
    if (change.usage) this.#sessionUsage = addUsage(this.#sessionUsage, change.usage);
    return instructions;
  }

  /** Stores that the run waits before its next model request; null ends the wait. Rejects as the driver's `write`. */
  async recordRetry(retry: RunRecord["retry"]): Promise<void> {
    await this.write({ sync: false, run: { retry } });
  }

  /**
   * Stores the end of the run if no earlier change contained it, even after a failed write. Resolves with the
   * `instructions` of the driver's `write`.
   */
  async end(
    runFields: Partial<RunRecord>,
    extraChanges: Pick<SessionChange, "consumedInstructions" | "release"> = {},
  ): Promise<Instruction[]> {
    return this.#write({ sync: true, ...extraChanges }, runFields);
  }

  async #write(change: Omit<RunChange, "run">, run: Partial<RunRecord> | undefined): Promise<Instruction[]> {
    const { runs = [], sync, ...sessionChange } = change;
    if (run) this.#run = { ...this.#run, ...run };
    const changedRuns = run ? [...runs, this.#run] : runs;
    const isLater = sync === "later";
    // Must precede the write, because readers see the messages as soon as the write is done.
    for (const { seq } of change.add ?? []) this.#lastSeq = Math.max(this.#lastSeq, seq);
    const { instructions } = await this.#driver.write(this.#sessionId, {
      ...sessionChange,
      sync: isLater ? this.#driver.synced === undefined : sync,
      fence: this.#fence,
      ...(changedRuns.length > 0 ? { runs: changedRuns } : {}),
    });
    if (isLater) this.#startSync();
    this.#onStored(sessionChange);
    return instructions;
  }

  /** Starts to sync the stored changes to the disk, if the driver can do that separately. */
  #startSync(): void {
    if (!this.#driver.synced) return;
    this.#onDisk = this.#driver.synced();
    this.#onDisk.catch((error: unknown) => {
      this.#failure ??= { error };
      this.#onFailure(error);
    });
  }

  /** Stops the timer and waits for a running batch. Never rejects. */
  async close(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    await this.#batchWrite;
  }

  /** Writes the batch if it is full, otherwise starts its timer. */
  #scheduleBatch(): void {
    if (this.#batchWrite !== undefined || this.#pieceCount === 0) return;
    if (this.#pieceCount >= BATCH_LIMITS.pieces || this.#characterCount >= BATCH_LIMITS.characters) this.#flush();
    // The timers of all runs of a process fire at the same time, because writes made together share a transaction.
    else this.#timer ??= setTimeout(() => this.#flush(), BATCH_INTERVAL_MS - (Date.now() % BATCH_INTERVAL_MS));
  }

  /** Removes and returns the pending text. Stops the timer. */
  #takePendingDeltas(): PartDelta[] {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const pendingDeltas = this.#pendingDeltas;
    this.#pendingDeltas = [];
    this.#pieceCount = 0;
    this.#characterCount = 0;
    return pendingDeltas;
  }

  /** Writes the pending text as one batch. Never rejects: a failure is reported to `onFailure`. */
  #flush(): void {
    const growingMessage = this.#growingMessage;
    if (this.#pendingDeltas.length === 0 || growingMessage === undefined || this.#failure) return;
    const append = this.#takePendingDeltas();
    const add = this.#isMessageStored ? {} : { add: [growingMessage] };
    this.#isMessageStored = true;
    this.#batchWrite = this.write({ sync: false, ...add, append })
      .then(() => undefined)
      .catch((error: unknown) => {
        this.#failure ??= { error };
        this.#onFailure(error);
      })
      .finally(() => {
        this.#batchWrite = undefined;
        // Tokens received during the write form the next batch.
        this.#scheduleBatch();
      });
  }

  /** Removes the pending text, and waits for a running batch. Returns the text. */
  async #settle(): Promise<PartDelta[]> {
    // Taken first, so that the end of a running batch does not start another batch.
    const pendingDeltas = this.#takePendingDeltas();
    while (this.#batchWrite !== undefined) await this.#batchWrite;
    return pendingDeltas;
  }
}
