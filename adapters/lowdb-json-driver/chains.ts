import { readdir, rename, stat, unlink } from "node:fs/promises";
import { basename, dirname, join, relative } from "node:path";
import { MemoryDriver, MemoryStore, SessionNotFoundError } from "gantry";
import type { ChainData, Logger, Session, SessionChange, SessionData, SessionStart, Snapshot } from "gantry";
import { unlessMissing } from "./errors.js";
import { readLines } from "./files.js";
import type { Files } from "./files.js";
import { VERSION } from "./layout.js";
import type { Layout } from "./layout.js";
import type { IndexedRun, SessionIndex } from "./session-index.js";

/** A journal longer than this is folded in although its message still grows, in bytes. */
const JOURNAL_LIMIT = 1024 * 1024;
/** Chains kept in memory. */
const KEPT = 64;

/** One file under `sessions/`. The original's also holds what belongs to the chain. */
interface SessionFile extends SessionData {
  version: number;
  snapshots?: Snapshot[];
  runs?: IndexedRun[];
}

/** A line of a chain's journal. `fold`: temporary files and what they replace. `gone`: ids of a chain that is being deleted. */
type JournalLine = { id: string; change: SessionChange } | { fold: [from: string, to: string][] } | { gone: string[] };

/** A chain in memory, as its files and its journal say. */
export interface Chain {
  readonly root: string;
  readonly driver: MemoryDriver;
  readonly store: MemoryStore;
  /** Tells whether the files are still those that were read. */
  signature: string;
  /** Bytes of the journal that are taken in. */
  end: number;
  /** Ids whose files lag behind. */
  readonly dirty: Set<string>;
}

/**
 * Chains on the disk. A change is one line at the end of the chain's journal, so it is whole or not at all whatever it
 * touches, and costs what it adds. Folding writes the sessions' files anew and removes the journal. Every method but
 * `forget` is called under the chain's lock.
 */
export class Chains {
  readonly #layout: Layout;
  readonly #files: Files;
  readonly #index: SessionIndex;
  readonly #logger: Logger | undefined;
  readonly #known = new Map<string, Chain>();
  readonly #reported = new Set<string>();

  constructor(layout: Layout, files: Files, index: SessionIndex, logger: Logger | undefined) {
    this.#layout = layout;
    this.#files = files;
    this.#index = index;
    this.#logger = logger;
  }

