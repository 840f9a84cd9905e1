import { lstat, realpath, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { findTrustedOwners, WORLD_WRITABLE, type Owners } from "./owners.js";

/** Maximum folders above the start that are checked. */
const MAX_DEPTH = 40;
/** Lifetime of a cached repository, in ms. */
const CACHE_LIFETIME_MS = 60_000;
/** Maximum cached repositories. */
const MAX_CACHED_FOLDERS = 64;

export interface Repository {
  /** The folder that contains `.git`. Without a `.git`, the start folder itself. */
  readonly root: string;
  /** Real paths from the root down to the start folder, including both. */
  readonly folders: readonly string[];
  /** Whether a `.git` was found. */
  readonly hasGit: boolean;
  /** Users whose files may instruct the agent in the repository. Undefined if the system has no user ids. */
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
  const [oldestFolder] = repositoriesByFolder.keys();
  if (repositoriesByFolder.size >= MAX_CACHED_FOLDERS && oldestFolder !== undefined)
    repositoriesByFolder.delete(oldestFolder);
  const repository = findRepository(folder);
  repositoriesByFolder.set(folder, { expiresAtMs: nowMs + CACHE_LIFETIME_MS, repository });
  repository.catch(() => repositoriesByFolder.delete(folder));
  return repository;
}

async function findRepository(folder: string): Promise<Repository> {
  const startFolder = await realpath(folder);
  const { uid } = await stat(startFolder, { bigint: true });
  const owners = await findTrustedOwners(startFolder);
  // A folder of root above a project belongs to the machine. It is not the user's repository.
  const currentUid = BigInt(process.getuid?.() ?? 0);
  const trustedOwners = owners && new Set([...owners].filter((owner) => owner === currentUid || owner === uid));
  const folders = [startFolder];
  for (let currentFolder = startFolder; folders.length <= MAX_DEPTH; currentFolder = dirname(currentFolder)) {
    const gitStats = await lstat(join(currentFolder, ".git"), { bigint: true }).catch(() => undefined);
    if (gitStats && (!owners || owners.has(gitStats.uid)))
      return { root: currentFolder, folders: folders.reverse(), hasGit: true, owners };
    const parent = dirname(currentFolder);
    if (parent === currentFolder || !(await isPrivateFolder(parent, trustedOwners))) break;
    folders.push(parent);
  }
  return { root: startFolder, folders: [startFolder], hasGit: false, owners };
}

async function isPrivateFolder(folder: string, owners: Owners | undefined): Promise<boolean> {
  if (!owners) return true;
  const stats = await stat(folder, { bigint: true }).catch(() => undefined);
  return stats !== undefined && owners.has(stats.uid) && (stats.mode & WORLD_WRITABLE) === 0n;
}
