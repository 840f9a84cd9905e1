import { join } from "node:path";
import type { LowSync } from "lowdb";
import { MemoryDriver, MemoryStore, isRecord } from "gantry";
import type { ChainData, Lease, Logger, RunRecord, Session, SessionChange, SessionData, SessionStart } from "gantry";
import { fileName, parsed, textOf } from "./files.js";
import type { Files } from "./files.js";
import type { Log } from "./log.js";

/** Version of the files that this code reads and writes. */
export const VERSION = 2;
/** More chains than these are not kept in memory with their messages, unless their files lack something. */
const KEPT = 64;

/** A file under `sessions/`: a chain. `v` counts its changes, so that it is known which lines of the log it holds. */
type ChainFile = ChainData & { version: number; v: number };

/** A line about a chain: what lists show of it, where that is new or another now. `folded`: its file holds all up to here. */
interface ChainLine {
  root: string;
  v: number;
  sessions?: readonly Session[];
  runs?: readonly { run: RunRecord; fence: number | null }[];
  folded?: true;
}

/** What was done to a chain: behind a tab on its line, so that only who has the chain's messages in memory parses it. */
type Content = { id: string; change: SessionChange } | { start: SessionStart };

/** Any line. The first one is a head. */
type Line = ChainLine | { head: number; fence: number } | OtherLine;
type OtherLine = { lease: Lease } | { released: string } | { gone: string } | { runs: NonNullable<ChainLine["runs"]> };

/** A chain beside what the memory store says: lines of the log that its file lacks, and whether its messages are in memory. */
interface Known {
  v: number;
  lines: string[];
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
  readonly #reported = new Set<string>();

  constructor(
    readonly path: string,
    readonly log: Log,
    readonly files: Files,
    readonly low: typeof LowSync,
    readonly logger: Logger | undefined,
  ) {}

  /** Take in what any process has done. Needs no lock. False when there is no log that can be used. */
  refresh(): boolean {
    const { lines = [], another = true } = this.log.read() ?? {};
    if (another) {
      this.known.clear();
      this.damaged = false;
      this.store = new MemoryStore();
      this.memory = new MemoryDriver(this.store);
      // It is open when the call returns.
      void this.memory.open();
      if (!("head" in (parsed<Line>(lines[0]) ?? {}))) {
        this.log.end = 0;
        return false;
      }
    }
    for (const line of lines) this.#take(line);
    return true;
  }

  /** The id of the chain's original, by any id or alias of the chain; `""` for an unknown one. */
  rootOf(id: string): string {
    const { sessions, aliases } = this.store;
    return (sessions.get(id) ?? sessions.get(aliases.get(id) ?? ""))?.session.chain.root ?? "";
  }

  sessionsOf(root: string): Session[] {
    return [...(this.store.sessions.get(root)?.chain.sessions.values() ?? [])].map(({ session }) => session);
  }

  pathOf(root: string): string {
    return join(this.path, fileName(root));
  }

  /** Whether the chain's file lacks something. */
  isBehind(root: string): boolean {
    return (this.known.get(root)?.lines.length ?? 0) > 0;
  }

