import { deadline } from "../base/abort.js";
import { printable } from "../base/printable.js";
import { PathGuard } from "../files/path-guard.js";
import { newReport, walk, type WalkEntry } from "../files/walk.js";
import { ignoredBelow } from "../processes/file-list.js";

/** Folder levels in the result. */
const MAX_DEPTH = 2;
/** Maximum names per subfolder. */
const MAX_NAMES_PER_FOLDER = 10;
/** Maximum characters of a name, and maximum bytes of the result. */
const MAX_NAME_CHARACTERS = 60;
const MAX_BYTES = 2_000;

/**
 * Lists the entries of a folder and of its subfolders as lines, without files that Git ignores. Returns `""` on failure
 * or after `ms` milliseconds. Never rejects.
 */
export async function topOfTree(folder: string, denied: readonly string[], ms: number): Promise<string> {
  const time = deadline(ms);
  try {
    const guard = await PathGuard.create({ roots: [folder], denied });
    const opened = await guard.openFolder(folder);
    try {
      const limits = { depth: MAX_DEPTH, signal: time.signal };
      const { paths: ignored } = await ignoredBelow(guard, opened.path, opened.path, { ...limits, timeoutMs: ms });
      const entries: WalkEntry[] = [];
      for await (const entry of walk(opened, { guard, ignored, ...limits }, newReport())) entries.push(entry);
      return formatTree(entries);
    } finally {
      await opened.close();
    }
  } catch {
    return "";
  } finally {
    time.clear();
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
    const [first = "", second] = relativePath.split("/");
    const end = kind === "folder" ? "/" : "";
    if (second !== undefined) folders.get(first)?.push(shortName(second) + end);
    else if (kind === "folder") folders.set(first, []);
    else files.push(shortName(first));
  }
  const beside = files.length > 0 ? [formatNames(files, MAX_BYTES / 4)] : [];
  const folderLines = [...folders].map(
    ([name, inside]) =>
      `${shortName(name)}/: ${formatNames(inside.slice(0, MAX_NAMES_PER_FOLDER), MAX_BYTES, inside.length)}`,
  );
  const text = [...folderLines, ...beside].join("\n");
  if (Buffer.byteLength(text) <= MAX_BYTES) return text;
  const names = [...folders.keys()].map((name) => `${shortName(name)}/`);
  return [formatNames(names, (MAX_BYTES * 3) / 4 - 1), ...beside].join("\n");
}

/** Formats as many names as fit, with the number of omitted names. */
function formatNames(names: readonly string[], bytes: number, all = names.length): string {
  if (names.length === 0) return "(empty)";
  const room = bytes - " and 200000 more".length;
  let size = 0;
  const fitting = names.filter((name) => (size += Buffer.byteLength(name) + 1) <= room);
  return fitting.join(" ") + (all > fitting.length ? ` and ${all - fitting.length} more` : "");
}

function shortName(name: string): string {
  const safeName = printable(name);
  return safeName.length <= MAX_NAME_CHARACTERS ? safeName : `${safeName.slice(0, MAX_NAME_CHARACTERS - 1)}…`;
}
