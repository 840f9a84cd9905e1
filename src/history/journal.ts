import { mkdir, open, readFile, rename, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { isRecord, parseJson } from "../base/json.js";
import type { UndoMark } from "../ports/file-history.js";
import type { ContentLocation } from "./content-store.js";

/** The state of a path. `hash` identifies the content of a file; `""` if the file was too large to store. */
export type StoredFileState =
  | { kind: "none" }
  | { kind: "file"; hash: string; mode: number; uid: number; gid: number }
  | { kind: "link"; target: string }
  | { kind: "folder"; mode: number };

/** The change of one path. */
export interface PathChange {
  path: string;
  before: StoredFileState;
  after: StoredFileState;
  /** Number of parent folders that were created for the path. */
  made: number;
  /** True for a folder that an undo removes or restores only as the parent of another path. Not reported to users. */
  isWay?: true;
}

/** The changes of one tool call or one undo. */
export interface ChangeLine {
  /** Id of the change. */
  change: string;
  /** Ids of the run and of its tool call, or of the undo, that made the change. Ids that do not apply are `""`. */
  run: string;
  call: string;
  undo: string;
  seq: number;
  /** Additional folders of the run, beside the project folder. */
  folders: readonly string[];
  /** Time, ISO 8601. */
  at: string;
  steps: PathChange[];
  /** Locations of the contents stored with this line, by hash. */
  contents: Record<string, ContentLocation>;
}

type Line =
  | ChangeLine
  | { done: string }
  | { begun: UndoMark }
  | { undone: UndoMark; at: string }
  | { redone: string }
  | { forgot: number };

/** The parsed journal of a session, in order. */
export interface JournalContents {
  changes: ChangeLine[];
  /** Ids of the changes that are confirmed as made. */
  confirmedChangeIds: Set<string>;
  /** Undos in order of their last start, each with its latest mark. `changes` is the number of changes at that time. */
  undos: Map<string, UndoMark & { isOpen: boolean; changes: number }>;
  redoneUndoIds: Set<string>;
  contents: Map<string, ContentLocation>;
  /** Highest `seq` of the changes that were dropped from the journal. -1: none was dropped. */
  droppedSeq: number;
  /** Size of the file that was read, in bytes. */
  sizeBytes: number;
}

/** Maximum size of a journal, in bytes. A longer journal drops its older half. */
const MAX_JOURNAL_BYTES = 16 * 1024 * 1024;

/**
 * The journal of one session, a file of JSON lines. A crash leaves no partial line in the result: incomplete lines are
 * skipped.
 */
export class Journal {
  readonly #path: string;
  readonly #maxBytes: number;
  #cachedContents: JournalContents | undefined;

  constructor(folder: string, maxBytes = MAX_JOURNAL_BYTES) {
    this.#path = join(folder, "journal.jsonl");
    this.#maxBytes = maxBytes;
  }

  /**
   * Returns the current contents. Reads the file again if its size changed, so that writes of other processes are
   * included.
   */
  async read(): Promise<JournalContents> {
    const size = (await stat(this.#path).catch(() => undefined))?.size ?? 0;
    if (this.#cachedContents?.sizeBytes === size) return this.#cachedContents;
    const text = size === 0 ? "" : await readFile(this.#path, "utf8");
    const contents = createContents();
    for (const line of text.split("\n")) applyLine(contents, line);
    contents.sizeBytes = Buffer.byteLength(text);
    return (this.#cachedContents = contents);
  }

  /**
   * Appends lines. `sync`: the lines are on disk when the promise resolves. Shortens a journal that is too long first.
   */
  async add(lines: Line | readonly Line[], sync: boolean): Promise<void> {
    const contents = await this.read();
    if (contents.sizeBytes > this.#maxBytes) await this.#shorten(contents);
    await mkdir(dirname(this.#path), { recursive: true, mode: 0o700 });
    const file = await open(this.#path, "a+", 0o600);
    try {
      const { size } = await file.stat();
      // Ends a partial line that a crash left behind.
      const isLineIncomplete = size > 0 && (await file.read(Buffer.alloc(1), 0, 1, size - 1)).buffer[0] !== 0x0a;
      const text = `${isLineIncomplete ? "\n" : ""}${[lines].flat().map(formatLine).join("")}`;
      await file.appendFile(text);
      if (sync) await file.sync();
      if (this.#cachedContents?.sizeBytes !== size) return;
      for (const line of text.split("\n")) applyLine(this.#cachedContents, line);
      this.#cachedContents.sizeBytes += Buffer.byteLength(text);
    } finally {
      await file.close();
    }
    if (sync && contents.sizeBytes === 0) await syncFolder(dirname(this.#path));
  }

  async #shorten(contents: JournalContents): Promise<void> {
    const lines = (await readFile(this.#path, "utf8")).split("\n");
    const newestLines: string[] = [];
    for (let bytes = 0; bytes < this.#maxBytes / 2;) {
      const line = lines.pop();
      if (line === undefined) break;
      bytes += Buffer.byteLength(line) + 1;
      newestLines.unshift(line);
    }
    const droppedContents = createContents();
    for (const line of lines) applyLine(droppedContents, line);
    const forgot = Math.max(contents.droppedSeq, ...droppedContents.changes.map(({ seq }) => seq));
    newestLines.unshift(JSON.stringify({ forgot } satisfies Line));
    const newPath = `${this.#path}.new`;
    const file = await open(newPath, "w", 0o600);
    try {
      await file.writeFile(newestLines.join("\n"));
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(newPath, this.#path);
    this.#cachedContents = undefined;
  }
}

function createContents(): JournalContents {
  return {
    changes: [],
    confirmedChangeIds: new Set(),
    undos: new Map(),
    redoneUndoIds: new Set(),
    contents: new Map(),
    droppedSeq: -1,
    sizeBytes: 0,
  };
}

/** Applies one line. Skips lines that are incomplete or not of a known kind. */
function applyLine(contents: JournalContents, text: string): void {
  let line: Line;
  try {
    // No limit for the number of keys: a change of many files has many.
    const parsedLine: unknown = parseJson(text, undefined, Infinity);
    if (!isRecord(parsedLine)) return;
    line = parsedLine as Line;
  } catch {
    return;
  }
  if ("change" in line) {
    contents.changes.push(line);
    for (const [hash, location] of Object.entries(line.contents)) contents.contents.set(hash, location);
  } else if ("done" in line) contents.confirmedChangeIds.add(line.done);
  else if ("begun" in line) applyUndoMark(contents, line.begun, true);
  else if ("undone" in line) applyUndoMark(contents, line.undone, false);
  else if ("redone" in line) contents.redoneUndoIds.add(line.redone);
  else if ("forgot" in line) contents.droppedSeq = line.forgot;
}

function applyUndoMark({ undos, changes }: JournalContents, mark: UndoMark, isOpen: boolean): void {
  if (!isRecord(mark)) return;
  // A restarted undo moves to the end.
  undos.delete(mark.id);
  undos.set(mark.id, { ...convertOldMark(mark), isOpen, changes: changes.length });
}

function formatLine(line: Line): string {
  return `${JSON.stringify(line)}\n`;
}

async function syncFolder(path: string): Promise<void> {
  // Some file systems do not support the sync of a folder; the error is ignored.
  const handle = await open(path, "r").catch(() => undefined);
  await handle?.sync().catch(() => undefined);
  await handle?.close();
}

/** Converts a mark of a version before 0.1.0, which used other field names. */
function convertOldMark(mark: UndoMark & { point?: number; to?: string }): UndoMark {
  const { point, to, ...fields } = mark;
  return point === undefined ? mark : { ...fields, afterSeq: point, lastMessageId: to ?? "" };
}

/** Finds the changes of undos that failed or were killed. */
export function findUnfinishedUndos({ changes, confirmedChangeIds }: JournalContents): ChangeLine[] {
  return changes.filter(({ undo, change }) => undo !== "" && !confirmedChangeIds.has(change));
}
