import { existsSync, rmSync, statSync } from "node:fs";
import { MemoryDriver, MemoryStore } from "gantry";
import type { Ask, Instruction, Lease, RunRecord, Session, SessionChange, SessionStart } from "gantry";
import { completed, VERSION } from "./chain-files.js";
import type { ChainFile, ChainFiles } from "./chain-files.js";
import { parsed } from "./files.js";
import type { Log } from "./log.js";

/** More chains than these, beside those in use, are not kept in memory with their messages. */
const KEPT = 64;

/** A line about a chain: what lists show of it, where that is new or another now. `folded`: its file holds all up to here. */
interface ChainLine {
  root: string;
  v: number;
  sessions?: readonly Session[];
  runs?: readonly { run: RunRecord; fence: number | null }[];
  asks?: readonly Ask[];
  folded?: true;
  /** Whoever had its lease last may not know what is in it. */
  free?: true;
}

/** What was done to a chain: behind a tab on its line, so that only who has the chain's messages in memory parses it. */
type Content = { id: string; change: SessionChange } | { start: SessionStart };

/** Any line. The first one is a head. */
type Line = ChainLine | { head: number; fence: number } | OtherLine;
type OtherLine =
  | { lease: Lease }
  | { released: string }
  | { gone: string }
  | { runs: NonNullable<ChainLine["runs"]> }
  | { asks: readonly Ask[] }
  | { instruction: Instruction }
  | { followed: readonly string[]; of: string };

/** What records of runs lack that an earlier version wrote. */
const NEW_OF_RUN = { fingerprint: "", after: 0, line: null, retry: null, answer: null } as const;

/** A chain beside what the memory store says. */
interface Known {
  v: number;
  /** The `v` of its file, which is on the disk; 0 while it has none, and the log has all of it. */
  filed: number;
  /** Length of its file, as far as it is known. */
  size: number;
  /** Lines of the log that its file lacks, and how long they are together. */
  lines: { v: number; text: string }[];
  behind: number;
  /** Its messages are in memory. */
  whole: boolean;
}

/**
 * All that is stored, as the log and the files say. Sessions, runs and leases are always in memory, the messages of a
 * chain when somebody asks for them: what its file says, and then the lines of the log that the file lacks.
 */
export class Chains {
  store = new MemoryStore();
  memory = new MemoryDriver(this.store);
  /** By the original's id. */
  readonly known = new Map<string, Known>();
  /** The log has a line that is none; what could be read is used. */
  damaged = false;
  /** Chains of which another process said something since somebody emptied it. */
  readonly news = new Set<string>();
  /** The same where any may be another: a chain that is in the log no more is in none of its lines. */
  allNew = false;
  /** Chains whose messages are in memory, the last used last. */
  readonly #whole = new Set<string>();

  constructor(
    readonly log: Log,
    readonly files: ChainFiles,
  ) {}

  /** Take in what any process has done. Needs no lock. False when there is no log that can be used: memory is as it was then. */
  refresh(): boolean {
    const { lines = [], another = true } = this.log.read() ?? {};
    if (another) {
      if (!("head" in (parsed<Line>(lines[0]) ?? {}))) {
        this.log.end = 0;
        return false;
      }
      this.clear();
    }
    for (const line of lines) this.#take(line);
    return true;
  }

  /** Forget all. */
  clear(): void {
    this.allNew = true;
    this.known.clear();
    this.#whole.clear();
    this.damaged = false;
    this.store = new MemoryStore();
    this.memory = new MemoryDriver(this.store);
    // It is open when the call returns.
    void this.memory.open();
  }

  /** Whether the chain's file lacks something. */
  readonly isBehind = (root: string): boolean => (this.known.get(root)?.lines.length ?? 0) > 0;
  readonly sessionsOf = (root: string): Session[] =>
    [...(this.store.sessions.get(root)?.chain.sessions.values() ?? [])].map(({ session }) => session);
  /** The id of the chain's original, by any id or alias of the chain; `""` for an unknown one. */
  readonly rootOf = (id: string): string => this.store.find(id)?.session.chain.root ?? "";