  /** Have the chain's messages in memory. False, and the chain is forgotten, when it has no file that can be used. */
  load(root: string): boolean {
    const known = this.known.get(root);
    if (!known || known.whole) return known !== undefined;
    const file = this.read(this.pathOf(root));
    if (file?.sessions[0]?.session.id !== root) {
      this.#forget(root);
      return false;
    }
    // Its runs are in memory already, and with them who holds them.
    this.#forgetSessions(root);
    this.store.load({ ...file, runs: [] });
    // Whoever wrote the file may have died before the log could say so.
    known.lines = known.lines.filter((line) => (parsed<ChainLine>(line)?.v ?? 0) > file.v);
    known.lines.forEach((line) => this.#replay(line));
    known.v = Math.max(known.v, file.v);
    known.whole = true;
    const whole = [...this.known.keys()].filter((one) => this.known.get(one)?.whole && !this.isBehind(one));
    if (whole.length > KEPT) for (const other of whole) if (other !== root) this.unload(other);
    return true;
  }

  /** Let go of a chain's messages, and take in what lists show of it now. */
  unload(root: string, news: readonly Session[] = []): void {
    const sessions = new Map([...this.sessionsOf(root), ...news].map((session) => [session.id, session]));
    const shells = [...sessions.values()].map((session) => ({ session, cut: "", view: [], messages: [] }));
    this.#forgetSessions(root);
    this.store.load({ sessions: shells, snapshots: [], runs: [] });
    const known = this.known.get(root);
    if (known) known.whole = false;
  }

  /** Under the lock: say in the log what was done in memory. */
  add(line: Line, content?: Content): void {
    const text = JSON.stringify(line) + (content ? `\t${JSON.stringify(content)}` : "");
    this.log.add(text);
    if ("gone" in line) this.#forget(line.gone);
    if ("v" in line) this.#count(line, text);
  }

  /** Under the lock: the same of a change of a chain that was loaded, with the sessions and runs that are others now. */
  addChange(root: string, sessions: readonly Session[], runs: readonly RunRecord[], content: Content): void {
    const stored = runs.flatMap(({ id }) => this.store.runs.get(id) ?? []);
    const shown = { ...(sessions.length > 0 && { sessions }), ...(stored.length > 0 && { runs: stored }) };
    this.add({ root, v: (this.known.get(root)?.v ?? 0) + 1, ...shown }, content);
  }

  /** Under the lock: say in the log that there is a chain, all of it in memory and in its file. */
  addFile(root: string, v: number): void {
    const runs = [...this.store.runs.values()].filter(({ run }) => run.sessionId === root);
    this.add({ root, v, sessions: this.sessionsOf(root), runs, folded: true });
    this.unload(root);
  }

  /** Write the file of a chain whose messages are in memory; gives its `v`. */
  write(root: string): number {
    const v = this.known.get(root)?.v ?? 1;
    const data = this.store.dump(root);
    if (data) this.#file(this.pathOf(root), { version: VERSION, v, ...data }).write();
    return v;
  }

  /** A chain's file; undefined, and reported, when it cannot be used. Such a one is kept. */
  read(path: string): ChainFile | undefined {
    try {
      const low = this.#file(path, null);
      low.read();
      if (low.data === null) return undefined;
      const { version, sessions } = low.data;
      const sound = ({ session: { id, updatedAt, usage, chain }, messages }: SessionData): boolean =>
        [id, updatedAt, chain.root].every((text) => typeof text === "string") &&
        isRecord(usage) &&
        messages.length >= 0;
      if (version === VERSION && sessions.every(sound)) return low.data;
      throw new Error(`expected a session of version ${VERSION}`);
    } catch (error) {
      const message = "a session's file cannot be used; it is left out and left as it is";
      if (!this.#reported.has(path)) this.logger?.error(message, { path, why: String(error) });
      this.#reported.add(path);
      return undefined;
    }
  }

  /** Under the lock: put a log in place that says of each chain what it is, and no more. Each chain's file must hold all of it. */
  rewrite(): void {
    const { leases, fence, runs } = this.store;
    const lines: Line[] = [{ head: VERSION, fence }];
    for (const [root, { v }] of this.known) lines.push({ root, v, sessions: this.sessionsOf(root), folded: true });
    lines.push({ runs: [...runs.values()] }, ...[...leases.values()].map((lease) => ({ lease })));
    this.files.replace(this.log.path, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
    this.refresh();
  }

  #file(path: string, data: ChainFile | null): LowSync<ChainFile | null> {
    const read = (): ChainFile | null => JSON.parse(textOf(path) ?? "null") as ChainFile | null;
    return new this.low({ read, write: (file) => this.files.replace(path, JSON.stringify(file)) }, data);
  }

  #take(text: string): void {
    const line = parsed<Line>(text);
    if (!line) this.damaged = true;
    else if ("head" in line) this.store.fence = line.fence;
    else if ("lease" in line) {
      this.store.leases.set(line.lease.rootId, line.lease);
      this.store.fence = Math.max(this.store.fence, line.lease.fence);
    } else if ("released" in line) this.store.leases.delete(line.released);
    else if ("gone" in line) this.#forget(line.gone);
    else {
      for (const stored of line.runs ?? []) this.store.runs.set(stored.run.id, stored);
      const known = "v" in line && this.#count(line, text);
      if (known && known.whole && text.includes("\t")) this.#replay(text);
      else if (known && "sessions" in line) this.unload(line.root, line.sessions);
    }
  }

  /** Gives what is known of the chain when the line is news. */
  #count({ root, v, folded }: ChainLine, text: string): Known | undefined {
    const known = this.known.get(root) ?? { v: 0, lines: [], whole: false };
    this.known.set(root, known);
    if (folded) known.lines = [];
    if (v <= known.v) return undefined;
    if (!folded) known.lines.push(text);
    known.v = v;
    return known;
  }

  /** Do what was done to a chain whose messages are in memory. */
  #replay(line: string): void {
    const content = parsed<Content>(line.slice(line.indexOf("\t") + 1)) ?? {
      id: "",
      change: { fence: null, sync: false },
    };
    const { memory } = this;
    // It does all in the call itself; what it gives tells only whether it refused.
    const done = "start" in content ? memory.create(content.start) : memory.write(content.id, content.change);
    done.catch(() => (this.damaged = true));
  }

  #forget(root: string): void {
    this.#forgetSessions(root);
    const { runs, leases } = this.store;
    for (const [id, { run }] of runs) if (run.sessionId === root) runs.delete(id);
    leases.delete(root);
    this.known.delete(root);
  }

  #forgetSessions(root: string): void {
    for (const { id, alias } of this.sessionsOf(root)) {
      this.store.sessions.delete(id);
      this.store.aliases.delete(alias);
    }
  }
}
