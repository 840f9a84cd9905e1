import { mkdir, open, readFile, rename, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { isRecord, parseJson } from "../base/json.js";
import type { UndoMark } from "../ports/file-history.js";
import type { Place } from "./content-store.js";

/** What was at a path, with the hash of a file's content; `""` for one that was too large. */
export type Known =
  | { kind: "none" }
  | { kind: "file"; hash: string; mode: number; uid: number; gid: number }
  | { kind: "link"; target: string }
  | { kind: "folder"; mode: number };

/** One path of a change. */
export interface Step {
  path: string;
  before: Known;
  after: Known;
  /** Folders that were made for it. */
  made: number;
  /** It is a folder that was only made on the way to another path: nobody is told of it. */
  isWay?: true;
}

/** What a call, or an undo, changed at a time. */
export interface ChangeLine {
  change: string;
  /** Of a run, and its call; or the undo that made it. */
  run: string;
  call: string;
  undo: string;
  seq: number;
  /** That the run could use beside the project's. */
  folders: readonly string[];
  at: string;
  steps: Step[];
  /** Contents that came with it, by hash. */
  contents: Record<string, Place>;
}

type Line =
  | ChangeLine
  | { done: string }
  | { begun: UndoMark }
  | { undone: UndoMark; at: string }
  | { redone: string }
  | { forgot: number };

/** A journal as it is read: what a session's tools changed, in order. */
export interface Story {
  changes: ChangeLine[];
  /** Ids of changes that were seen to be made. */
  done: Set<string>;
  /** In order, each as it was told last; `changes`: how many there were then. */
  undos: Map<string, UndoMark & { isOpen: boolean; changes: number }>;
  redone: Set<string>;
  contents: Map<string, Place>;
  /** Greatest `seq` of the changes that were forgotten; -1: none was. */
  forgot: number;
  /** Bytes of the file that it was read from. */
  size: number;
}

/** A journal that is longer forgets its older half, in bytes. */
const MAX_BYTES = 16 * 1024 * 1024;

/** The lines of one session's journal: each is whole or not there, whenever the process ends. */
export class Journal {
  readonly #path: string;
  readonly #maxBytes: number;
  #story: Story | undefined;

  constructor(folder: string, maxBytes = MAX_BYTES) {
    this.#path = join(folder, "journal.jsonl");
    this.#maxBytes = maxBytes;
  }

  /** As it is now, also where another process wrote to it. */
  async story(): Promise<Story> {
    const size = (await stat(this.#path).catch(() => undefined))?.size ?? 0;
    if (this.#story?.size === size) return this.#story;
    const text = size === 0 ? "" : await readFile(this.#path, "utf8");
    const story = emptyStory();
    for (const line of text.split("\n")) take(story, line);
    story.size = Buffer.byteLength(text);
    return (this.#story = story);
  }

  /** `sync`: on disk when it resolves. */
  async add(lines: Line | readonly Line[], sync: boolean): Promise<void> {
    const story = await this.story();
    if (story.size > this.#maxBytes) await this.#shorten(story);
    await mkdir(dirname(this.#path), { recursive: true, mode: 0o700 });
    const file = await open(this.#path, "a+", 0o600);
    try {
      const { size } = await file.stat();
      // What a crash left half written ends there.
      const torn = size > 0 && (await file.read(Buffer.alloc(1), 0, 1, size - 1)).buffer[0] !== 0x0a;
      const text = `${torn ? "\n" : ""}${[lines].flat().map(textOf).join("")}`;
      await file.appendFile(text);
      if (sync) await file.sync();
      if (this.#story?.size !== size) return;
      for (const one of text.split("\n")) take(this.#story, one);
      this.#story.size += Buffer.byteLength(text);
    } finally {
      await file.close();
    }
    if (sync && story.size === 0) await syncFolder(dirname(this.#path));
  }

  async #shorten(story: Story): Promise<void> {
    const lines = (await readFile(this.#path, "utf8")).split("\n");
    const kept: string[] = [];
    for (let bytes = 0; bytes < this.#maxBytes / 2;) {
      const line = lines.pop();
      if (line === undefined) break;
      bytes += Buffer.byteLength(line) + 1;
      kept.unshift(line);
    }
    const dropped = emptyStory();
    for (const line of lines) take(dropped, line);
    const forgot = Math.max(story.forgot, ...dropped.changes.map(({ seq }) => seq));
    kept.unshift(JSON.stringify({ forgot } satisfies Line));
    const next = `${this.#path}.new`;
    const file = await open(next, "w", 0o600);
    try {
      await file.writeFile(kept.join("\n"));
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(next, this.#path);
    this.#story = undefined;
  }
}

function emptyStory(): Story {
  return {
    changes: [],
    done: new Set(),
    undos: new Map(),
    redone: new Set(),
    contents: new Map(),
    forgot: -1,
    size: 0,
  };
}

/** What is no line of ours is passed over: it was broken off. */
function take(story: Story, text: string): void {
  let line: Line;
  try {
    // A change of many files has many keys.
    const parsed: unknown = parseJson(text, undefined, Infinity);
    if (!isRecord(parsed)) return;
    line = parsed as Line;
  } catch {
    return;
  }
  if ("change" in line) {
    story.changes.push(line);
    for (const [hash, place] of Object.entries(line.contents)) story.contents.set(hash, place);
  } else if ("done" in line) story.done.add(line.done);
  else if ("begun" in line) undo(story, line.begun, true);
  else if ("undone" in line) undo(story, line.undone, false);
  else if ("redone" in line) story.redone.add(line.redone);
  else if ("forgot" in line) story.forgot = line.forgot;
}

function undo({ undos, changes }: Story, mark: UndoMark, isOpen: boolean): void {
  if (!isRecord(mark)) return;
  // What was begun anew is the last.
  undos.delete(mark.id);
  undos.set(mark.id, { ...mark, isOpen, changes: changes.length });
}

function textOf(line: Line): string {
  return `${JSON.stringify(line)}\n`;
}

async function syncFolder(path: string): Promise<void> {
  // Some file systems refuse that; there is nothing better to do there.
  const handle = await open(path, "r").catch(() => undefined);
  await handle?.sync().catch(() => undefined);
  await handle?.close();
}