  /** Have the chain's messages in memory. False, and the chain is forgotten, when it has no file that can be used and should have one. */
  load(root: string): boolean {
    const known = this.known.get(root);
    if (!known) return false;
    if (known.whole) {
      this.#keep(root, known);
      return true;
    }
    const file = this.files.read(this.files.pathOf(root));
    if (file?.sessions[0]?.session.id === root) {
      // Its runs are in memory already, and with them who holds them; its asks too.
      this.store.load({ ...file, runs: [], asks: [] });
      // Whoever wrote the file may have died before the log could say so.
      this.#filed(known, file.v);
      known.size = statSync(this.files.pathOf(root), { throwIfNoEntry: false })?.size ?? 0;
    } else if (known.filed === 0) this.store.drop(root);
    else {
      this.#forget(root);
      return false;
    }
    for (const { text } of known.lines) this.#replay(text);
    this.#keep(root, known);
    return true;
  }

  /** Under the lock: say in the log what was done in memory, with the next `log.flush`. */
  add(line: Line, content = ""): void {
    const text = JSON.stringify(line) + (content && `\t${content}`);
    this.log.add(text);
    if ("gone" in line) this.#forget(line.gone);
    if ("v" in line) this.#count(line, text);
  }

  /** Under the lock: the same of a change of a chain that was loaded, or that is new, with the sessions and runs that are others now. */
  addChange(
    root: string,
    { sessions, runs = [], asks = [] }: { sessions: readonly Session[] } & Pick<SessionChange, "runs" | "asks">,
    content: string,
  ): void {
    const line: ChainLine = { root, v: (this.known.get(root)?.v ?? 0) + 1 };
    if (sessions.length > 0) line.sessions = sessions;
    if (runs.length > 0) line.runs = runs.flatMap(({ id }) => this.store.runs.get(id) ?? []);
    if (asks.length > 0) line.asks = asks.flatMap(({ id }) => this.store.asks.get(id) ?? []);
    const { leases, released } = this.store;
    if (!leases.has(root) && !released.has(root)) line.free = true;
    this.add(line, content);
    const known = this.known.get(root);
    if (known) this.#keep(root, known);
  }

  /** Under the lock: say in the log that there is a chain, all of it in memory and in its file. */
  addFile(root: string, v: number): void {
    const asks = this.store.asks.list(root, { limit: Infinity });
    this.add({ root, v, sessions: this.sessionsOf(root), runs: this.store.runsOf(root), asks, folded: true });
    this.#unload(root);
  }

  /** Under the lock: say in the log that the chain's file holds all up to `v`. */
  addFolded(root: string, v: number): void {
    this.add({ root, v, folded: true });
  }

  /** Under the lock. A crash between the two leaves a chain without the file that it had, which is none. */
  delete(root: string): void {
    const path = this.files.pathOf(root);
    if (existsSync(path)) {
      rmSync(path, { force: true });
      this.files.syncFolder();
    }
    this.add({ gone: root });
  }

  /** Write the file of a chain whose messages are in memory; gives its `v`. */
  write(root: string): number {
    const file = this.#contentOf(root);
    this.#setSize(root, this.files.write(root, file));
    return file.v;
  }

  /** The same to a temporary file that is on the disk when it resolves; the event loop is free meanwhile. */
  async prepare(root: string): Promise<{ v: number; temp: string }> {
    const file = this.#contentOf(root);
    const { v } = file;
    const { temp, length } = await this.files.prepare(file);
    this.#setSize(root, length);
    return { v, temp };
  }

  /** Under the lock: put a log in place that says of each chain what it is and what its file lacks, and no more. */
  rewrite(): void {
    const { leases, fence, runs, asks, instructions } = this.store;
    const lines = [JSON.stringify({ head: VERSION, fence } satisfies Line)];
    for (const [root, known] of this.known) {
      const line: ChainLine = { root, v: known.filed, sessions: this.sessionsOf(root), folded: true };
      if (known.filed > 0) lines.push(JSON.stringify(line));
      for (const { text } of known.lines) lines.push(text);
    }
    const others: OtherLine[] = [
      { runs: [...runs.values()] },
      { asks: [...asks.values()] },
      ...[...instructions.values()].map((instruction) => ({ instruction })),
      ...[...leases.values()].map((lease) => ({ lease })),
    ];
    lines.push(...others.map((line) => JSON.stringify(line)));
    // What the old log could still make good.
    this.files.syncFolder();
    this.files.files.replace(this.log.path, `${lines.join("\n")}\n`);
    this.log.adopt();
  }

