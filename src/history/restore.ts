import type { Stats } from "node:fs";
import { basename, dirname } from "node:path";
import { PathError } from "../ports/errors.js";
import type { FileState, UndoneFile } from "../ports/file-history.js";
import type { OpenedFolder, PathGuard } from "../files/path-guard.js";
import { stateOf } from "../tools/files/record-file.js";
import type { Known } from "./journal.js";
import type { Wanted } from "./plan.js";
import { isSame, knownOf } from "./session-files.js";

const CHANGED = "somebody else changed it since";
const MIXED = "somebody else changed it in between";
const TOO_LARGE = "it is too large now for a copy to be kept; move it away first";
const FULL = "it is a folder now, with something in it; move that away first";
export const LOST = "no copy of what it was is kept";
const NONE = { kind: "none" } as const;

/** What is to be done at a path, and what is there now. */
export interface Judged {
  wanted: Wanted;
  file: UndoneFile;
  current: Known;
  /** By which what is there now is known again without being read; `""`: it is not. */
  mark: string;
}

/** What is at a path now. */
export interface Seen {
  state: FileState;
  mark: string;
}

/** What changed so shortly before it was looked at may change again without that its times tell, in ms. */
const RACY_MS = 2_000;

/** What is not there in the end. */
export interface Going {
  paths: ReadonlySet<string>;
  /** Those that go when nothing else is in them. */
  folders: ReadonlySet<string>;
}

/** What of a plan is judged by. */
export interface Judging {
  guard: PathGuard;
  goes: Going;
  /** Paths that others are below, and that are no folders now: nothing is there then. */
  blocked: ReadonlySet<string>;
  isKept: (hash: string) => Promise<boolean>;
  force: boolean;
}

/** Look at a path: what taking it back would come to. Undefined: it is as it was. */
export async function judge(
  wanted: Wanted,
  { guard, goes, blocked, isKept, force }: Judging,
): Promise<Judged | undefined> {
  const { path, want, left, isMixed, isRemade, isWay } = wanted;
  let current: Known = NONE;
  let mark = "";
  const as = (outcome: UndoneFile["outcome"], why = ""): Judged => {
    return { wanted, file: { path, outcome, why }, current, mark };
  };
  try {
    const seen = isBelow(path, blocked)
      ? { state: NONE, mark: "", refusal: "" }
      : await currentOf(guard, path, (folder, name) => folder.writable(name));
    current = knownOf(seen.state);
    mark = seen.mark;
    // What somebody else put in its place is theirs.
    if (isWay && current.kind !== "folder") return undefined;
    if (isSame(current, want) && !(isRemade && modeOf(current) !== modeOf(want))) return undefined;
    if (want.kind === "file" && (want.hash === "" || !(await isKept(want.hash)))) return as("lost", LOST);
    // Not even by force: what is there would be gone for good.
    if (current.kind === "file" && current.hash === "") return as("conflict", TOO_LARGE);
    if (current.kind === "folder" && want.kind !== "folder" && (await holdsMore(guard, path, goes)))
      return isWay ? undefined : as("conflict", FULL);
    if (!force && !left.some((one) => isSame(one, current))) return as("conflict", CHANGED);
    if (!force && isMixed) return as("conflict", MIXED);
    if (seen.refusal) return as("failed", seen.refusal);
  } catch (error) {
    return isWay ? undefined : as("failed", reasonOf(error));
  }
  return as(want.kind === "none" ? "removed" : current.kind === "none" ? "made" : "restored");
}

/** Those with others of the plan below them that are no folders now. */
export async function blockedOf(plan: readonly Wanted[], guard: PathGuard): Promise<Set<string>> {
  const blocked = new Set<string>();
  const above = new Set(plan.flatMap(({ path }) => waysOf(path)));
  for (const { path } of plan) {
    if (!above.has(path) || isBelow(path, blocked)) continue;
    const seen = await currentOf(guard, path).catch(() => undefined);
    if (seen && seen.state.kind !== "folder" && seen.state.kind !== "none") blocked.add(path);
  }
  return blocked;
}

function isBelow(path: string, folders: ReadonlySet<string>): boolean {
  return folders.size > 0 && waysOf(path).some((way) => folders.has(way));
}

/** The folders above a path. */
function waysOf(path: string): string[] {
  const ways: string[] = [];
  for (let at = dirname(path); at !== dirname(at); at = dirname(at)) ways.push(at);
  return ways;
}

/** What is at a path; of a way to it that is gone, nothing is. `refusal`: why a file there may not be written. */
export async function currentOf(
  guard: PathGuard,
  path: string,
  writable: (folder: OpenedFolder, name: string) => Promise<void> = () => Promise.resolve(),
): Promise<Seen & { refusal: string }> {
  try {
    return await inPlace(guard, path, false, async (folder, name) => {
      const mark = markOf(await folder.stat(name));
      const state = await stateOf(guard, folder, name);
      const refusal = state.kind === "file" ? await writable(folder, name).then(() => "", reasonOf) : "";
      return { state, mark, refusal };
    });
  } catch (error) {
    if (error instanceof PathError && error.reason === "not_found") return { state: NONE, mark: "", refusal: "" };
    throw error;
  }
}

/** Changes with what is there. */
export function markOf(stats: Stats | undefined): string {
  if (!stats?.isFile() || Date.now() - Math.max(stats.mtimeMs, stats.ctimeMs) < RACY_MS) return "";
  const { dev, ino, size, mode, mtimeMs, ctimeMs } = stats;
  return [dev, ino, size, mode, mtimeMs, ctimeMs].join(":");
}

/**
 * In the folder of a path, held open. Rejects with `PathError` where that is another than it was: a link in the place
 * of a folder leads nowhere from here. So does what may not be changed.
 */
export async function inPlace<T>(
  guard: PathGuard,
  path: string,
  create: boolean,
  work: (folder: OpenedFolder, name: string) => T | Promise<T>,
): Promise<T> {
  const name = basename(path);
  // Nothing is made by way of a link.
  if (create) {
    const target = await guard.resolveForChange(dirname(path));
    if (target.path !== dirname(path)) throw new PathError("outside", "the folder that it was in is elsewhere now");
  } else guard.refuseProtected([dirname(path)]);
  const folder = await guard.openFolder(dirname(path), { create });
  try {
    if (folder.path !== dirname(path)) throw new PathError("outside", "the folder that it was in is elsewhere now");
    await guard.refuseProtectedIn(folder, name);
    return await work(folder, name);
  } finally {
    await folder.close();
  }
}

export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Whether a folder has something in it that does not go with it. */
async function holdsMore(guard: PathGuard, path: string, goes: Going): Promise<boolean> {
  const inner = await inPlace(guard, path, false, async (above, own) => {
    const folder = await above.folder(own);
    const stays: string[] = [];
    try {
      for await (const { name } of folder.entries()) {
        const at = `${path}/${name}`;
        if (goes.paths.has(at)) continue;
        if (!goes.folders.has(at)) return undefined;
        stays.push(at);
      }
      return stays;
    } finally {
      await folder.close();
    }
  });
  if (!inner) return true;
  for (const at of inner) if (await holdsMore(guard, at, goes)) return true;
  return false;
}

function modeOf(known: Known): number {
  return known.kind === "file" ? known.mode : 0;
}
