import { createDeadline } from "../base/abort.js";
import { toPrintable } from "../base/printable.js";
import { PathGuard } from "../files/path-guard.js";
import { createWalkReport, walk, type WalkEntry } from "../files/walk.js";
import { findIgnoredPaths } from "../processes/file-list.js";

/** Folder levels in the result. */
const MAX_DEPTH = 2;
/** Maximum names per subfolder. */
const MAX_NAMES_PER_FOLDER = 10;
/** Maximum characters of a name. */
const MAX_NAME_CHARACTERS = 60;
/** Maximum bytes of the result. */
const MAX_TREE_BYTES = 2_000;

/**
 * Lists the entries of a folder and of its subfolders as lines, without files that Git ignores. Returns `""` on failure
 * or after `timeoutMs`. Never rejects.
 */
export async function readTreeTop(folder: string, deniedPaths: readonly string[], timeoutMs: number): Promise<string> {
  const timeout = createDeadline(timeoutMs);
  try {
    const guard = await PathGuard.create({ roots: [folder], deniedPaths });
    const openedFolder = await guard.openFolder(folder);
    try {
      const { paths: ignoredPaths } = await findIgnoredPaths(guard, openedFolder.path, openedFolder.path, {
        depth: MAX_DEPTH,
        signal: timeout.signal,
        timeoutMs,
      });
      const entries: WalkEntry[] = [];
      for await (const entry of walk(
        openedFolder,
        { guard, ignoredPaths, maxDepth: MAX_DEPTH, signal: timeout.signal },
        createWalkReport(),
      ))
        entries.push(entry);
      return formatTree(entries);
    } finally {
      await openedFolder.close();
    }
  } catch {
    return "";
  } finally {
    timeout.clear();
  }
}

/**
 * Formats one line per folder with its entries, and one line for the files at the top. If that is too long, only the
 * names of the folders.
 */
function formatTree(entries: readonly WalkEntry[]): string {
  const files: string[] = [];
  const folders = new Map<string, string[]>();
  for (const { relativePath, kind } of entries) {
    const [topName = "", entryName] = relativePath.split("/");
    const suffix = kind === "folder" ? "/" : "";
    if (entryName !== undefined) folders.get(topName)?.push(shortenName(entryName) + suffix);
    else if (kind === "folder") folders.set(topName, []);
    else files.push(shortenName(topName));
  }
  const fileLines = files.length > 0 ? [formatNames(files, MAX_TREE_BYTES / 4)] : [];
  const folderLines = [...folders].map(
    ([name, entryNames]) =>
      `${shortenName(name)}/: ${formatNames(entryNames.slice(0, MAX_NAMES_PER_FOLDER), MAX_TREE_BYTES, entryNames.length)}`,
  );
  const text = [...folderLines, ...fileLines].join("\n");
  if (Buffer.byteLength(text) <= MAX_TREE_BYTES) return text;
  const names = [...folders.keys()].map((name) => `${shortenName(name)}/`);
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
