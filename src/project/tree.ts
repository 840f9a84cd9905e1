import { join } from "node:path";
import { monotonicMs } from "../base/clock.js";
import { toPrintable } from "../base/printable.js";
import { PathGuard, type OpenedFolder } from "../files/path-guard.js";
import { IgnoredNames } from "./ignored-names.js";

/** Maximum subfolders whose entries are read. The names of others are listed alone. */
const MAX_LISTED_FOLDERS = 40;
/** Maximum entries that are read of one folder. */
const MAX_ENTRIES_PER_FOLDER = 1_000;
/** Not listed, also without an ignore file. */
const HIDDEN_NAMES = new Set([".git", "node_modules"]);
/** Maximum bytes that are read of the ignore file. */
const MAX_IGNORE_FILE_BYTES = 32_768;
/** Maximum names per subfolder. */
const MAX_NAMES_PER_FOLDER = 10;
/** Maximum characters of a name. */
const MAX_NAME_CHARACTERS = 60;
/** Maximum bytes of the result. */
const MAX_TREE_BYTES = 2_000;

/** An entry of the folder, and for a listed folder the names in it. Names of folders end with `/`. */
interface TreeEntry {
  readonly name: string;
  readonly isFolder: boolean;
  /** Undefined for a file and for a folder whose entries are not listed. */
  readonly entryNames?: readonly string[];
}

/**
 * Lists the entries of a folder and of its subfolders as lines, without the names that `.gitignore` hides (see
 * `IgnoredNames`). Returns `""` on failure or after `timeoutMs`. Never rejects.
 *
 * Runs before the first model call of a session. So it starts no process and reads a limited number of folders and
 * entries.
 */
export async function readTreeTop(folder: string, deniedPaths: readonly string[], timeoutMs: number): Promise<string> {
  const deadlineMs = monotonicMs() + timeoutMs;
  const isLate = () => monotonicMs() >= deadlineMs;
  try {
    const guard = await PathGuard.create({ roots: [folder], deniedPaths });
    const openedFolder = await guard.openFolder(folder);
    try {
      const ignoredNames = await readIgnoredNames(guard, openedFolder);
      const entries: TreeEntry[] = [];
      let listedFolders = 0;
      for (const entry of await readEntries(guard, openedFolder, ignoredNames, false)) {
        if (isLate()) return "";
        const isListed = entry.isFolder && listedFolders++ < MAX_LISTED_FOLDERS;
        entries.push(isListed ? await listFolder(guard, openedFolder, entry, ignoredNames) : entry);
      }
      return isLate() ? "" : formatTree(entries);
    } finally {
      await openedFolder.close();
    }
  } catch {
    return "";
  }
}

async function readIgnoredNames(guard: PathGuard, folder: OpenedFolder): Promise<IgnoredNames> {
  const path = join(folder.path, ".gitignore");
  // A link is not followed, so the file is part of the folder.
  if (!(await folder.stat(".gitignore"))?.isFile()) return new IgnoredNames("");
  const { handle } = await guard.openFile(path);
  try {
    const buffer = Buffer.alloc(MAX_IGNORE_FILE_BYTES);
    const { bytesRead } = await handle.read(buffer, 0, MAX_IGNORE_FILE_BYTES, 0);
    return new IgnoredNames(buffer.toString("utf8", 0, bytesRead));
  } finally {
    await handle.close();
  }
}

/** Reads the entries of an open folder, sorted by name, without denied paths and hidden names. */
async function readEntries(
  guard: PathGuard,
  folder: OpenedFolder,
  ignoredNames: IgnoredNames,
  isNested: boolean,
): Promise<TreeEntry[]> {
  const entries: TreeEntry[] = [];
  let entryCount = 0;
  for await (const dirent of folder.entries()) {
    if (++entryCount > MAX_ENTRIES_PER_FOLDER) break;
    const { name } = dirent;
    const isFolder = dirent.isDirectory();
    if (HIDDEN_NAMES.has(name) || guard.denies(join(folder.path, name)) || ignoredNames.hides(name, isFolder, isNested))
      continue;
    entries.push({ name, isFolder });
  }
  return entries.sort((left, right) => (left.name < right.name ? -1 : 1));
}

async function listFolder(
  guard: PathGuard,
  parent: OpenedFolder,
  entry: TreeEntry,
  ignoredNames: IgnoredNames,
): Promise<TreeEntry> {
  const folder = await parent.openSubfolder(entry.name).catch(() => undefined);
  if (!folder) return entry;
  try {
    const entries = await readEntries(guard, folder, ignoredNames, true);
    return { ...entry, entryNames: entries.map(({ name, isFolder }) => shortenName(name) + (isFolder ? "/" : "")) };
  } finally {
    await folder.close();
  }
}

/**
 * Formats one line per folder with its entries, and one line for the files at the top. If that is too long, only the
 * names of the folders.
 */
function formatTree(entries: readonly TreeEntry[]): string {
  const files = entries.filter(({ isFolder }) => !isFolder).map(({ name }) => shortenName(name));
  const folders = entries.filter(({ isFolder }) => isFolder);
  const fileLines = files.length > 0 ? [formatNames(files, MAX_TREE_BYTES / 4)] : [];
  const folderLines = folders.map(({ name, entryNames }) =>
    entryNames
      ? `${shortenName(name)}/: ${formatNames(entryNames.slice(0, MAX_NAMES_PER_FOLDER), MAX_TREE_BYTES, entryNames.length)}`
      : `${shortenName(name)}/`,
  );
  const text = [...folderLines, ...fileLines].join("\n");
  if (Buffer.byteLength(text) <= MAX_TREE_BYTES) return text;
  const names = folders.map(({ name }) => `${shortenName(name)}/`);
  return [formatNames(names, (MAX_TREE_BYTES * 3) / 4 - 1), ...fileLines].join("\n");
}

/** Formats as many names as fit, with the number of omitted names. */
function formatNames(names: readonly string[], maxBytes: number, totalCount = names.length): string {
  if (names.length === 0) return "(empty)";
  // The note about omitted names needs room too.
  const nameBytes = maxBytes - " and 200000 more".length;
  let usedBytes = 0;
  const fittingNames = names.filter((name) => (usedBytes += Buffer.byteLength(name) + 1) <= nameBytes);
  return (
    fittingNames.join(" ") + (totalCount > fittingNames.length ? ` and ${totalCount - fittingNames.length} more` : "")
  );
}

function shortenName(name: string): string {
  const safeName = toPrintable(name);
  return safeName.length <= MAX_NAME_CHARACTERS ? safeName : `${safeName.slice(0, MAX_NAME_CHARACTERS - 1)}…`;
}
