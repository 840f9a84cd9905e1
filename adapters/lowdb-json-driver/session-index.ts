import { randomUUID } from "node:crypto";
import { open, stat, truncate } from "node:fs/promises";
import type { RunQuery, RunRecord, Session, SessionPage, SessionQuery } from "gantry";
import { unlessMissing } from "./errors.js";
import { linesOf } from "./files.js";
import type { Files } from "./files.js";

/** A line of the file: the head, a session as it is now, or ids that are gone. */
type Line = { index: string } | { put: Session } | { run: IndexedRun } | { gone: string[] };

/** A run, and the fence under which it was last written. */
export interface IndexedRun {
  run: RunRecord;
  fence: number | null;
}

interface Entry {
  session: Session;
  json: string;
}

/**
 * What lists need of every session, so that no list reads a session's file. A file of lines that only grows, until it
 * is written anew; made again from the sessions when it is lost.
 */
export class SessionIndex {
  readonly #path: string;
  readonly #files: Files;
  #entries = new Map<string, Entry>();
  #aliases = new Map<string, string>();
  #chains = new Map<string, Set<string>>();
  #totals = new Map<string, number>();
  #runs = new Map<string, IndexedRun>();
  #originals: Session[] | undefined;
  #head = "";
  #end = 0;
  #lines = 0;
  #reading: Promise<unknown> = Promise.resolve();

  constructor(path: string, files: Files) {
    this.#path = path;
    this.#files = files;
  }

  /** Take in what any process has added. Needs no lock. False when there is no index. */
  refresh(): Promise<boolean> {
    const mine = this.#reading.then(() => this.#refresh());
    this.#reading = mine.catch(() => undefined);
    return mine;
  }

  get(idOrAlias: string): Session | undefined {
    const entry = this.#entries.get(idOrAlias) ?? this.#entries.get(this.#aliases.get(idOrAlias) ?? "");
    return entry && structuredClone(entry.session);
  }

  rootOf(id: string): string | undefined {
    return this.#entries.get(id)?.session.chain.root;
  }

  isTaken(id: string): boolean {
    return this.#entries.has(id) || this.#aliases.has(id);
  }

