import type { BigIntStats } from "node:fs";
import { lstat, stat } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";

/** Numeric user ids. */
export type Owners = ReadonlySet<bigint>;

/** A file or folder that may instruct the agent, with the owners it must have. */
export interface OwnedPath {
  readonly path: string;
  /** Absolute path of the folder that no link may leave. */
  readonly root: string;
  /** Allowed owners. Undefined: any owner. */
  readonly owners?: Owners | undefined;
  /** Called with the path and the reason when a path is skipped because of its owner. */
  readonly onSkipped?: ((path: string, reason: string) => void) | undefined;
}

/** Permission bit: every user may write. */
export const WORLD_WRITABLE = 0o002n;

/**
 * Owners whose files may instruct the agent in a folder: the current user, root, and the owner of the folder. The owner
 * of the folder is excluded where any user can create folders, as in `/tmp`.
 *
 * Returns undefined if the system has no user ids. Rejects with the system's error if the folder does not exist.
 */
export async function findTrustedOwners(folder: string): Promise<Owners | undefined> {
  const currentUid = process.getuid?.();
  if (currentUid === undefined) return undefined;
  const trustedUids = new Set([0n, BigInt(currentUid)]);
  const { uid } = await stat(folder, { bigint: true });
  return trustedUids.has(uid) || !(await wasCreatedByTrustedUser(folder, trustedUids))
    ? trustedUids
    : trustedUids.add(uid);
}

/**
 * Whether one of `trustedUids` created the folder for its owner: no folder above, up to the first folder of a trusted
 * user, is world-writable.
 */
async function wasCreatedByTrustedUser(folder: string, trustedUids: Owners): Promise<boolean> {
  for (let folderAbove = dirname(folder); ; folderAbove = dirname(folderAbove)) {
    const { uid, mode } = await stat(folderAbove, { bigint: true });
    if (mode & WORLD_WRITABLE) return false;
    if (trustedUids.has(uid) || dirname(folderAbove) === folderAbove) return true;
  }
}

/**
 * Whether the open file and each folder and link on the path from the root have an allowed owner. Each of those owners
 * can control the content that is read.
 *
 * `stats` belong to the open file. Calls `onSkipped` if the result is false. Rejects with the system's error if a file
 * was removed.
 */
export async function hasTrustedOwners(ownedPath: OwnedPath, stats: BigIntStats): Promise<boolean> {
  const reason = await findDistrustReason(ownedPath, stats);
  if (reason !== undefined) ownedPath.onSkipped?.(ownedPath.path, reason);
  return reason === undefined;
}

async function findDistrustReason({ path, root, owners }: OwnedPath, stats: BigIntStats): Promise<string | undefined> {
  if (!owners) return undefined;
  const names = relative(root, path).split(sep);
  const paths = names.map((_, i) => join(root, ...names.slice(0, i + 1)));
  const uids = (await Promise.all(paths.map((partialPath) => lstat(partialPath, { bigint: true })))).map(
    ({ uid }) => uid,
  );
  const foreignUid = [...uids, stats.uid].find((uid) => !owners.has(uid));
  if (foreignUid !== undefined) return `the path or a parent folder belongs to another user (${foreignUid})`;
  return stats.isFile() && stats.mode & WORLD_WRITABLE ? "the file is writable by every user" : undefined;
}
