import { renameSync, statSync } from "node:fs";
import type { Logger } from "gantry";
import type { Files } from "./files.js";
import type { Log } from "./log.js";
import type { Chain, Mirror } from "./mirror.js";

/** A chain that was quiet for so long, in ms, gets its file. */
const QUIET_MS = 1000;
/** Length of a file that is written for the least change. A longer one waits until it lacks a quarter of itself. */
const SMALL = 64 * 1024;

const isLongBehind = ({ behind, size }: Chain): boolean => behind > Math.max(SMALL, size / 4);

/** The store whose files are written; see `JsonDocuments`. */
export interface FiledStore {
  readonly path: string;
  readonly files: Files;
  readonly log: Log;
  readonly logger: Logger | undefined;
  readonly mirror: Mirror;
  pathOf(root: string): string;
  locked<T>(work: () => T): Promise<T>;
  readFile(root: string): Promise<Chain | undefined>;
  writeFiled(root: string, upTo: number): void;
}

/**
 * Writes the files of chains beside all other work. The log has all of a chain that its file lacks; what a file costs is in
 * proportion to what is new in it.
 */
export class Filing {
  readonly #documents: FiledStore;
  /** Chains that this process changed, by the time of the last change, the latest last. */
  readonly #quietSince = new Map<string, number>();
  /** Those of them that are long behind. */
  readonly #urgent = new Set<string>();
  /** Those that wait for more changes, or for the end of the process. */
  readonly #later = new Set<string>();
  /** What the file that is being written has. */
  #writing: { chain: Chain; upTo: number } | undefined;
  #timer: NodeJS.Timeout | undefined;
  #pass: Promise<void> | undefined;
  #isClosing = false;

  constructor(documents: FiledStore) {
    this.#documents = documents;
  }

  /** A chain was changed. */
  note(root: string): void {
    const chain = this.#documents.mirror.chains.get(root);
    if (!chain || chain.last <= chain.filed || root === "") return;
    this.#quietSince.delete(root);
    this.#quietSince.set(root, performance.now());
    const isUrgent = isLongBehind(chain);
    if (isUrgent) this.#urgent.add(root);
    this.#wait(isUrgent ? 0 : QUIET_MS);
  }

  /** Writes the files that lack much. */
  async fileLong(): Promise<void> {
    await this.#pass;
    const long = [...this.#documents.mirror.chains].filter(([root, { behind }]) => root !== "" && behind > SMALL);
    await this.#start(long.map(([root]) => root));
  }

  /** Writes all files that lack something of this process. */
  async close(): Promise<void> {
    this.#isClosing = true;
    clearTimeout(this.#timer);
    await this.#pass;
    await this.#start([...new Set([...this.#quietSince.keys(), ...this.#later, ...this.#urgent])]);
  }

  /** Puts a temporary file in the place of a chain's, for its adapter. */
  async replace(root: string, temp: string): Promise<void> {
    const documents = this.#documents;
    const writing = this.#writing;
    // First the log: what it says must not be older than the files after a power cut.
    await documents.log.sync();
    await documents.locked(() => {
      const chain = documents.mirror.chains.get(root);
      // One that was deleted meanwhile, or whose file another process wrote, is another now.
      if (!writing || chain !== writing.chain || chain.filed >= writing.upTo) return;
      renameSync(temp, documents.pathOf(root));
      documents.files.syncFolder(documents.path);
      documents.writeFiled(root, writing.upTo);
    });
  }

  #wait(ms: number): void {
    if (this.#pass || this.#isClosing) return;
    if (ms === 0) clearTimeout(this.#timer);
    else if (this.#timer) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      void this.#start(this.#due());
    }, ms);
    // What a process that ends does not wait for is in the log.
    this.#timer.unref();
  }

  /** Never rejects. */
  #start(roots: readonly string[]): Promise<void> {
    const before = this.#pass;
    const pass = (async () => {
      await before;
      for (const root of roots) await this.#file(root);
    })().finally(() => {
      if (this.#pass !== pass) return;
      this.#pass = undefined;
      if (this.#urgent.size + this.#quietSince.size > 0) this.#wait(this.#urgent.size > 0 ? 0 : QUIET_MS);
    });
    this.#pass = pass;
    return pass;
  }

  #due(): string[] {
    const due = new Set(this.#urgent);
    for (const [root, since] of this.#quietSince) {
      if (performance.now() - since < QUIET_MS) break;
      const chain = this.#documents.mirror.chains.get(root);
      this.#quietSince.delete(root);
      (chain && chain.size > SMALL && !isLongBehind(chain) ? this.#later : due).add(root);
    }
    return [...due];
  }

  async #file(root: string): Promise<void> {
    const documents = this.#documents;
    this.#urgent.delete(root);
    this.#later.delete(root);
    if (this.#isClosing) this.#quietSince.delete(root);
    try {
      const chain = await documents.readFile(root);
      if (!chain?.low || chain.last <= chain.filed) return;
      this.#writing = { chain, upTo: chain.last };
      chain.low.data = documents.mirror.fileOf(root);
      await chain.low.write();
      chain.size = statSync(documents.pathOf(root), { throwIfNoEntry: false })?.size ?? 0;
      // What came meanwhile, or was not the same any more.
      if (!this.#isClosing) this.note(root);
    } catch (error) {
      // The log has it; the end of the process, or whoever comes next, tries again.
      if (!this.#isClosing) this.#later.add(root);
      documents.logger?.warn("the file of a session could not be written yet", { session: root, why: String(error) });
    }
  }
}
