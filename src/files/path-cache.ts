import type { BigIntStats } from "node:fs";
import { lstat, stat } from "node:fs/promises";
import { hasTrustedOwners, type OwnedPath } from "./owners.js";
import { PathGuard } from "./path-guard.js";

/** Maximum cached paths. */
const MAX_PATHS = 256;
/** Maximum entries of a folder that are read to find its subfolders. */
const MAX_ENTRIES = 1_000;
/**
 * Minimum age of a change, in ms, before the result is cached. A second change sooner than this may leave the file
 * times unchanged.
 */
const RACY_MS = 2_000;

/** The start of a text file. `isCut` is true if the file is longer. */
export interface TextStart {
  readonly text: string;
  readonly isCut: boolean;
}

type LoadContent<T> = (ownedPath: OwnedPath, guard: PathGuard) => Promise<{ content: T; stats: BigIntStats }>;

/**
 * Caches the content of paths that every run reads, until the path changes. One `lstat` detects a change. New and
 * changed paths are opened through a `PathGuard`.
 *
 * Links cannot lead out of the root of a path, nor to a denied path.
 */
export class PathCache<T> {
  readonly #loadContent: LoadContent<T>;
  readonly #denied: readonly string[];
  readonly #racyMs: number;
  /** By path, in the order of reading. The oldest entry is removed first. */
  readonly #entries = new Map<string, { mark: string; uid: bigint; content: T }>();

  constructor(loadContent: LoadContent<T>, denied: readonly string[], racyMs = RACY_MS) {
    this.#loadContent = loadContent;
    this.#denied = denied;
    this.#racyMs = racyMs;
  }

  /**
   * Returns the content. Undefined if the path is missing, unreadable, denied or of an owner who is not allowed. Never
   * rejects.
   */
  async read(ownedPath: OwnedPath): Promise<T | undefined> {
    const { path, owners } = ownedPath;
    try {
      const currentStats = await lstat(path, { bigint: true });
      const cachedEntry = this.#entries.get(path);
      if (cachedEntry?.mark === versionOf(currentStats) && (!owners || owners.has(cachedEntry.uid)))
        return cachedEntry.content;
      this.#entries.delete(path);
      const guard = await PathGuard.create({ roots: [ownedPath.root], denied: this.#denied });
      const { content, stats } = await this.#loadContent(ownedPath, guard);
      if (!(await hasTrustedOwners(ownedPath, stats))) return undefined;
      if (Date.now() - Number(stats.ctimeMs) > this.#racyMs)
        this.#addEntry(path, { mark: versionOf(stats), uid: stats.uid, content });
      return content;
    } catch {
      return undefined;
    }
  }

  #addEntry(path: string, entry: { mark: string; uid: bigint; content: T }): void {
    const [oldest] = this.#entries.keys();
    if (this.#entries.size >= MAX_PATHS && oldest !== undefined) this.#entries.delete(oldest);
    this.#entries.set(path, entry);
  }
}

/** Creates a cache of the first `bytes` bytes of files. */
export function createTextCache(bytes: number, denied: readonly string[], racyMs?: number): PathCache<TextStart> {
  const loadContent: LoadContent<TextStart> = async ({ path }, guard) => {
    const { handle, stats } = await guard.openFile(path);
    try {
      const buffer = Buffer.alloc(bytes);
      const { bytesRead } = await handle.read(buffer, 0, bytes, 0);
      const isCut = stats.size > BigInt(bytesRead);
      return { content: { text: decodeText(buffer.subarray(0, bytesRead), isCut).trim(), isCut }, stats };
    } finally {
      await handle.close();
    }
  };
  return new PathCache(loadContent, denied, racyMs);
}

/** Creates a cache of the sorted names of subfolders, with at most `maxNames` names per folder. */
export function createFolderCache(
  maxNames: number,
  denied: readonly string[],
  racyMs?: number,
): PathCache<readonly string[]> {
  const loadContent: LoadContent<readonly string[]> = async ({ path }, guard) => {
    const folder = await guard.openFolder(path);
    try {
      const stats = await stat(folder.at("."), { bigint: true });
      const names: string[] = [];
      let remainingEntries = MAX_ENTRIES;
      for await (const entry of folder.entries()) {
        // A link may lead to a folder. It is checked when a file below it is opened.
        if (entry.isDirectory() || entry.isSymbolicLink()) names.push(entry.name);
        if (names.length >= maxNames || --remainingEntries <= 0) break;
      }
      return { content: names.sort(), stats };
    } finally {
      await folder.close();
    }
  };
  return new PathCache(loadContent, denied, racyMs);
}

/**
 * Decodes the first bytes of a text file, without the byte order mark. Returns `""` for binary content. If `isCut`, an
 * incomplete character at the end is dropped.
 */
export function decodeText(bytes: Buffer, isCut: boolean): string {
  const byteOrderMark = bytes.length < 2 ? 0 : bytes.readUInt16BE(0);
  const encoding = byteOrderMark === 0xfffe ? "utf-16le" : byteOrderMark === 0xfeff ? "utf-16be" : "utf-8";
  if (encoding === "utf-8" && bytes.includes(0)) return "";
  return new TextDecoder(encoding).decode(bytes, { stream: isCut });
}

/** Identifies one state of one file. Differs for any other file, and after a change or a new hard link. */
function versionOf({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return [dev, ino, size, mtimeNs, ctimeNs].join(" ");
}
