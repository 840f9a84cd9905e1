import type { BigIntStats } from "node:fs";
import { lstat, stat } from "node:fs/promises";
import { isVouched, type OwnedPlace } from "./owners.js";
import { PathGuard } from "./path-guard.js";

/** Paths that are remembered. */
const PATHS = 256;
/** Entries of a folder that are looked at for the folders in it. */
const LOOKED = 1_000;
/** What changed less than this ago, in ms, may change again without its times telling. */
const RACY_MS = 2_000;

/** The beginning of a file, and whether there is more of it. */
export interface KnownText {
  readonly text: string;
  readonly isCut: boolean;
}

type Look<T> = (place: OwnedPlace, guard: PathGuard) => Promise<{ said: T; stats: BigIntStats }>;

/**
 * What is at paths that every run wants to know, remembered for as long as it is the same. One look at a name tells
 * that; what is new or changed is opened by the guard. No link is followed out of a place's root, nor to what is denied.
 */
export class Known<T> {
  readonly #look: Look<T>;
  readonly #denied: readonly string[];
  readonly #racyMs: number;
  /** By path; the one read first goes first. */
  readonly #known = new Map<string, { mark: string; uid: bigint; said: T }>();

  constructor(look: Look<T>, denied: readonly string[], racyMs = RACY_MS) {
    this.#look = look;
    this.#denied = denied;
    this.#racyMs = racyMs;
  }

  /** What is there; undefined where there is nothing, or nothing that may be read. Never rejects. */
  async read(place: OwnedPlace): Promise<T | undefined> {
    const { path, owners } = place;
    try {
      const now = await lstat(path, { bigint: true });
      const known = this.#known.get(path);
      if (known?.mark === markOf(now) && (!owners || owners.has(known.uid))) return known.said;
      this.#known.delete(path);
      const guard = await PathGuard.create({ roots: [place.root], denied: this.#denied });
      const { said, stats } = await this.#look(place, guard);
      if (!(await isVouched(place, stats))) return undefined;
      if (Date.now() - Number(stats.ctimeMs) > this.#racyMs)
        this.#keep(path, { mark: markOf(stats), uid: stats.uid, said });
      return said;
    } catch {
      return undefined;
    }
  }

  #keep(path: string, known: { mark: string; uid: bigint; said: T }): void {
    const [oldest] = this.#known.keys();
    if (this.#known.size >= PATHS && oldest !== undefined) this.#known.delete(oldest);
    this.#known.set(path, known);
  }
}

/** The first `bytes` of files. */
export function knownFiles(bytes: number, denied: readonly string[], racyMs?: number): Known<KnownText> {
  const look: Look<KnownText> = async ({ path }, guard) => {
    const { handle, stats } = await guard.openFile(path);
    try {
      const buffer = Buffer.alloc(bytes);
      const { bytesRead } = await handle.read(buffer, 0, bytes, 0);
      const isCut = stats.size > BigInt(bytesRead);
      return { said: { text: textIn(buffer.subarray(0, bytesRead), isCut).trim(), isCut }, stats };
    } finally {
      await handle.close();
    }
  };
  return new Known(look, denied, racyMs);
}

/** Names of at most `most` folders in folders, sorted. */
export function knownFolders(most: number, denied: readonly string[], racyMs?: number): Known<readonly string[]> {
  const look: Look<readonly string[]> = async ({ path }, guard) => {
    const folder = await guard.openFolder(path);
    try {
      const stats = await stat(folder.at("."), { bigint: true });
      const names: string[] = [];
      let left = LOOKED;
      for await (const entry of folder.entries()) {
        // A link to a folder is opened, or not, when something in it is.
        if (entry.isDirectory() || entry.isSymbolicLink()) names.push(entry.name);
        if (names.length >= most || --left <= 0) break;
      }
      return { said: names.sort(), stats };
    } finally {
      await folder.close();
    }
  };
  return new Known(look, denied, racyMs);
}

/**
 * The text of a file's first bytes, without its mark of byte order; `""` of what is none. The half of a character on
 * which a cut lies is left out.
 */
export function textIn(bytes: Buffer, isCut: boolean): string {
  const mark = bytes.length < 2 ? 0 : bytes.readUInt16BE(0);
  const encoding = mark === 0xfffe ? "utf-16le" : mark === 0xfeff ? "utf-16be" : "utf-8";
  if (encoding === "utf-8" && bytes.includes(0)) return "";
  return new TextDecoder(encoding).decode(bytes, { stream: isCut });
}

/** What another file, and the same one after a change or under one more name, does not have. */
function markOf({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return [dev, ino, size, mtimeNs, ctimeNs].join(" ");
}