  run(id: string): IndexedRun | undefined {
    return structuredClone(this.#runs.get(id));
  }

  runs({ sessionId, states, limit, before }: RunQuery): IndexedRun[] {
    const root = sessionId === undefined ? undefined : (this.rootOf(sessionId) ?? "");
    const found = [...this.#runs.values()]
      .filter(({ run }) => (root === undefined || run.sessionId === root) && (!states || states.includes(run.state)))
      .sort((a, b) => newestFirst(placeOf(a.run), placeOf(b.run)))
      .filter(({ run }) => !before || newestFirst(placeOf(before), placeOf(run)) < 0);
    return structuredClone(found.slice(0, limit));
  }

  /** The key of the first of these runs that cannot be put in a chain; `root` undefined when all must be new. */
  takenKey(root: string | undefined, runs: readonly RunRecord[]): string | undefined {
    const keys = new Map([...this.#runs.values()].map(({ run }) => [run.id, run.key]));
    return runs.find(({ id, key }) => {
      const there = this.#runs.get(id)?.run;
      keys.set(id, "");
      const taken = (there && there.sessionId !== root) || (key !== "" && [...keys.values()].includes(key));
      keys.set(id, key);
      return taken;
    })?.key;
  }

  /** All ids of a chain. */
  idsOf(root: string): string[] {
    return [...(this.#chains.get(root) ?? [])];
  }

  ids(): string[] {
    return [...this.#entries.keys()];
  }

  /** Whether the index says something else of these sessions. */
  differs(sessions: readonly Session[], runs: readonly IndexedRun[] = []): boolean {
    return (
      sessions.some((session) => this.#entries.get(session.id)?.json !== JSON.stringify(session)) ||
      runs.some((one) => JSON.stringify(this.#runs.get(one.run.id)) !== JSON.stringify(one))
    );
  }

  list(query: SessionQuery): SessionPage {
    this.#originals ??= [...this.#entries.values()]
      .map(({ session }) => session)
      .filter((session) => session.chain.root === session.id)
      .sort(newestFirst);
    const { projectDir, emptyBefore, before } = query;
    const search = (query.search ?? "").toLowerCase();
    const counted = search === "" && emptyBefore === undefined;
    const matching = this.#originals.filter(
      (session) =>
        (projectDir === undefined || session.projectDir === projectDir) &&
        (search === "" || session.title.toLowerCase().includes(search)) &&
        (emptyBefore === undefined || (session.lastSeq === 0 && session.updatedAt < emptyBefore)),
    );
    const total = counted
      ? projectDir === undefined
        ? this.#originals.length
        : (this.#totals.get(projectDir) ?? 0)
      : matching.length;
    const rest = before ? matching.filter((session) => newestFirst(before, session) < 0) : matching;
    const from = query.offset ?? 0;
    return { sessions: structuredClone(rest.slice(from, from + query.limit)), total };
  }

  /** Under the index lock: say how these sessions are now. */
  async put(sessions: readonly Session[], runs: readonly IndexedRun[] = []): Promise<void> {
    await this.refresh();
    const changed = sessions.filter((session) => this.differs([session]));
    const written = runs.filter((run) => this.differs([], [run]));
    await this.#append([...changed.map((session) => ({ put: session })), ...written.map((run) => ({ run }))]);
  }

  /** Under the index lock: these are gone. */
  async remove(ids: readonly string[]): Promise<void> {
    await this.refresh();
    const known = ids.filter((id) => this.#entries.has(id));
    if (known.length > 0) await this.#append([{ gone: known }]);
  }

  /** Under the index lock: make a new file of what is known. */
  async rewrite(): Promise<void> {
    const head = randomUUID();
    const sessions = [...this.#entries.values()].map(({ session }) => ({ put: session }));
    const lines: Line[] = [{ index: head }, ...sessions, ...[...this.#runs.values()].map((run) => ({ run }))];
    await this.#files.replace(this.#path, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
    await this.refresh();
  }

  /** On the disk when it resolves. */
  async sync(): Promise<void> {
    if (!this.#files.durable) return;
    const file = await unlessMissing(open(this.#path, "r"));
    if (!file) return;
    try {
      await file.datasync();
    } finally {
      await file.close();
    }
  }

  async #append(lines: readonly Line[]): Promise<void> {
    if (lines.length === 0) return;
    const info = await unlessMissing(stat(this.#path));
    // A writer died in the middle of a line; nobody was told that it was written.
    if (info && info.size > this.#end) await truncate(this.#path, this.#end);
    await this.#files.append(this.#path, lines.map((line) => `${JSON.stringify(line)}\n`).join(""), this.#end, false);
    await this.refresh();
    if (this.#lines > 2 * (this.#entries.size + this.#runs.size) + 1000) await this.rewrite();
  }

  async #refresh(): Promise<boolean> {
    const file = await unlessMissing(open(this.#path, "r"));
    if (!file) return false;
    try {
      // The head tells whether this is still the file that we know; a new one is put in its place by renaming.
      const buffer = Buffer.alloc(64);
      const { bytesRead } = await file.read(buffer, 0, 64, 0);
      const head = headIn(buffer.toString("utf8", 0, bytesRead));
      if (head === undefined) return false;
      if (head !== this.#head) this.#clear(head);
      const { lines, end } = await linesOf(file, this.#end);
      for (const line of lines) this.#apply(line);
      this.#end = end;
      return true;
    } finally {
      await file.close();
    }
  }

  #clear(head: string): void {
    this.#head = head;
    this.#entries = new Map();
    this.#aliases = new Map();
    this.#chains = new Map();
    this.#totals = new Map();
    this.#runs = new Map();
    this.#originals = undefined;
    this.#end = 0;
    this.#lines = 0;
  }

  #apply(text: string): void {
    this.#lines++;
    let line: Line;
    try {
      line = JSON.parse(text) as Line;
    } catch {
      // A power cut can leave rubbish in the middle; the sessions themselves say what is true.
      return;
    }
    if ("gone" in line) {
      for (const id of line.gone) this.#drop(id);
      for (const [id, { run }] of this.#runs) if (line.gone.includes(run.sessionId)) this.#runs.delete(id);
    }
    if ("run" in line) this.#runs.set(line.run.run.id, line.run);
    if (!("put" in line)) return;
    const { put: session } = line;
    this.#drop(session.id);
    this.#entries.set(session.id, { session, json: JSON.stringify(session) });
    if (session.alias !== "") this.#aliases.set(session.alias, session.id);
    const chain = this.#chains.get(session.chain.root) ?? new Set();
    this.#chains.set(session.chain.root, chain.add(session.id));
    if (session.chain.root === session.id) this.#count(session.projectDir, 1);
  }

  #drop(id: string): void {
    const entry = this.#entries.get(id);
    if (!entry) return;
    const { session } = entry;
    this.#entries.delete(id);
    if (this.#aliases.get(session.alias) === id) this.#aliases.delete(session.alias);
    const chain = this.#chains.get(session.chain.root);
    chain?.delete(id);
    if (chain?.size === 0) this.#chains.delete(session.chain.root);
    if (session.chain.root === id) this.#count(session.projectDir, -1);
  }

  #count(projectDir: string, by: number): void {
    this.#originals = undefined;
    const total = (this.#totals.get(projectDir) ?? 0) + by;
    if (total === 0) this.#totals.delete(projectDir);
    else this.#totals.set(projectDir, total);
  }
}

function headIn(line: string): string | undefined {
  return /^\{"index":"([0-9a-f-]{36})"\}\n/.exec(line)?.[1];
}

type Place = Pick<Session, "updatedAt" | "id">;

const placeOf = ({ startedAt, id }: Pick<RunRecord, "startedAt" | "id">): Place => ({ updatedAt: startedAt, id });

function newestFirst(a: Place, b: Place): number {
  if (a.updatedAt !== b.updatedAt) return a.updatedAt > b.updatedAt ? -1 : 1;
  return a.id === b.id ? 0 : a.id > b.id ? -1 : 1;
}
