import type { BigIntStats } from "node:fs";
import { lstat, stat } from "node:fs/promises";
import { hasTrustedOwners, type OwnedPath } from "./owners.js";
import { PathGuard } from "./path-guard.js";

const MAX_CACHED_PATHS = 256;
/** Maximum entries of a folder that are read to find its subfolders. */
const MAX_READ_ENTRIES = 1_000;
/**
 * Minimum age of a change, in ms, before the result is cached. A second change sooner than this may leave the file
 * times unchanged.
 */
const MIN_CHANGE_AGE_MS = 2_000;

/** The start of a text file. `isTruncated`: whether the file is longer. */
export interface TextStart {
  readonly text: string;
  readonly isTruncated: boolean;
}

type ContentLoader<T> = (ownedPath: OwnedPath, guard: PathGuard) => Promise<{ content: T; stats: BigIntStats }>;

/**
 * Caches the content of paths that every run reads, until the path changes. One `lstat` detects a change. New and
 * changed paths are opened through a `PathGuard`.
 *
 * Links cannot lead out of the root of a path, nor to a denied path.
 */
export class PathCache<T> {
  readonly #loadContent: ContentLoader<T>;
  readonly #deniedPaths: readonly string[];
  readonly #minChangeAgeMs: number;
  /** Cached entries by path, in the order of reading. The oldest entry is removed first. */
  readonly #entriesByPath = new Map<string, { version: string; uid: bigint; content: T }>();

  constructor(loadContent: ContentLoader<T>, deniedPaths: readonly string[], minChangeAgeMs = MIN_CHANGE_AGE_MS) {
    this.#loadContent = loadContent;
    this.#deniedPaths = deniedPaths;
    this.#minChangeAgeMs = minChangeAgeMs;
  }

  /**
   * Returns the content of a path. Undefined if the path is missing, unreadable or denied, or if its owner is not
   * allowed. Never rejects.
   */
  async read(ownedPath: OwnedPath): Promise<T | undefined> {
    const { path, owners } = ownedPath;
    try {
      const currentStats = await lstat(path, { bigint: true });
      const cachedEntry = this.#entriesByPath.get(path);
      if (cachedEntry?.version === versionOf(currentStats) && (!owners || owners.has(cachedEntry.uid)))
        return cachedEntry.content;
      this.#entriesByPath.delete(path);
      const guard = await PathGuard.create({ roots: [ownedPath.root], deniedPaths: this.#deniedPaths });
      const { content, stats } = await this.#loadContent(ownedPath, guard);
      if (!(await hasTrustedOwners(ownedPath, stats))) return undefined;
      if (Date.now() - Number(stats.ctimeMs) > this.#minChangeAgeMs)
        this.#addEntry(path, { version: versionOf(stats), uid: stats.uid, content });
      return content;
    } catch {
      return undefined;
    }
  }

  #addEntry(path: string, entry: { version: string; uid: bigint; content: T }): void {
    const [oldestPath] = this.#entriesByPath.keys();
    if (this.#entriesByPath.size >= MAX_CACHED_PATHS && oldestPath !== undefined)
      this.#entriesByPath.delete(oldestPath);
    this.#entriesByPath.set(path, entry);
  }
}

/** Creates a cache of the first `maxBytes` bytes of files. */
export function createTextCache(
  maxBytes: number,
  deniedPaths: readonly string[],
  minChangeAgeMs?: number,
): PathCache<TextStart> {
  const loadContent: ContentLoader<TextStart> = async ({ path }, guard) => {
    const { handle, stats } = await guard.openFile(path);
    try {
      const buffer = Buffer.alloc(maxBytes);
      const { bytesRead } = await handle.read(buffer, 0, maxBytes, 0);
      const isTruncated = stats.size > BigInt(bytesRead);
      return { content: { text: decodeText(buffer.subarray(0, bytesRead), isTruncated).trim(), isTruncated }, stats };
    } finally {
      await handle.close();
    }
  };
  return new PathCache(loadContent, deniedPaths, minChangeAgeMs);
}

/** Creates a cache of the sorted names of subfolders, with at most `maxNames` names per folder. */
export function createFolderCache(
  maxNames: number,
  deniedPaths: readonly string[],
  minChangeAgeMs?: number,
): PathCache<readonly string[]> {
  const loadContent: ContentLoader<readonly string[]> = async ({ path }, guard) => {
    const folder = await guard.openFolder(path);
    try {
      const stats = await stat(folder.getSystemPath("."), { bigint: true });
      const names: string[] = [];
      let remainingEntries = MAX_READ_ENTRIES;
      for await (const entry of folder.entries()) {
        // A link may lead to a folder. The link is checked when a file below it is opened.
        if (entry.isDirectory() || entry.isSymbolicLink()) names.push(entry.name);
        if (names.length >= maxNames || --remainingEntries <= 0) break;
      }
      return { content: names.sort(), stats };
    } finally {
      await folder.close();
    }
  };
  return new PathCache(loadContent, deniedPaths, minChangeAgeMs);
}

/**
 * Decodes the first bytes of a text file, without the byte order mark. Returns `""` for binary content. If
 * `isTruncated`, an incomplete character at the end is dropped.
 */
export function decodeText(bytes: Buffer, isTruncated: boolean): string {
  const byteOrderMark = bytes.length < 2 ? 0 : bytes.readUInt16BE(0);
  const encoding = byteOrderMark === 0xfffe ? "utf-16le" : byteOrderMark === 0xfeff ? "utf-16be" : "utf-8";
  if (encoding === "utf-8" && bytes.includes(0)) return "";
  return new TextDecoder(encoding).decode(bytes, { stream: isTruncated });
}

/**
 * Returns a text that identifies one state of one file. The text differs for any other file, and after a change or a
 * new hard link.
 */
function versionOf({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return [dev, ino, size, mtimeNs, ctimeNs].join(" ");
}
