import { lstat, realpath, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { ownersOf, type Owners } from "./owners.js";

/** Maximum folders above the start that are checked. */
const MAX_DEPTH = 40;
/** Lifetime of a cached repository, in ms, and maximum cached folders. */
const CACHE_MS = 60_000;
const MAX_CACHED_FOLDERS = 64;

export interface Repository {
  /** The folder that contains `.git`. Without a `.git`, the start folder itself. */
  readonly root: string;
  /** Real paths from the root down to the start folder, including both. */
  readonly folders: readonly string[];
  /** Whether a `.git` was found. */
  readonly hasGit: boolean;
  /** Users whose files may instruct the agent here. Undefined if the system has no user ids. */
  readonly owners: Owners | undefined;
}

const repositoriesByFolder = new Map<string, { expiresAtMs: number; repository: Promise<Repository> }>();

/**
 * Finds the repository of a folder. The search stops below a folder that belongs to another user or is world-writable,
 * and at the first `.git`. The result is cached.
 *
 * Rejects with the system's error if the folder does not exist.
 */
export function repositoryOf(folder: string): Promise<Repository> {
  const nowMs = Date.now();
  const cachedEntry = repositoriesByFolder.get(folder);
  if (cachedEntry && cachedEntry.expiresAtMs > nowMs) return cachedEntry.repository;
  repositoriesByFolder.delete(folder);
  const [oldest] = repositoriesByFolder.keys();
  if (repositoriesByFolder.size >= MAX_CACHED_FOLDERS && oldest !== undefined) repositoriesByFolder.delete(oldest);
  const repository = findRepository(folder);
  repositoriesByFolder.set(folder, { expiresAtMs: nowMs + CACHE_MS, repository });
  repository.catch(() => repositoriesByFolder.delete(folder));
  return repository;
}

async function findRepository(folder: string): Promise<Repository> {
  const start = await realpath(folder);
  const { uid } = await stat(start, { bigint: true });
  const owners = await ownersOf(start);
  // A folder of root above a project belongs to the machine. It is not the user's repository.
  const currentUid = BigInt(process.getuid?.() ?? 0);
  const trustedOwners = owners && new Set([...owners].filter((owner) => owner === currentUid || owner === uid));
  const folders = [start];
  for (let at = start; folders.length <= MAX_DEPTH; at = dirname(at)) {
    const git = await lstat(join(at, ".git"), { bigint: true }).catch(() => undefined);
    if (git && (!owners || owners.has(git.uid))) return { root: at, folders: folders.reverse(), hasGit: true, owners };
    const parent = dirname(at);
    if (parent === at || !(await isPrivateFolder(parent, trustedOwners))) break;
    folders.push(parent);
  }
  return { root: start, folders: [start], hasGit: false, owners };
}

async function isPrivateFolder(folder: string, owners: Owners | undefined): Promise<boolean> {
  if (!owners) return true;
  const stats = await stat(folder, { bigint: true }).catch(() => undefined);
  return stats !== undefined && owners.has(stats.uid) && (stats.mode & 0o002n) === 0n;
}
