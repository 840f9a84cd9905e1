import { existsSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { MemoryDriver } from "gantry";
import { MemoryDocuments } from "gantry/plugin";
import type { Ask, Logger, RunRecord, Session } from "gantry";
import type { ChainData, DocumentChange, Instruction } from "gantry/plugin";
import type { SessionChange, SessionData, SessionStart, Snapshot } from "gantry/plugin";
import { VERSION } from "./chain-file.js";
import type { FiledDocument } from "./chain-file.js";
import { fileName, parsed, textOf } from "./files.js";
import type { Files } from "./files.js";

/** A file of version 1: one session; the original's also holds what belongs to the chain. */
type File1 = SessionData & { version: 1; snapshots?: Snapshot[] };
/** A file of version 2: a chain. `v` counts its changes, so that it is known which lines of the log it holds. */
type File2 = ChainData & { version: 2; v: number };
/** A line of a chain's journal of version 1: a change; temporary files and what they replace; or ids of a chain that was being deleted. */
interface JournalLine {
  id?: string;
  change?: SessionChange;
  fold?: [from: string, to: string][];
  gone?: string[];
}
/** A line of the log of version 2. What was done to the chain stands after a tab. */
interface LogLine {
  root?: string;
  v?: number;
  gone?: string;
  runs?: { run: RunRecord }[];
  asks?: Ask[];
  instruction?: Instruction;
  followed?: string[];
}
type Content = { id: string; change: SessionChange } | { start: SessionStart };

const NEW_OF_SESSION = { mode: "auto", leave: [], cuts: [], spawnedBy: null } satisfies Partial<Session>;
const NEW_OF_RUN = { fingerprint: "", after: 0, line: null, retry: null, answer: null } as const;

const completed = (session: Session): Session => ({ ...NEW_OF_SESSION, ...session });
const completedRun = (run: RunRecord): RunRecord => ({ ...NEW_OF_RUN, ...run });

/** Documents in memory that know their chain. */
class ChainDocuments extends MemoryDocuments {
  readonly chains = new Map<string, Set<string>>();

  override async compareAndSet(changes: readonly DocumentChange[]): Promise<boolean> {
    for (const { key, chain, value } of changes)
      if (value !== undefined) this.chains.set(chain, (this.chains.get(chain) ?? new Set()).add(key));
    return super.compareAndSet(changes);
  }
}

/** Makes files of this version of those of earlier ones, what their logs and journals have included. Done again after a crash. */
export async function upgrade(path: string, files: Files, logger: Logger | undefined): Promise<void> {
  const beside = `${path}.d`;
  finishJournals(path);
  const documents = new ChainDocuments();
  const driver = new MemoryDriver(documents);
  await driver.open();
  const attempt = async (what: string, work: () => Promise<unknown>): Promise<void> => {
    try {
      await work();
    } catch (error) {
      logger?.warn("a part of a session of an earlier version could not be taken over", { what, why: String(error) });
    }
  };

  const { old, filed, done } = readFiles(path);
  for (const [root, chain] of old) await attempt(root, () => driver.load(chain));
  for (const root of old.keys())
    for (const { id = "", change } of journalOf(path, root))
      if (change) await attempt(id, () => driver.write(id, { ...change, fence: null }));
  for (const line of linesOf(join(beside, "log.jsonl"))) await takeLine(driver, line, { filed, done, attempt });

  for (const [root, keys] of documents.chains) {
    if (root === "" || done.has(root)) continue;
    const filedDocuments: Record<string, FiledDocument> = {};
    for (const found of await documents.get([...keys]))
      if (found) filedDocuments[found.key] = { version: found.version, value: found.value };
    if (Object.keys(filedDocuments).length === 0) continue;
    const upTo = Math.max(...Object.values(filedDocuments).map(({ version }) => version));
    files.replace(
      join(path, fileName(root)),
      JSON.stringify({ version: VERSION, chain: root, upTo, documents: filedDocuments }),
    );
  }
  // The files of follow-ups of version 1 are in their originals' now.
  for (const [root, { sessions }] of old)
    for (const { session } of sessions) if (session.id !== root) removeOld(join(path, fileName(session.id)));
  const gone = ["index.jsonl", "journals", "leases", "locks", "fence.json", "log.jsonl"];
  for (const name of gone) rmSync(join(beside, name), { recursive: true, force: true });
}

interface OldFiles {
  /** By the original's id. */
  old: Map<string, ChainData>;
  /** How many changes of a chain its file has. */
  filed: Map<string, number>;
  /** Originals of chains whose files are of this version. */
  done: Set<string>;
}

function readFiles(path: string): OldFiles {
  const found: OldFiles = { old: new Map(), filed: new Map(), done: new Set() };
  const pieces = new Map<string, File1[]>();
  for (const name of readdirSync(path)) {
    const file = parsed<File1 | File2 | { version: typeof VERSION; chain: string }>(textOf(join(path, name)));
    if (file?.version === VERSION) found.done.add(file.chain);
    else if (file?.version === 2) {
      const root = file.sessions[0]?.session.id ?? "";
      const { sessions, snapshots, runs, asks = [] } = file as Partial<ChainData> & File2;
      for (const stored of sessions) stored.session = completed(stored.session);
      found.old.set(root, { sessions, snapshots, runs: runs.map(completedRun), asks });
      found.filed.set(root, file.v);
    } else if (file?.version === 1) {
      const { root } = file.session.chain;
      pieces.set(root, [...(pieces.get(root) ?? []), { ...file, session: completed(file.session) }]);
    }
  }
  for (const [root, sessions] of pieces) {
    const original = sessions.find(({ session }) => session.id === root);
    sessions.sort((a, b) => a.session.chain.index - b.session.chain.index);
    if (original && !found.done.has(root))
      found.old.set(root, { sessions, snapshots: original.snapshots ?? [], runs: [], asks: [] });
    else if (original === undefined && found.done.has(root))
      for (const { session } of sessions) removeOld(join(path, fileName(session.id)));
  }
  return found;
}

interface Taking extends Pick<OldFiles, "filed" | "done"> {
  attempt: (what: string, work: () => Promise<unknown>) => Promise<void>;
}

async function takeLine(driver: MemoryDriver, text: string, { filed, done, attempt }: Taking): Promise<void> {
  const [card = "", told = ""] = text.split("\t", 2);
  const line = parsed<LogLine>(card);
  if (!line || done.has(line.root ?? "")) return;
  const { root, v = 0, gone, runs = [], asks = [], instruction, followed = [] } = line;
  const content = parsed<Content>(told);
  if (root !== undefined && content && v > (filed.get(root) ?? 0))
    await attempt(root, async () => {
      if ("start" in content)
        await driver.create({ ...content.start, session: completed(content.start.session), fence: null });
      else await driver.write(content.id, { ...content.change, fence: null });
    });
  if (gone !== undefined) await driver.delete([gone]);
  for (const { run } of runs)
    await attempt(run.id, () => driver.write(run.sessionId, { fence: null, sync: false, runs: [completedRun(run)] }));
  for (const ask of asks)
    await attempt(ask.id, () => driver.write(ask.sessionId, { fence: null, sync: false, asks: [ask] }));
  if (instruction) await attempt(instruction.id, () => driver.instruct(instruction));
  for (const id of followed) await driver.withdraw(id);
}

/** What a crash of version 1 left half done comes first: the files may hold already what the lines before it say. */
function finishJournals(path: string): void {
  const beside = `${path}.d`;
  const journals = join(beside, "journals");
  for (const name of existsSync(journals) ? readdirSync(journals) : []) {
    const journal = join(journals, name);
    for (const text of linesOf(journal)) {
      const { fold = [], gone = [] } = parsed<JournalLine>(text) ?? {};
      for (const [from, to] of fold)
        if (existsSync(join(beside, from))) renameSync(join(beside, from), join(beside, to));
      for (const id of gone) rmSync(join(path, fileName(id)), { force: true });
      if (fold.length + gone.length > 0) rmSync(journal, { force: true });
    }
  }
}

function journalOf(path: string, root: string): JournalLine[] {
  const journal = join(`${path}.d`, "journals", `${fileName(root)}l`);
  return linesOf(journal).flatMap((text) => parsed<JournalLine>(text) ?? []);
}

/** A file of version 1. */
function removeOld(file: string): void {
  if (parsed<{ version: unknown }>(textOf(file))?.version === 1) rmSync(file, { force: true });
}

function linesOf(file: string): string[] {
  return (textOf(file) ?? "").split("\n");
}
