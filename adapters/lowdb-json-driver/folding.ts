import { renameSync, rmSync } from "node:fs";
import { holderState } from "gantry";
import type { Chains } from "./chains.js";

/** A chain that was quiet for so long, in ms, and is nobody's, gets its file. */
const QUIET_MS = 1000;
/** Length of a file that is written for the least change. A longer one waits until it lacks a quarter of itself. */
export const SMALL = 64 * 1024;
/** So many files are written at once. */
const GROUP = 16;

/** Whether so much is new that the file of a chain is to be written whatever goes on in it. */
function isLongBehind({ behind, size }: { behind: number; size: number }): boolean {
  return behind > Math.max(SMALL, size / 4);
}

/**
 * Writes the files of chains beside all other work, so that no change waits for it. The log has all of a chain that its
 * file lacks; what a file costs is in proportion to what is new in it.
 */
export class Folding {
  readonly #chains: Chains;
  readonly #change: (work: () => void) => Promise<void>;
  /** Chains that this process changed, by the time of the last change, the latest last. */
  readonly #quietSince = new Map<string, number>();
  /** Those of them that are long behind. */
  readonly #urgent = new Set<string>();
  /** Those that wait for more changes, or for the end of the process. */
  readonly #later = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #pass: Promise<void> | undefined;
  #closing = false;

  /** `change` does its work under the store's lock. */
  constructor(chains: Chains, change: (work: () => void) => Promise<void>) {
    this.#chains = chains;
    this.#change = change;
  }

  /** A chain was changed, or is free again. */
  note(root: string): void {
    const known = this.#chains.known.get(root);
    if (!known || known.lines.length === 0) return;
    this.#quietSince.delete(root);
    this.#quietSince.set(root, performance.now());
    const isUrgent = isLongBehind(known);
    if (isUrgent) this.#urgent.add(root);
    this.#wait(isUrgent ? 0 : QUIET_MS);
  }

  /** Write all files that lack something of this process, but those of chains that are somebody's. */
  async close(): Promise<void> {
    this.#closing = true;
    await this.#pass;
    clearTimeout(this.#timer);
    const roots = new Set([...this.#quietSince.keys(), ...this.#later]);
    await this.#fold([...roots].filter((root) => !this.#isTaken(root)));
  }

  #wait(ms: number): void {
    if (this.#pass || this.#closing) return;
    if (ms === 0) clearTimeout(this.#timer);
    else if (this.#timer) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#pass = this.#work().finally(() => {
        this.#pass = undefined;
        if (this.#urgent.size + this.#quietSince.size > 0) this.#wait(this.#urgent.size > 0 ? 0 : QUIET_MS);
      });
    }, ms);
    // What a process that ends does not wait for is in the log.
    this.#timer.unref();
  }

  async #work(): Promise<void> {
    const due = new Set(this.#urgent);
    this.#urgent.clear();
    for (const [root, since] of this.#quietSince) {
      if (performance.now() - since < QUIET_MS) break;
      this.#quietSince.delete(root);
      const known = this.#chains.known.get(root);
      // Whoever has it gives it back, and it is noted again.
      const waits = known && (this.#isTaken(root) || (known.size > SMALL && !isLongBehind(known)));
      (waits ? this.#later : due).add(root);
    }
    await this.#fold([...due]);
  }

  #isTaken(root: string): boolean {
    const lease = this.#chains.store.leases.get(root);
    return lease !== undefined && Date.parse(lease.expiresAt) > Date.now() && holderState(lease.holder) !== "dead";
  }

  /** In groups: the files of one group share a turn at the lock, and what it costs to have their names on the disk. */
  async #fold(roots: readonly string[]): Promise<void> {
    for (let from = 0; from < roots.length; from += GROUP) {
      const group = roots.slice(from, from + GROUP);
      for (const root of group) this.#later.delete(root);
      try {
        await this.#foldGroup(group);
      } catch (error) {
        // The log has it; the end of the process, or whoever comes next, tries again.
        for (const root of group) this.#later.add(root);
        const why = String(error);
        this.#chains.files.logger?.warn("the file of a session could not be written yet", { sessions: group, why });
      }
    }
  }

  async #foldGroup(roots: readonly string[]): Promise<void> {
    const chains = this.#chains;
    // Waits for nobody, unless the log is lost and must be made again.
    if (!chains.refresh()) await this.#change(() => undefined);
    const temps = new Set<string>();
    try {
      const behind = roots.filter((root) => chains.isBehind(root) && chains.load(root));
      const files = await Promise.allSettled(
        behind.map(async (root) => {
          const known = chains.known.get(root);
          const { v, temp } = await chains.prepare(root);
          temps.add(temp);
          return { root, known, v, temp };
        }),
      );
      // First the log: what lists show must not be older than the files after a power cut.
      await chains.log.sync();
      await this.#change(() => {
        // A chain that was deleted meanwhile, or whose file another process wrote, is another now.
        const still = files.flatMap((file) => {
          if (file.status === "rejected") return [];
          const { root, known, v } = file.value;
          return known && chains.known.get(root) === known && known.filed < v ? [file.value] : [];
        });
        for (const { root, temp } of still) {
          renameSync(temp, chains.files.pathOf(root));
          temps.delete(temp);
        }
        if (still.length > 0) chains.files.syncFolder();
        for (const { root, v } of still) chains.addFolded(root, v);
      });
      for (const file of files) if (file.status === "rejected") throw file.reason;
      // What came meanwhile, and what was not the same any more.
      for (const root of roots) this.note(root);
    } finally {
      for (const temp of temps) rmSync(temp, { force: true });
    }
  }
}
