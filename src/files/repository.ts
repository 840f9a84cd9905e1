import { lstat, realpath, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { ownersOf, type Owners } from "./owners.js";

/** Folders above one that are looked at. */
const MAX_DEPTH = 40;
/** How long it is remembered where a repository begins, in ms, and of how many folders. */
const KNOWN_MS = 60_000;
const KNOWN = 64;

/** The repository that a folder lies in. */
export interface Repository {
  /** Its top: the folder with `.git`. Where there is none, the folder itself. */
  readonly root: string;
  /** From the top down to the folder, both among them; real paths. */
  readonly folders: readonly string[];
  /** Whether there is a `.git`. */
  readonly hasGit: boolean;
  /** Who may say something there. Undefined where the system does not tell. */
  readonly owners: Owners | undefined;
}

const known = new Map<string, { until: number; found: Promise<Repository> }>();

/**
 * Where the repository of a folder begins. Nothing above it is looked at, no folder of another user's, and none that
 * anybody may write to. Rejects with the system's error where there is no such folder.
 */
export function repositoryOf(folder: string): Promise<Repository> {
  const now = Date.now();
  const before = known.get(folder);
  if (before && before.until > now) return before.found;
  known.delete(folder);
  const [oldest] = known.keys();
  if (known.size >= KNOWN && oldest !== undefined) known.delete(oldest);
  const found = find(folder);
  known.set(folder, { until: now + KNOWN_MS, found });
  found.catch(() => known.delete(folder));
  return found;
}

async function find(folder: string): Promise<Repository> {
  const start = await realpath(folder);
  const { uid } = await stat(start, { bigint: true });
  const owners = await ownersOf(start);
  // What root has above a project is the machine's, and no repository that somebody else works in.
  const own = BigInt(process.getuid?.() ?? 0);
  const people = owners && new Set([...owners].filter((one) => one === own || one === uid));
  const folders = [start];
  for (let at = start; folders.length <= MAX_DEPTH; at = dirname(at)) {
    const git = await lstat(join(at, ".git"), { bigint: true }).catch(() => undefined);
    if (git && (!owners || owners.has(git.uid))) return { root: at, folders: folders.reverse(), hasGit: true, owners };
    const above = dirname(at);
    if (above === at || !(await isOurs(above, people))) break;
    folders.push(above);
  }
  return { root: start, folders: [start], hasGit: false, owners };
}

async function isOurs(folder: string, owners: Owners | undefined): Promise<boolean> {
  if (!owners) return true;
  const stats = await stat(folder, { bigint: true }).catch(() => undefined);
  return stats !== undefined && owners.has(stats.uid) && (stats.mode & 0o002n) === 0n;
}
