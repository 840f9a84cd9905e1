import { readFileSync, rmdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { attempt } from "../base/attempt.js";
import { delay } from "../base/abort.js";
import type { Redactor } from "../base/redact.js";
import type { ProcessState } from "../ports/background.js";
import { endGroup } from "./end-group.js";
import { countSettledBytes } from "./clean-stream.js";
import { MIN_HELD_CHARACTERS, type BackgroundJob, type JobOutput, type InputResult } from "./job.js";
import * as supervisor from "./supervisor.js";
import { ProcessGroup, readStartTicks } from "./process-group.js";

/** Interval in ms at which the command is checked while a caller waits. The command is not a child of this process. */
const POLL_INTERVAL_MS = 100;
/** Time in ms that an ended command stays known. */
const RETENTION_MS = 7 * 24 * 60 * 60 * 1000;
/** Maximum bytes shown of unread output: the last ones. */
const MAX_SHOWN_BYTES = 60_000;

/** A background command that outlives gantry. Its state is read from the files of its supervisor. */
export class DetachedJob implements BackgroundJob {
  readonly #record: supervisor.DetachedRecord;
  readonly #base: string;
  readonly #redactor: Redactor;
  readonly #clean: (output: string) => string;
  /** Offset before the first output, which stays unseen. Undefined after a later call of `takeOutput`. */
  #firstReadOffset: number | undefined;
  #stopPromise: Promise<void> | undefined;
  #hasEnded = false;

  /** `base`: path of the command's files without their endings. */
  constructor(record: supervisor.DetachedRecord, base: string, redactor: Redactor, clean: (output: string) => string) {
    this.#record = record;
    this.#base = base;
    this.#redactor = redactor;
    this.#clean = clean;
  }

  get state(): ProcessState {
    const { id, command, since } = this.#record;
    const isRunning = this.#isRunning;
    const exitCode = isRunning ? null : (supervisor.readDetachedEnd(this.#base)?.code ?? null);
    return { id, command, state: isRunning ? "running" : "ended", startedAt: since, exitCode, detached: true };
  }

  /** Number of bytes that the command printed. */
  get version(): number {
    return supervisor.countPrintedBytes(this.#base);
  }

  get unseenOutput(): string {
    const end = this.version;
    return this.#readText(
      Math.max(this.#firstReadOffset ?? supervisor.loadReadOffset(this.#base), end - MAX_SHOWN_BYTES),
      end,
    ).output;
  }

  takeOutput(first = false): JobOutput {
    const end = this.#isRunning ? undefined : (supervisor.readDetachedEnd(this.#base) ?? { code: null, signal: null });
    const [readOffset, printedBytes] = [supervisor.loadReadOffset(this.#base), this.version];
    const start = Math.max(readOffset, printedBytes - MAX_SHOWN_BYTES);
    const { output, bytes } = this.#readText(start, printedBytes, end === undefined);
    supervisor.saveReadOffset(this.#base, start + bytes);
    this.#firstReadOffset = first ? readOffset : undefined;
    const omittedBytes = (start - readOffset).toLocaleString("en-US");
    // The first characters after omitted output may be part of a secret that cannot be recognized.
    const shownOutput =
      start > readOffset ? `[... ${omittedBytes} bytes omitted ...]\n${output.slice(this.#redactor.reach)}` : output;
    const notes = end?.code === null && end.signal === null ? ["[exit status unknown]"] : [];
    return { output: shownOutput, end, notes, file: undefined };
  }

  async waitForOutput(signal: AbortSignal, version = this.version): Promise<void> {
    while (!signal.aborted && this.#isRunning && this.version === version)
      await delay(POLL_INTERVAL_MS, signal).catch(() => undefined);
  }

  writeInput(text: string, close: boolean): Promise<InputResult> {
    return Promise.resolve(this.#isRunning ? supervisor.writeToDetached(this.#base, text, close) : "closed");
  }

  stop(): Promise<void> {
    return (this.#stopPromise ??= this.#stop());
  }

  removeFiles(): void {
    supervisor.removeDetached(this.#base);
  }

  async #stop(): Promise<void> {
    if (!this.#isAlive) return;
    const { pid, mark } = this.#record;
    // The supervisor gets no TERM, so that it records the end, unless it must be killed with the other processes.
    await endGroup(new ProcessGroup(pid, mark), false, true, new AbortController().signal);
    supervisor.recordEnd(this.#base, "SIGKILL");
    this.#hasEnded = true;
  }

  get #isRunning(): boolean {
    if (!this.#hasEnded && (supervisor.readDetachedEnd(this.#base) !== undefined || !this.#isAlive))
      this.#hasEnded = true;
    return !this.#hasEnded;
  }

  /** Whether the recorded process still runs. Process ids are reused, so the start time is compared. */
  get #isAlive(): boolean {
    return isAlive(this.#record, this.#base);
  }

  /**
   * Reads the text of a range, and the bytes that it covers. If the output continues, possible starts of secrets are
   * left for the next call.
   */
  #readText(start: number, end: number, isOpen = false): { output: string; bytes: number } {
    const rawBytes = supervisor.readDetachedOutput(this.#base, start, end);
    const settledBytesOfOutput = isOpen ? rawBytes.subarray(0, countSettledBytes(rawBytes)) : rawBytes;
    const text = settledBytesOfOutput.toString();
    const settledLength = isOpen ? this.#redactor.settledLength(text) : text.length;
    const heldText = text.length - settledLength < MIN_HELD_CHARACTERS ? "" : text.slice(settledLength);
    return {
      output: this.#clean(text.slice(0, text.length - heldText.length)),
      // Bytes that are not UTF-8 have another length as text. The held part is valid UTF-8, so its length is exact.
      bytes: settledBytesOfOutput.length - Buffer.byteLength(heldText),
    };
  }
}

/** Removes the files of commands that ended more than a week ago. */
export function removeOldDetached(root: string): void {
  for (const session of supervisor.listNames(root)) {
    const folder = join(root, session);
    for (const record of supervisor.readDetachedRecords(folder)) {
      const endedMs = statSync(join(folder, `${record.id}.end`), { throwIfNoEntry: false })?.mtimeMs;
      const lastChangeMs = endedMs ?? Date.parse(record.since);
      if (!isAlive(record, join(folder, record.id)) && Date.now() - lastChangeMs > RETENTION_MS)
        supervisor.removeDetached(join(folder, record.id));
    }
    try {
      rmdirSync(folder);
    } catch {
      // The folder is not empty.
    }
  }
}

/**
 * Whether the supervisor runs, or its child if only the supervisor was killed. While the child lives, no other process
 * group has its number.
 */
function isAlive({ pid, started, boot }: supervisor.DetachedRecord, base: string): boolean {
  if (boot !== readBootId()) return false;
  if (readStartTicks(pid) === started) return true;
  const child = supervisor.readDetachedChild(base);
  return child !== undefined && readStartTicks(child.pid) === child.started;
}

let cachedBootId: string | undefined;

function readBootId(): string {
  return attempt(() => (cachedBootId ??= readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()), "");
}
