import type { Stats } from "node:fs";
import { basename, dirname, join } from "node:path";
import { PathError } from "../ports/errors.js";
import type { OpenedFolder, PathGuard } from "../files/path-guard.js";
import { exclusively } from "../tools/files/files.js";
import type { Known, Step } from "./journal.js";
import { stateOf } from "../tools/files/record-file.js";
import { inPlace, markOf } from "./restore.js";
import { isSame, knownOf } from "./session-files.js";

/** Paths that are worked on at a time: each waits for the disk. */
const AT_ONCE = 16;

/** What making each path what it is to be needs. */
export interface Bringing {
  guard: PathGuard;
  /** Rejects where it is gone. */
  contentOf: (hash: string) => Promise<Buffer>;
  /** By which what a crash left behind is found. */
  change: string;
  /** By path what need not be read again. */
  marks?: ReadonlyMap<string, string>;
}

/** How far it came. */
export interface Progress {
  done: Step[];
  failed: Step[];
}

/** Make paths what `after` says, as long as they are what `before` says. Resolves when the disk has it. */
export async function bringBack(steps: readonly Step[], bringing: Bringing, progress: Progress): Promise<void> {
  const make = async (step: Step): Promise<void> => {
    try {
      await exclusively(step.path, () => one(step, bringing));
      progress.done.push(step);
    } catch (error) {
      progress.failed.push(step);
      throw error;
    }
  };
  const goes = steps.filter(({ after }) => after.kind === "none");
  const folders = steps.filter(({ after }) => after.kind === "folder");
  // What goes, from the deepest up; then folders, before what is in them.
  for (const step of [...goes.reverse(), ...folders]) await make(step);
  const rest = steps.filter(({ after }) => after.kind === "file" || after.kind === "link");
  await eachOf(rest, make);
  await eachOf([...new Set(steps.map(({ path }) => dirname(path)))], async (path) => {
    // A folder that is gone is in the one above it.
    const folder = await bringing.guard.openFolder(path).catch(() => undefined);
    await folder?.sync();
    await folder?.close();
  });
}

/** For each, some at once. Rejects with the first error when those that were begun have ended. */
export async function eachOf<T>(list: readonly T[], work: (one: T) => Promise<void>): Promise<void> {
  const waiting = list.values();
  const failed: unknown[] = [];
  const worker = async (): Promise<void> => {
    for (const one of waiting) {
      if (failed.length > 0) return;
      await work(one).catch((error: unknown) => void failed.push(error));
    }
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, list.length) }, worker));
  if (failed.length > 0) throw failed[0];
}

/** Where a file is written before it is put in its place. */
export function temporaryPath(path: string, change: string): string {
  return join(dirname(path), temporaryOf(basename(path), change));
}

/** What an undo that was killed left half written. */
export async function discardTemporary(guard: PathGuard, path: string, change: string): Promise<void> {
  await inPlace(guard, path, false, (folder, name) => folder.discard(temporaryOf(name, change))).catch(() => undefined);
}

async function one({ path, before, after, made }: Step, { guard, contentOf, change, marks }: Bringing): Promise<void> {
  const content = after.kind === "file" ? await contentOf(after.hash) : undefined;
  // The way to what is there is no longer than it was.
  const create = before.kind === "none";
  await inPlace(guard, path, create, async (folder, name) => {
    const stats = await folder.stat(name);
    const mark = markOf(stats);
    // Looked at a moment ago; whoever saved meanwhile keeps what they have.
    if (mark === "" || mark !== marks?.get(path)) {
      const now = knownOf(await stateOf(guard, folder, name));
      if (!isSame(now, before)) throw new PathError("invalid", "somebody else changed it just now");
    }
    if (stats && (after.kind !== "file" || !stats.isFile())) await remove(folder, name, stats);
    if (after.kind === "folder") await folder.make(name, after.mode);
    else if (after.kind === "link") await folder.link(name, after.target);
    else if (after.kind === "file" && content) await put(folder, name, content, after, temporaryOf(name, change));
  });
  if (after.kind === "none") await removeMade(guard, path, made);
}

async function put(
  folder: OpenedFolder,
  name: string,
  content: Buffer,
  { mode, uid, gid }: Extract<Known, { kind: "file" }>,
  temporary: string,
): Promise<void> {
  await folder.discard(temporary);
  try {
    const handle = await folder.create(temporary, 0o600);
    try {
      await handle.writeFile(content);
      const own = await handle.stat();
      if (own.uid !== uid || own.gid !== gid) await handle.chown(uid, gid).catch(() => undefined);
      await handle.chmod(mode);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await folder.rename(temporary, name);
  } catch (error) {
    await folder.discard(temporary);
    throw error;
  }
}

async function remove(folder: OpenedFolder, name: string, stats: Stats): Promise<void> {
  if (!stats.isDirectory()) await folder.unlink(name);
  else if (!(await folder.removeEmpty(name)))
    throw new PathError("invalid", "it is a folder now, with something in it");
}

/** The folders that were made for a file go with it, as far as nothing else is in them. */
async function removeMade(guard: PathGuard, path: string, made: number): Promise<void> {
  for (let at = dirname(path), left = made; left > 0 && !guard.isRoot(at); left--, at = dirname(at)) {
    const isGone = await inPlace(guard, at, false, (folder, name) => folder.removeEmpty(name)).catch(() => false);
    if (!isGone) return;
  }
}

function temporaryOf(name: string, change: string): string {
  // A name has at most 255 bytes, of which a character takes up to three.
  return `.${name.slice(0, 70)}.${change.replaceAll("-", "").slice(-12)}.tmp`;
}
