import { resolve } from "node:path";
import type { Tool } from "../../ports/tool.js";
import { defineArguments, flag, integer, optional, text } from "../arguments.js";
import { defineTool } from "../define-tool.js";
import type { OpenedFolder, PathGuard } from "../../files/path-guard.js";
import { createWalkReport, walk, type WalkReport } from "../../files/walk.js";
import { toPrintable } from "../../base/printable.js";
import type { ToolContext } from "../../ports/tool.js";
import { findIgnoredPaths } from "../../processes/file-list.js";
import { folderName, createGuard, createLocation, toPathToolError, formatPath } from "./files.js";
import { withIgnoreFiles } from "./search-folder.js";
import type { FileToolOptions } from "./files.js";
import { MAX_MODEL_TEXT_BYTES } from "../../base/cut-text.js";

const MAX_SHOWN_ENTRIES = 1_000;

const schema = defineArguments({
  path: optional(text("", { aliases: ["dir", "directory", "folder"] }), "."),
  depth: optional(integer("", { min: 1, max: 20 }), 1),
  all: optional(flag("Include ignored files"), false),
});

/** Creates the tool `list`, which lists the entries of a folder. */
export function listTool(options: FileToolOptions): Tool {
  return defineTool({
    name: "list",
    description: "List a folder.",
    schema,
    kind: "read",
    parallel: true,
    describe: ({ path }, projectDir) => ({
      title: `List ${formatPath(path || ".", projectDir)}`,
      locations: [createLocation(path || ".", projectDir)],
    }),
    run: async ({ path, depth, all }, context) => {
      const start = path || ".";
      const text = await withIgnoreFiles(all, (isAll) =>
        createListText(options, { start, depth, all: isAll }, context),
      );
      return { text, locations: [{ path: resolve(context.projectDir, start) }] };
    },
  });
}

async function createListText(
  options: FileToolOptions,
  { start, depth, all }: { start: string; depth: number; all: boolean },
  context: ToolContext,
): Promise<string> {
  const guard = await createGuard(options, context);
  const folder = await openListedFolder(options, guard, start, context);
  const report = createWalkReport();
  let page: Page;
  try {
    page = await readPage(guard, folder, { depth, all }, context, report);
  } finally {
    await folder.close();
  }
  const { lines, isTruncated } = page;
  const name = folderName(start, context.projectDir);
  if (lines.length === 0) lines.push(`${name} is empty.`);
  if (isTruncated || report.isIncomplete) lines.push(`[more entries exist; list a folder inside ${name}, or use glob]`);
  if (report.ignoredCount > 0) lines.push(`[${report.ignoredCount} hidden by .gitignore; set all to show them]`);
  if (report.unreadableCount > 0) lines.push(`[${report.unreadableCount} folders could not be read]`);
  return lines.join("\n");
}

interface Page {
  lines: string[];
  /** Whether the folder has more entries than the page. */
  isTruncated: boolean;
}

async function openListedFolder(
  options: FileToolOptions,
  guard: PathGuard,
  path: string,
  { projectDir }: ToolContext,
): Promise<OpenedFolder> {
  try {
    return await guard.openFolder(resolve(projectDir, path));
  } catch (error) {
    throw await toPathToolError(error, path, projectDir, options);
  }
}

async function readPage(
  guard: PathGuard,
  folder: OpenedFolder,
  { depth, all }: { depth: number; all: boolean },
  { projectDir, signal }: ToolContext,
  report: WalkReport,
): Promise<Page> {
  const project = (await guard.resolve(projectDir)).path;
  const { paths: ignoredPaths, isIncomplete } = all
    ? { paths: new Set<string>(), isIncomplete: false }
    : await findIgnoredPaths(guard, folder.path, project, { depth, signal });
  const lines: string[] = [];
  let bytes = 0;
  for await (const entry of walk(folder, { guard, maxDepth: depth, ignoredPaths, signal }, report)) {
    const suffix =
      entry.kind === "folder" ? "/" : entry.kind === "link" ? ` -> ${await readTarget(guard, entry.path)}` : "";
    const line = `${toPrintable(entry.relativePath)}${suffix}`;
    bytes += Buffer.byteLength(line) + 1;
    if (lines.length >= MAX_SHOWN_ENTRIES || bytes > MAX_MODEL_TEXT_BYTES) return { lines, isTruncated: true };
    lines.push(line);
  }
  return { lines, isTruncated: isIncomplete };
}

async function readTarget(guard: PathGuard, path: string): Promise<string> {
  return toPrintable((await guard.readLink(path).catch(() => undefined)) ?? "?");
}
