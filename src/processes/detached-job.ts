import { readFileSync, rmdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { attempt } from "../base/attempt.js";
import { delay } from "../base/abort.js";
import type { Redactor } from "../base/redact.js";
import type { ProcessState } from "../ports/background.js";
import { endAll } from "./child.js";
import { settledBytes } from "./clean-stream.js";
import type { BackgroundJob, JobLook, InputResult } from "./job.js";
import * as keeper from "./supervisor.js";
import { ProcessGroup, readStartTicks } from "./process-group.js";

/** Interval in ms at which the command is checked while a caller waits. It is not a child of this process. */
const POLL_INTERVAL_MS = 100;
/** Time in ms that an ended command stays known. */
const RETENTION_MS = 7 * 24 * 60 * 60 * 1000;
/** Maximum bytes shown of unread output: the last ones. */
const MAX_SHOWN_BYTES = 60_000;

/** A background command that outlives gantry. Its state is read from the files of its supervisor. */
export class DetachedJob implements BackgroundJob {
  readonly #record: keeper.DetachedRecord;
  readonly #base: string;
  readonly #redactor: Redactor;
  readonly #clean: (output: string) => string;
  #firstLook: number | undefined;
  #stopping: Promise<void> | undefined;
  #hasEnded = false;

  constructor(record: keeper.DetachedRecord, base: string, redactor: Redactor, clean: (output: string) => string) {
    this.#record = record;
    this.#base = base;
    this.#redactor = redactor;
    this.#clean = clean;
  }

  get state(): ProcessState {
    const { id, command, since } = this.#record;
    const running = this.#isRunning;
    const exitCode = running ? null : (keeper.readDetachedEnd(this.#base)?.code ?? null);
    return { id, command, state: running ? "running" : "ended", startedAt: since, exitCode, detached: true };
  }

  /** Number of bytes that the command printed. */
  get version(): number {
    return keeper.printedBytes(this.#base);
  }

  get unseen(): string {
    const to = this.version;
    return this.#text(Math.max(this.#firstLook ?? keeper.readOffset(this.#base), to - MAX_SHOWN_BYTES), to).output;
  }

  look(first = false): JobLook {
    const end = this.#isRunning ? undefined : (keeper.readDetachedEnd(this.#base) ?? { code: null, signal: null });
    const [seen, to] = [keeper.readOffset(this.#base), this.version];
    const from = Math.max(seen, to - MAX_SHOWN_BYTES);
    const { output, bytes } = this.#text(from, to, end === undefined);
    keeper.saveReadOffset(this.#base, from + bytes);
    this.#firstLook = first ? seen : undefined;
    const gone = (from - seen).toLocaleString("en-US");
    // At the cut, part of a secret cannot be distinguished from other text.
    const shown = from > seen ? `[... ${gone} bytes omitted ...]\n${output.slice(this.#redactor.reach)}` : output;
    const notes = end?.code === null && end.signal === null ? ["[exit status unknown]"] : [];
    return { output: shown, end, notes, file: undefined };
  }

  async waitForOutput(signal: AbortSignal, version = this.version): Promise<void> {
    while (!signal.aborted && this.#isRunning && this.version === version)
      await delay(POLL_INTERVAL_MS, signal).catch(() => undefined);
  }

  writeInput(text: string, close: boolean): Promise<InputResult> {
    return Promise.resolve(this.#isRunning ? keeper.writeToDetached(this.#base, text, close) : "closed");
  }

  stop(): Promise<void> {
    return (this.#stopping ??= this.#stop());
  }

  removeFiles(): void {
    keeper.removeDetached(this.#base);
  }

  async #stop(): Promise<void> {
    if (!this.#isAlive) return;
    const { pid, mark } = this.#record;
    // The supervisor is spared until the end and records it, unless it must be killed with the others.
    await endAll(new ProcessGroup(pid, mark), false, true, new AbortController().signal);
    keeper.recordEnd(this.#base, "SIGKILL");
    this.#hasEnded = true;
  }

  get #isRunning(): boolean {
    if (!this.#hasEnded && (keeper.readDetachedEnd(this.#base) !== undefined || !this.#isAlive)) this.#hasEnded = true;
    return !this.#hasEnded;
  }

  /** Whether the recorded process still runs. Process ids are reused, so the start time is compared. */
  get #isAlive(): boolean {
    return isAlive(this.#record, this.#base);
  }

  /** Output text of a range. If the output continues, possible starts of secrets are left for the next look. */
  #text(from: number, to: number, isOpen = false): { output: string; bytes: number } {
    const read = keeper.readDetachedOutput(this.#base, from, to);
    const raw = isOpen ? read.subarray(0, settledBytes(read)) : read;
    const text = raw.toString();
    const settled = isOpen ? this.#redactor.settledLength(text) : text.length;
    const open = text.length - settled < 8 ? "" : text.slice(settled);
    return {
      output: this.#clean(text.slice(0, text.length - open.length)),
      // Bytes that are not UTF-8 have another length as text. The held part is valid UTF-8, so its length is exact.
      bytes: raw.length - Buffer.byteLength(open),
    };
  }
}

/** Removes the files of commands that ended more than a week ago. */
export function removeOldDetached(root: string): void {
  for (const session of keeper.listNames(root)) {
    const folder = join(root, session);
    for (const record of keeper.readDetachedRecords(folder)) {
      const last = statSync(join(folder, `${record.id}.end`), { throwIfNoEntry: false })?.mtimeMs;
      const since = last ?? Date.parse(record.since);
      if (!isAlive(record, join(folder, record.id)) && Date.now() - since > RETENTION_MS)
        keeper.removeDetached(join(folder, record.id));
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
function isAlive({ pid, started, boot }: keeper.DetachedRecord, base: string): boolean {
  if (boot !== bootId()) return false;
  if (readStartTicks(pid) === started) return true;
  const child = keeper.readDetachedChild(base);
  return child !== undefined && readStartTicks(child.pid) === child.started;
}

let cachedBootId: string | undefined;

function bootId(): string {
  return attempt(() => (cachedBootId ??= readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()), "");
}
