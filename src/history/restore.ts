import { basename, dirname } from "node:path";
import { PathError } from "../ports/errors.js";
import type { FileKeeper, FileState, UndoneFile } from "../ports/file-history.js";
import type { OpenedFolder, PathGuard } from "../files/path-guard.js";
import { exclusively } from "../tools/files.js";
import { keepBefore, stateOf } from "../tools/keep-file.js";
import { replaceFile } from "../tools/replace-file.js";
import type { Known } from "./journal.js";
import type { Wanted } from "./plan.js";
import { isSame, knownOf } from "./session-files.js";

const CHANGED = "somebody else changed it since";
const MIXED = "somebody else changed it in between";
const LOST = "no copy of what it was is kept";
const NONE = { kind: "none" } as const;

/** What is to be done at a path, and what is there now. */
export interface Judged {
  wanted: Wanted;
  file: UndoneFile;
  current: Known | undefined;
  /** What a file is to hold. */
  content: Buffer | undefined;
}

/** Look at a path: what taking it back would come to. Undefined: it is as it was. */
export async function judge(
  guard: PathGuard,
  wanted: Wanted,
  contentOf: (hash: string) => Promise<Buffer | undefined>,
  force: boolean,
): Promise<Judged | undefined> {
  const { path, want, left } = wanted;
  const as = (outcome: UndoneFile["outcome"], why = "", current?: Known, content?: Buffer): Judged => {
    return { wanted, file: { path, outcome, why }, current, content };
  };
  let current: Known;
  try {
    current = await currentOf(guard, path);
  } catch (error) {
    return as("failed", reasonOf(error));
  }
  if (isSame(current, want)) return undefined;
  let content: Buffer | undefined;
  if (want.kind === "file") {
    content = want.hash === "" ? undefined : await contentOf(want.hash);
    if (!content) return as("lost", LOST, current);
  }
  if (!force && !left.some((one) => isSame(one, current))) return as("conflict", CHANGED, current);
  if (!force && wanted.isMixed) return as("conflict", MIXED, current);
  return as(want.kind === "none" ? "removed" : current.kind === "none" ? "made" : "restored", "", current, content);
}

/** Make a path what it was. Resolves with what became of it; never rejects. */
export async function bringBack(guard: PathGuard, judged: Judged, keeper: FileKeeper): Promise<UndoneFile> {
  const { wanted, file, content, current } = judged;
  const { path, want, made } = wanted;
  const history = { history: keeper };
  try {
    return await exclusively(path, async () => {
      const now = await currentOf(guard, path);
      // Looked at a moment ago; whoever saved meanwhile keeps what they have.
      if (current && !isSame(now, current)) return { ...file, outcome: "conflict", why: CHANGED } as const;
      if (want.kind !== "none" && now.kind !== "none" && now.kind !== want.kind) await remove(guard, path, keeper);
      if (want.kind === "none") {
        if (now.kind !== "none") await remove(guard, path, keeper);
        await removeMade(guard, path, made);
        return file;
      }
      if (want.kind === "file" && content) {
        await inPlace(guard, path, true, () => undefined);
        await replaceFile(guard, path, content, history, want);
      } else if (want.kind === "folder" || want.kind === "link")
        await inPlace(guard, path, true, async (folder, name) => {
          const after = want.kind === "folder" ? ({ kind: "folder", mode: want.mode } as const) : want;
          const keeping = await keepBefore(guard, folder, name, after, history);
          if (want.kind === "folder") await folder.make(name, want.mode);
          else await folder.link(name, want.target);
          keeping.done();
          await folder.sync();
        });
      return file;
    });
  } catch (error) {
    return { path, outcome: "failed", why: reasonOf(error) };
  }
}

/** What is at a path; of a way to it that is gone, nothing is. */
async function currentOf(guard: PathGuard, path: string): Promise<Known> {
  try {
    return knownOf(await inPlace<FileState>(guard, path, false, (folder, name) => stateOf(guard, folder, name)));
  } catch (error) {
    if (error instanceof PathError && error.reason === "not_found") return NONE;
    throw error;
  }
}

async function remove(guard: PathGuard, path: string, keeper: FileKeeper): Promise<void> {
  await inPlace(guard, path, false, async (folder, name) => {
    const keeping = await keepBefore(guard, folder, name, NONE, { history: keeper });
    const stats = await folder.stat(name);
    if (!stats?.isDirectory()) await folder.unlink(name);
    else if (!(await folder.removeEmpty(name)))
      throw new PathError("invalid", "it is a folder now, with something in it");
    keeping.done();
    await folder.sync();
  });
}

/** The folders that were made for a file go with it, as far as nothing else is in them. */
async function removeMade(guard: PathGuard, path: string, made: number): Promise<void> {
  for (let at = dirname(path), left = made; left > 0 && !guard.isRoot(at); left--, at = dirname(at)) {
    const isGone = await inPlace(guard, at, false, (folder, name) => folder.removeEmpty(name)).catch(() => false);
    if (!isGone) return;
  }
}

/**
 * In the folder of a path, held open. Rejects with `PathError` where that is another than it was: a link in the place
 * of a folder leads nowhere from here. So does what may not be changed.
 */
async function inPlace<T>(
  guard: PathGuard,
  path: string,
  create: boolean,
  work: (folder: OpenedFolder, name: string) => T | Promise<T>,
): Promise<T> {
  const name = basename(path);
  const target = await guard.resolveForChange(dirname(path));
  if (target.path !== dirname(path)) throw new PathError("outside", "the folder that it was in is elsewhere now");
  const folder = await guard.openFolder(dirname(path), { create });
  try {
    if (folder.path !== dirname(path)) throw new PathError("outside", "the folder that it was in is elsewhere now");
    await guard.refuseProtectedIn(folder, name);
    return await work(folder, name);
  } finally {
    await folder.close();
  }
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
