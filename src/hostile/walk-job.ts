import { PathGuard } from "../files/path-guard.js";
import { Gitignore } from "./gitignore.js";
import { compileGlob } from "./globs.js";
import { Allowance, OutOfTime } from "./path-rules.js";
import { newReport, walk } from "./walk.js";
import type { Entry, EntryKind, WalkReport } from "./walk.js";

/** For the patterns of a walk together, and for the whole walk, in ms. */
const PATTERN_MS = 5_000;
const WALK_MS = 60_000;
/** One answer ends with the first of these. */
const PART_ENTRIES = 1_000;
const PART_MS = 100;

/** A folder to walk; whoever asks has opened it by all rules. */
export interface WalkJob {
  /** Resolved. */
  start: string;
  identity: { dev: bigint; ino: bigint };
  /** Paths that are left out. */
  denied: readonly string[];
  /** Resolved folder where ignore files begin outside a repository; left out where none count. */
  ignoreFrom?: string;
  depth?: number;
  /** Only entries of these kinds whose way matches, or whose way behind one of `prefixes` does. */
  only?: { kinds: readonly EntryKind[]; glob?: string; prefixes?: readonly string[] };
}

/** What came since the last part. */
export interface WalkedPart {
  entries: Entry[];
  done: boolean;
  report: WalkReport;
}

/** The one walk of a thread. */
export class WalkJobs {
  #entries: AsyncGenerator<Entry> | undefined;
  #matches: (entry: Entry) => boolean = () => true;
  #report = newReport();
  #until = 0;

  async begin(job: WalkJob): Promise<{ refused: string | undefined }> {
    const allowance = new Allowance(PATTERN_MS);
    const { only } = job;
    this.end();
    try {
      const glob = only?.glob === undefined ? undefined : compileGlob(only.glob, allowance);
      const starts = ["", ...(only?.prefixes ?? []).map((prefix) => `${prefix}/`)];
      this.#matches = ({ kind, way }) =>
        (!only || only.kinds.includes(kind)) &&
        (!glob || allowance.spend(() => starts.some((start) => glob(start + way))));
    } catch (error) {
      if (error instanceof RangeError) return { refused: error.message };
      throw error;
    }
    const report = newReport();
    this.#report = report;
    this.#until = performance.now() + WALK_MS;
    const guard = await PathGuard.create({ roots: [job.start], denied: job.denied });
    const onCut = (folder: string): void => void (report.cut.length < 10 && report.cut.push(folder));
    const { start, identity, depth, ignoreFrom } = job;
    let ignore: Gitignore | undefined;
    try {
      if (ignoreFrom !== undefined) ignore = await Gitignore.open(start, ignoreFrom, { allowance, onCut });
    } catch (error) {
      if (!(error instanceof OutOfTime)) throw error;
      report.slowPatterns = true;
      return { refused: undefined };
    }
    this.#entries = walk(start, { guard, ignore, allowance, identity, ...(depth ? { depth } : {}) }, report);
    return { refused: undefined };
  }

  /** The next entries; none and `done` at the end. */
  async more(): Promise<WalkedPart> {
    const entries: Entry[] = [];
    const partUntil = performance.now() + PART_MS;
    let done = this.#entries === undefined;
    try {
      while (!done && entries.length < PART_ENTRIES && performance.now() < partUntil) {
        if (performance.now() > this.#until) {
          this.#report.incomplete = true;
          done = true;
          break;
        }
        const next = await this.#entries?.next();
        if (!next || next.done) done = true;
        else if (this.#matches(next.value)) entries.push(next.value);
      }
    } catch (error) {
      if (!(error instanceof OutOfTime)) throw error;
      this.#report.slowPatterns = true;
      done = true;
    }
    this.#report.incomplete ||= this.#report.slowPatterns;
    const report = { ...this.#report };
    // Counted from here on for the next part.
    Object.assign(this.#report, { ignored: 0, unreadable: 0, cut: [] });
    if (done) this.end();
    return { entries, done, report };
  }

  end(): void {
    this.#entries = undefined;
    this.#matches = () => true;
  }
}