  /** The chain as it is now; undefined when there is none. `underIndexLock` runs what changes the index. */
  async current(root: string, underIndexLock: Lock): Promise<Chain | undefined> {
    const signature = await signatureOf(this.#layout.session(root));
    const known = this.#known.get(root);
    const chain = known?.signature === signature ? known : await this.#load(root, signature);
    const state = await this.#replay(root, chain, underIndexLock);
    if (state === "again") {
      this.#known.delete(root);
      return this.current(root, underIndexLock);
    }
    if (state === "gone" || !chain) {
      this.#known.delete(root);
      if (signature === "") await this.#setAsideOrphan(root);
      await this.#forgetMissing(root, underIndexLock);
      return undefined;
    }
    if (chain !== known || state === "grown") await this.#tell(chain, underIndexLock);
    this.#keep(chain);
    return chain;
  }

  /** Write a new original, which is its own first file. */
  async begin(start: SessionStart): Promise<void> {
    const { session } = start;
    const store = new MemoryStore();
    const driver = new MemoryDriver(store);
    await driver.open();
    await createUnder(driver, store, start);
    const data = store.dump(session.id);
    if (!data) return;
    const [text = ""] = textsOf(data, new Set([session.id]), [...store.runs.values()]).values();
    await this.#files.replace(this.#layout.session(session.id), text);
  }

  /** Write a whole new chain. Its original's file comes last: without it the others are no chain. */
  async take(data: ChainData): Promise<void> {
    const runs = data.runs.map((run) => ({ run, fence: null }));
    const texts = textsOf(data, new Set(data.sessions.map(({ session }) => session.id)), runs);
    for (const [id, text] of [...texts].reverse()) await this.#files.replace(this.#layout.session(id), text);
  }

  /** Apply a change and add it to the journal. */
  async change(chain: Chain, id: string, change: SessionChange): Promise<void> {
    const touched = touchedBy(chain, id, change);
    await writeUnder(chain, id, change);
    // Before the journal is: a fold writes the files of all that was touched, or it would be lost with the journal.
    for (const one of touched) chain.dirty.add(one);
    await this.#journal(chain, { id, change }, change.sync);
    if (chain.end > JOURNAL_LIMIT) await this.fold(chain);
  }

  /** Write the files of all that changed, then remove the journal. A crash in the middle is completed later. */
  async fold(chain: Chain): Promise<void> {
    if (chain.end === 0 && chain.dirty.size === 0) return;
    const data = chain.store.dump(chain.root);
    if (!data) return;
    // The original's file always: its new signature tells other processes to read again.
    const texts = textsOf(data, chain.dirty.add(chain.root), runsOf(chain));
    const moves: [string, string][] = [];
    try {
      for (const [id, text] of texts) moves.push([await this.#files.stage(text), this.#layout.session(id)]);
      // Relative, so that a folder that was moved meanwhile can still be completed.
      const fold = moves.map(([from, to]): [string, string] => [this.#relative(from), this.#relative(to)]);
      await this.#journal(chain, { fold }, true);
    } catch (error) {
      for (const [from] of moves) await unlessMissing(unlink(from));
      throw error;
    }
    // When it fails, what is on the disk is true, and whoever comes next completes it.
    this.#known.delete(chain.root);
    await this.#completeFold(chain.root, moves);
    this.#keep(chain);
    chain.signature = await signatureOf(this.#layout.session(chain.root));
    chain.end = 0;
    chain.dirty.clear();
  }

  /** Remove a chain: first said in the journal, so that it is completed after a crash. */
  async remove(chain: Chain, underIndexLock: Lock): Promise<void> {
    const gone = [...chain.store.sessions.keys()];
    await this.#journal(chain, { gone }, true);
    this.#known.delete(chain.root);
    await this.#completeRemoval(chain.root, gone, underIndexLock);
  }

  /** After a failure: what is on the disk is true. */
  forget(root: string): void {
    this.#known.delete(root);
  }

  /** Ids of originals whose journals wait. */
  async waiting(): Promise<string[]> {
    const names = new Set((await readdir(this.#layout.journals)).map((file) => basename(file, ".jsonl")));
    const roots = new Set(this.#index.ids().map((id) => this.#index.rootOf(id) ?? id));
    return [...roots].filter((root) => names.has(basename(this.#layout.journal(root), ".jsonl")));
  }

  /** What a file under `sessions/` says; undefined, and reported, when it is bad. Bad ones are kept. */
  async read(path: string): Promise<SessionFile | undefined> {
    const { Low } = await import("lowdb");
    const low = new Low<SessionFile | null>(this.#files.adapter<SessionFile | null>(path), null);
    try {
      await low.read();
      if (low.data === null) return undefined;
      if (isSessionFile(low.data)) return low.data;
      throw new Error(`expected a session of version ${VERSION}`);
    } catch (error) {
      if (!this.#reported.has(path)) {
        this.#reported.add(path);
        this.#logger?.error("a session's file cannot be used; it is left out and left as it is", {
          path,
          why: error instanceof Error ? error.message : String(error),
        });
      }
      return undefined;
    }
  }

  async #load(root: string, signature: string): Promise<Chain | undefined> {
    await this.#index.refresh();
    const original = await this.read(this.#layout.session(root));
    if (original?.session.id !== root) return undefined;
    const sessions: SessionData[] = [original];
    for (const id of this.#index.idsOf(root)) {
      const file = id === root ? undefined : await this.read(this.#layout.session(id));
      if (file?.session.id === id) sessions.push(file);
    }
    const store = new MemoryStore();
    const driver = new MemoryDriver(store);
    await driver.open();
    store.load({ sessions, snapshots: original.snapshots ?? [], runs: [] });
    for (const one of original.runs ?? []) store.runs.set(one.run.id, one);
    return { root, driver, store, signature, end: 0, dirty: new Set() };
  }

  /** Take in what the journal has beyond what is known. `again`: the files are others now. */
  async #replay(
    root: string,
    chain: Chain | undefined,
    underIndexLock: Lock,
  ): Promise<"same" | "grown" | "again" | "gone"> {
    const path = this.#layout.journal(root);
    const from = chain?.end ?? 0;
    const read = await readLines(path, from);
    if (!read || read.size < from) return from > 0 ? "again" : "same";
    const lines = read.lines.map((text) => ({ bytes: Buffer.byteLength(text) + 1, line: parseLine(text) }));
    // What a crash left undone comes before all else: the files may hold already what the lines before it say.
    for (const { line } of lines) {
      if (line && "fold" in line) {
        const { beside } = this.#layout;
        await this.#completeFold(
          root,
          line.fold.map(([from, to]) => [join(beside, from), join(beside, to)]),
        );
        return "again";
      }
      if (line && "gone" in line) {
        await this.#completeRemoval(root, line.gone, underIndexLock);
        return "gone";
      }
    }
    let end = from;
    for (const { line, bytes } of lines) {
      if (!chain) break;
      try {
        if (!line || !("change" in line)) throw new Error("not a line of a journal");
        const touched = touchedBy(chain, line.id, line.change);
        await writeUnder(chain, line.id, line.change);
        for (const one of touched) chain.dirty.add(one);
      } catch (error) {
        await this.#setAside(path, error);
        break;
      }
      end += bytes;
    }
    if (!chain) return "same";
    chain.end = end;
    // A writer died in the middle of a line; nobody was told that it was written.
    if (end < read.size) await this.#files.cut(path, end);
    return end > from ? "grown" : "same";
  }

  async #tell(chain: Chain, underIndexLock: Lock): Promise<void> {
    const sessions = sessionsOf(chain);
    await this.#index.refresh();
    const runs = runsOf(chain);
    if (this.#index.differs(sessions, runs)) await underIndexLock(() => this.#index.put(sessions, runs));
  }

  async #journal(chain: Chain, line: JournalLine, sync: boolean): Promise<void> {
    const text = `${JSON.stringify(line)}\n`;
    try {
      await this.#files.append(this.#layout.journal(chain.root), text, chain.end, sync);
    } catch (error) {
      this.#known.delete(chain.root);
      throw error;
    }
    chain.end += Buffer.byteLength(text);
  }

  async #completeFold(root: string, moves: readonly (readonly [from: string, to: string])[]): Promise<void> {
    for (const [from, to] of moves) await unlessMissing(rename(from, to));
    for (const folder of new Set(moves.map(([, to]) => dirname(to)))) await this.#files.syncFolder(folder);
    await this.#index.sync();
    await unlessMissing(unlink(this.#layout.journal(root)));
  }

  async #completeRemoval(root: string, ids: readonly string[], underIndexLock: Lock): Promise<void> {
    await underIndexLock(() => this.#index.remove(ids));
    await unlessMissing(unlink(this.#layout.lease(root)));
    for (const id of [root, ...ids]) await unlessMissing(unlink(this.#layout.session(id)));
    await this.#files.syncFolder(this.#layout.sessions);
    await unlessMissing(unlink(this.#layout.journal(root)));
  }

  #relative(path: string): string {
    return relative(this.#layout.beside, path);
  }

  /** A journal of a chain that there is no file of must not be taken for that of a later session with its id. */
  async #setAsideOrphan(root: string): Promise<void> {
    const path = this.#layout.journal(root);
    if (!(await unlessMissing(stat(path)))) return;
    await this.#setAside(path, new Error("the session's file is missing"));
    await unlessMissing(unlink(path));
  }

  /** The index knows a chain that there is no file of. */
  async #forgetMissing(root: string, underIndexLock: Lock): Promise<void> {
    const ids = this.#index.idsOf(root);
    if (ids.length > 0) await underIndexLock(() => this.#index.remove(ids));
  }

  async #setAside(path: string, error: unknown): Promise<void> {
    const kept = join(this.#layout.beside, `bad-${Date.now()}-${basename(path)}`);
    await this.#files.copy(path, kept);
    this.#logger?.error("a journal is damaged; what was readable is used, a copy of all is kept", {
      path,
      kept,
      why: error instanceof Error ? error.message : String(error),
    });
  }

  #keep(chain: Chain): void {
    this.#known.delete(chain.root);
    this.#known.set(chain.root, chain);
    const [oldest] = this.#known.keys();
    if (this.#known.size > KEPT && oldest !== undefined) this.#known.delete(oldest);
  }
}

/** Runs what changes the index. */
export type Lock = <T>(work: () => Promise<T>) => Promise<T>;

export function sessionsOf(chain: Chain): Session[] {
  return [...chain.store.sessions.values()].map(({ session }) => session);
}

export function runsOf(chain: Chain): IndexedRun[] {
  return [...chain.store.runs.values()];
}

/** Without a look at the leases, which are not in memory; the fence is kept with the runs all the same. */
async function writeUnder({ driver, store }: Chain, id: string, change: SessionChange): Promise<void> {
  await driver.write(id, { ...change, fence: null });
  for (const run of change.runs ?? []) store.runs.get(run.id)!.fence = change.fence;
}

/** As `writeUnder`. */
export async function createUnder(driver: MemoryDriver, store: MemoryStore, start: SessionStart): Promise<void> {
  await driver.create({ ...start, fence: null });
  if (start.run) store.runs.get(start.run.id)!.fence = start.fence ?? null;
}

/** The session, which must be in the chain. */
export function checkIn(chain: Chain | undefined, id: string): asserts chain is Chain {
  if (!chain?.store.sessions.has(id)) throw new SessionNotFoundError(id);
}

/** Ids of the sessions whose files a change makes out of date. */
function touchedBy(chain: Chain, id: string, change: SessionChange): string[] {
  if (change.cut || change.restore !== undefined || change.runs) return [...chain.store.sessions.keys()];
  const growing = chain.store.sessions.get(id)?.chain.growing;
  const messages = [
    ...(change.append ?? []).map((delta) => delta.messageId),
    ...(change.finish ?? []).map((m) => m.id),
  ];
  return [id, ...messages.flatMap((message) => growing?.get(message)?.message.sessionId ?? [])];
}

function textsOf(data: ChainData, ids: ReadonlySet<string>, runs: IndexedRun[]): Map<string, string> {
  const texts = new Map<string, string>();
  for (const session of data.sessions) {
    const { id, chain } = session.session;
    if (!ids.has(id)) continue;
    const file: SessionFile = { version: VERSION, ...session };
    if (chain.root === id) Object.assign(file, { snapshots: data.snapshots, runs });
    texts.set(id, JSON.stringify(file));
  }
  return texts;
}

function isSessionFile(value: unknown): value is SessionFile {
  if (typeof value !== "object" || value === null) return false;
  const { version, session, view, messages, cut } = value as Partial<Record<keyof SessionFile, unknown>>;
  if (version !== VERSION || typeof cut !== "string" || !Array.isArray(view) || !Array.isArray(messages)) return false;
  if (typeof session !== "object" || session === null) return false;
  const { id, chain, usage, updatedAt } = session as Partial<Record<keyof Session, unknown>>;
  return (
    typeof id === "string" &&
    typeof updatedAt === "string" &&
    typeof usage === "object" &&
    typeof chain === "object" &&
    chain !== null &&
    typeof (chain as { root?: unknown }).root === "string" &&
    typeof (chain as { index?: unknown }).index === "number"
  );
}

function parseLine(text: string): JournalLine | undefined {
  try {
    const line: unknown = JSON.parse(text);
    return typeof line === "object" && line !== null ? (line as JournalLine) : undefined;
  } catch {
    return undefined;
  }
}

async function signatureOf(path: string): Promise<string> {
  const info = await unlessMissing(stat(path, { bigint: true }));
  return info ? `${info.ino}:${info.size}:${info.mtimeNs}:${info.ctimeNs}` : "";
}