  /** The store's own objects. */
  #contentOf(root: string): ChainFile {
    const { sessions = [], snapshots = [], runs = [], asks = [] } = this.store.chain(root) ?? {};
    return { version: VERSION, v: this.known.get(root)?.v ?? 1, sessions, snapshots, runs, asks };
  }

  #setSize(root: string, size: number): void {
    const known = this.known.get(root);
    if (known) known.size = size;
  }

  #take(text: string): void {
    const line = parsed<Line>(text);
    if (!line) this.damaged = true;
    else if ("head" in line) this.store.fence = line.fence;
    else if ("instruction" in line) {
      this.store.instructions.set(line.instruction.id, line.instruction);
      this.news.add(line.instruction.sessionId);
    } else if ("followed" in line) {
      for (const id of line.followed) this.store.instructions.delete(id);
      this.news.add(line.of);
    } else if ("lease" in line) {
      this.store.leases.set(line.lease.rootId, line.lease);
      this.store.released.delete(line.lease.rootId);
      this.store.fence = Math.max(this.store.fence, line.lease.fence);
    } else if ("released" in line) {
      const lease = this.store.leases.get(line.released);
      if (lease) this.store.release(lease);
    } else if ("gone" in line) {
      this.#forget(line.gone);
      this.news.add(line.gone);
    } else {
      for (const stored of ("runs" in line && line.runs) || []) {
        this.store.runs.set(stored.run.id, { ...stored, run: { ...NEW_OF_RUN, ...stored.run } });
        this.news.add(stored.run.sessionId);
      }
      for (const ask of ("asks" in line && line.asks) || []) {
        this.store.asks.set(ask.id, ask);
        this.news.add(ask.sessionId);
      }
      if ("v" in line) this.news.add(line.root);
      if ("free" in line) this.store.released.delete(line.root);
      const known = "v" in line && this.#count(line, text);
      if (known && known.whole && text.includes("\t")) this.#replay(text);
      else if (known && line.sessions?.length) this.#unload(line.root, line.sessions.map(completed));
    }
  }

  /** Gives what is known of the chain when the line is news. */
  #count({ root, v, folded }: ChainLine, text: string): Known | undefined {
    const known = this.known.get(root) ?? { v: 0, filed: 0, size: 0, lines: [], behind: 0, whole: false };
    this.known.set(root, known);
    const isNews = v > known.v;
    if (folded) this.#filed(known, v);
    else if (isNews) {
      known.v = v;
      known.lines.push({ v, text });
      known.behind += text.length;
    }
    return isNews ? known : undefined;
  }

  /** The chain's file is known to hold all up to `v`. */
  #filed(known: Known, v: number): void {
    known.filed = Math.max(known.filed, v);
    known.v = Math.max(known.v, v);
    known.lines = known.lines.filter((line) => line.v > v);
    known.behind = known.lines.reduce((sum, { text }) => sum + text.length, 0);
  }

  /** Do what was done to a chain whose messages are in memory. */
  #replay(line: string): void {
    const content = parsed<Content>(line.slice(line.indexOf("\t") + 1));
    try {
      if (content && "start" in content)
        this.store.create({ ...content.start, session: completed(content.start.session) });
      else if (content) this.store.write(content.id, content.change);
      else this.damaged = true;
    } catch {
      this.damaged = true;
    }
  }

  /** The chain's messages are in memory, and just used; others make room for them. */
  #keep(root: string, known: Known): void {
    known.whole = true;
    this.#whole.delete(root);
    this.#whole.add(root);
    const { leases } = this.store;
    for (const other of this.#whole) {
      if (this.#whole.size <= KEPT + leases.size) return;
      if (!leases.has(other) && other !== root) this.#unload(other);
    }
  }

  /** Let go of a chain's messages, and take in what lists show of it now. */
  #unload(root: string, news: readonly Session[] = []): void {
    const sessions = new Map([...this.sessionsOf(root), ...news].map((session) => [session.id, session]));
    const shells = [...sessions.values()].map((session) => ({ session, cut: "", view: [], messages: [] }));
    this.store.load({ sessions: shells, snapshots: [], runs: [], asks: [] });
    const known = this.known.get(root);
    if (known) known.whole = false;
    this.#whole.delete(root);
  }

  #forget(root: string): void {
    this.store.remove(root);
    this.known.delete(root);
    this.#whole.delete(root);
  }
}
