import type { BigIntStats } from "node:fs";
import { lstat, stat } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";

/** Users by number. */
export type Owners = ReadonlySet<bigint>;

/** Something that may say how to work, where it is whose it must be. */
export interface OwnedPlace {
  /** Absolute path. */
  readonly path: string;
  /** Folder that no link leads out of; absolute path. */
  readonly root: string;
  /** Whose it may be; left out: anybody's. */
  readonly owners?: Owners | undefined;
  /** Is told what is left out, and why in words. */
  readonly leftOut?: ((path: string, why: string) => void) | undefined;
}

/** What everybody may write to. */
const EVERYBODY = 0o002n;

/**
 * Who may say something in a folder: we, root, and whose it is, unless it lies where anybody may make one, as in `/tmp`.
 * Undefined where the system does not tell. Rejects with the system's error where there is no such folder.
 */
export async function ownersOf(folder: string): Promise<Owners | undefined> {
  const own = process.getuid?.();
  if (own === undefined) return undefined;
  const sure = new Set([0n, BigInt(own)]);
  const { uid } = await stat(folder, { bigint: true });
  return sure.has(uid) || !(await isGiven(folder, sure)) ? sure : sure.add(uid);
}

/** Whether one of these gave a folder to whoever has it. */
async function isGiven(folder: string, givers: Owners): Promise<boolean> {
  for (let at = dirname(folder); ; at = dirname(at)) {
    const { uid, mode } = await stat(at, { bigint: true });
    if (mode & EVERYBODY) return false;
    if (givers.has(uid) || dirname(at) === at) return true;
  }
}

/**
 * Whether what was opened is of the right people: it, and each folder and link on the way from the root, since who makes
 * those says what is read. `stats` are the opened one's. Rejects with the system's error where it is gone.
 */
export async function isVouched(place: OwnedPlace, stats: BigIntStats): Promise<boolean> {
  const why = await whyNot(place, stats);
  if (why !== undefined) place.leftOut?.(place.path, why);
  return why === undefined;
}

async function whyNot({ path, root, owners }: OwnedPlace, stats: BigIntStats): Promise<string | undefined> {
  if (!owners) return undefined;
  const names = relative(root, path).split(sep);
  const ways = names.map((_, i) => join(root, ...names.slice(0, i + 1)));
  const uids = (await Promise.all(ways.map((way) => lstat(way, { bigint: true })))).map(({ uid }) => uid);
  const other = [...uids, stats.uid].find((uid) => !owners.has(uid));
  if (other !== undefined) return `it, or the way to it, belongs to another user (${other})`;
  return stats.isFile() && stats.mode & EVERYBODY ? "everybody may write to it" : undefined;
}
