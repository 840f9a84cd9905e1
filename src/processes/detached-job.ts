import { readFileSync, rmdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { attempt } from "../base/attempt.js";
import { delay } from "../base/abort.js";
import type { Redactor } from "../base/redact.js";
import type { ProcessState } from "../ports/background.js";
import { endAll } from "./child.js";
import { settledBytes } from "./clean-stream.js";
import type { BackgroundJob, JobLook, Said } from "./job.js";
import * as keeper from "./supervisor.js";
import { ProcessGroup, startOf } from "./process-group.js";

/** It is looked at so often, in ms, while somebody waits: it is no child of whoever finds it again. */
const LOOK_MS = 100;
/** So long they are known behind their end, in ms. */
const OLD_MS = 7 * 24 * 60 * 60 * 1000;
/** Of what nobody looked at yet so many bytes are shown: the last. */
const SHOWN_BYTES = 60_000;

/** A command in the background that outlives gantry, known by what its keeper wrote down. */
export class KeptJob implements BackgroundJob {
  readonly #record: keeper.KeptRecord;
  readonly #base: string;
  readonly #redactor: Redactor;
  readonly #clean: (said: string) => string;
  #firstLook: number | undefined;
  #stopping: Promise<void> | undefined;
  #over = false;

  constructor(record: keeper.KeptRecord, base: string, redactor: Redactor, clean: (said: string) => string) {
    this.#record = record;
    this.#base = base;
    this.#redactor = redactor;
    this.#clean = clean;
  }

  get state(): ProcessState {
    const { id, command, since } = this.#record;
    const running = this.#isRunning;
    const exitCode = running ? null : (keeper.endOfKept(this.#base)?.code ?? null);
    return { id, command, state: running ? "running" : "ended", since, exitCode, keep: true };
  }

  /** Counts what it printed. */
  get version(): number {
    return keeper.printedBy(this.#base);
  }

  get unseen(): string {
    const to = this.version;
    return this.#text(Math.max(this.#firstLook ?? keeper.seenOf(this.#base), to - SHOWN_BYTES), to).said;
  }

  look(first = false): JobLook {
    const end = this.#isRunning ? undefined : (keeper.endOfKept(this.#base) ?? { code: null, signal: null });
    const [seen, to] = [keeper.seenOf(this.#base), this.version];
    const from = Math.max(seen, to - SHOWN_BYTES);
    const { said, bytes } = this.#text(from, to, end === undefined);
    keeper.saw(this.#base, from + bytes);
    this.#firstLook = first ? seen : undefined;
    const gone = (from - seen).toLocaleString("en-US");
    // What lies on the cut cannot be told from other text.
    const shown = from > seen ? `[... ${gone} bytes left out ...]\n${said.slice(this.#redactor.reach)}` : said;
    const notes = end?.code === null && end.signal === null ? ["[nobody saw how it ended]"] : [];
    return { said: shown, end, notes, file: undefined };
  }

  async news(signal: AbortSignal, version = this.version): Promise<void> {
    while (!signal.aborted && this.#isRunning && this.version === version)
      await delay(LOOK_MS, signal).catch(() => undefined);
  }

  say(text: string, close: boolean): Promise<Said> {
    return Promise.resolve(this.#isRunning ? keeper.sayToKept(this.#base, text, close) : "closed");
  }

  stop(): Promise<void> {
    return (this.#stopping ??= this.#stop());
  }

  forget(): void {
    keeper.forgetKept(this.#base);
  }

  async #stop(): Promise<void> {
    if (!this.#isAlive) return;
    const { pid, mark } = this.#record;
    // Its keeper stays to the end, and writes that down, unless it has to be killed with the rest.
    await endAll(new ProcessGroup(pid, mark), false, true, new AbortController().signal);
    keeper.noteEnd(this.#base, "SIGKILL");
    this.#over = true;
  }

  get #isRunning(): boolean {
    if (!this.#over && (keeper.endOfKept(this.#base) !== undefined || !this.#isAlive)) this.#over = true;
    return !this.#over;
  }

  /** The same process as then: numbers are used again. */
  get #isAlive(): boolean {
    return isAlive(this.#record, this.#base);
  }

  /** Of what may be the begin of a secret the rest comes with the next look. */
  #text(from: number, to: number, isOpen = false): { said: string; bytes: number } {
    const read = keeper.readKept(this.#base, from, to);
    const raw = isOpen ? read.subarray(0, settledBytes(read)) : read;
    const text = raw.toString();
    const settled = isOpen ? this.#redactor.settled(text) : text.length;
    const open = text.length - settled < 8 ? "" : text.slice(settled);
    return {
      said: this.#clean(text.slice(0, text.length - open.length)),
      // What is no UTF-8 is of another length as text; what may be the begin of a secret is.
      bytes: raw.length - Buffer.byteLength(open),
    };
  }
}

/** Remove what is left of those that ended a week ago. */
export function sweepKept(root: string): void {
  for (const session of keeper.namesIn(root)) {
    const folder = join(root, session);
    for (const record of keeper.keptIn(folder)) {
      const last = statSync(join(folder, `${record.id}.end`), { throwIfNoEntry: false })?.mtimeMs;
      const since = last ?? Date.parse(record.since);
      if (!isAlive(record, join(folder, record.id)) && Date.now() - since > OLD_MS)
        keeper.forgetKept(join(folder, record.id));
    }
    try {
      rmdirSync(folder);
    } catch {
      // There is something in it.
    }
  }
}

/** Or what it started, where somebody ended the keeper alone: while that lives, no other process group has its number. */
function isAlive({ pid, started, boot }: keeper.KeptRecord, base: string): boolean {
  if (boot !== bootId()) return false;
  if (startOf(pid) === started) return true;
  const child = keeper.childOf(base);
  return child !== undefined && startOf(child.pid) === child.started;
}

let known: string | undefined;

function bootId(): string {
  return attempt(() => (known ??= readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()), "");
}
