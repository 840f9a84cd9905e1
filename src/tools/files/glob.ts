import { resolve } from "node:path";
import { MAX_MODEL_TEXT_BYTES } from "../../base/cut-text.js";
import { ToolError, ToolInputError } from "../../ports/errors.js";
import { isInside, type PathGuard } from "../../files/path-guard.js";
import type { Tool, ToolContext } from "../../ports/tool.js";
import { listFiles } from "../../processes/file-list.js";
import { runRipgrep } from "../../processes/ripgrep.js";
import { FirstPaths, SEARCH_TIMEOUT_MS, type SearchScope } from "../../processes/search-scope.js";
import { defineArguments, flag, optional, text } from "../arguments.js";
import { defineTool } from "../define-tool.js";
import { findRegularFiles } from "./search-results.js";
import { folderName, createLocation, formatPath, type FileToolOptions } from "./files.js";
import {
  checkSearch,
  findFilesByPath,
  createGlobArguments,
  openToolSearchScope,
  withIgnoreFiles,
} from "./search-folder.js";

const MAX_SHOWN_FILES = 1_000;
const MAX_GLOB_CHARACTERS = 1_000;

const schema = defineArguments(
  {
    pattern: text("Such as src/**/*.{ts,tsx}. Without / it matches in every folder", {
      minLength: 1,
      aliases: ["glob", "glob_pattern"],
    }),
    path: optional(text("", { aliases: ["dir", "directory", "folder"] }), "."),
    all: optional(flag("Include ignored files"), false),
  },
  (args) => {
    checkGlob(args.pattern);
    return args;
  },
);

/** Creates the tool `glob`, which finds files by name. */
export function globTool(options: FileToolOptions): Tool {
  return defineTool({
    name: "glob",
    description: "Find files by name.",
    schema,
    kind: "search",
    parallel: true,
    describe: ({ pattern, path }, projectDir) => ({
      title: `Find ${pattern}${path === "." || path === "" ? "" : ` in ${formatPath(path, projectDir)}`}`,
      locations: [createLocation(path || ".", projectDir)],
    }),
    run: async ({ pattern, path, all }, context) => {
      const start = path || ".";
      const folder = resolve(context.projectDir, start);
      // Models often send an absolute pattern.
      const relativePattern =
        isInside(pattern, folder) && pattern.startsWith("/") ? pattern.slice(folder.length + 1) || "**" : pattern;
      checkGlob(relativePattern);
      const text = await withIgnoreFiles(all, (isAll) =>
        createGlobText(options, { ...{ pattern, start }, glob: relativePattern, all: isAll }, context),
      );
      return { text, locations: [] };
    },
  });
}

async function createGlobText(
  options: FileToolOptions,
  { pattern, start, glob, all }: { pattern: string; start: string; glob: string; all: boolean },
  context: ToolContext,
): Promise<string> {
  const { projectDir, signal } = context;
  const { guard, scope, fileBytes, nameOf } = await openToolSearchScope(options, start, context, all);
  try {
    if (fileBytes !== undefined) throw new ToolError(`${formatPath(start, projectDir)}: not a folder. Check the path.`);
    const { firstPaths, isIncomplete } = await findMatches(glob, scope, all, signal);
    const lines = await formatMatches(guard, scope, firstPaths, nameOf);
    if (firstPaths.count === 0) {
      const ignoredCount = all ? 0 : await countIgnoredEntries(scope, signal);
      const hiddenNote =
        ignoredCount > 0 ? ` (${ignoredCount} entries are hidden by .gitignore; set all to include them)` : "";
      lines.push(`No file matches ${pattern} in ${folderName(start, projectDir)}${hiddenNote}.`);
    } else if (firstPaths.count > lines.length)
      lines.push(`[${lines.length} of ${firstPaths.count} files; use a narrower pattern or path]`);
    if (isIncomplete) lines.push("[the folder is too large to search completely; narrow path]");
    return lines.join("\n");
  } finally {
    await scope.close();
  }
}

async function findMatches(
  glob: string,
  scope: SearchScope,
  all: boolean,
  signal: AbortSignal,
): Promise<{ firstPaths: FirstPaths; isIncomplete: boolean }> {
  const globs = createGlobArguments(glob, scope);
  const firstPaths = new FirstPaths(MAX_SHOWN_FILES);
  if (globs.isForPaths && !all) {
    const { names, isIncomplete } = await findFilesByPath(scope, globs, signal);
    for (const name of names) firstPaths.add(name);
    return { firstPaths, isIncomplete };
  }
  const end = await listFiles(scope, { signal, args: globs.args }, (name) => firstPaths.add(name));
  checkSearch(end, firstPaths.count > 0);
  return { firstPaths, isIncomplete: end.endReason === "timeout" };
}

/** Returns the result lines: only the names that the guard confirms as regular files. */
async function formatMatches(
  guard: PathGuard,
  scope: SearchScope,
  firstPaths: FirstPaths,
  nameOf: (name: string) => string,
): Promise<string[]> {
  const names = firstPaths.names();
  const confirmedNames = await findRegularFiles(guard, scope.base, names);
  const lines: string[] = [];
  let bytes = 0;
  for (const name of names) {
    if (!confirmedNames.has(name)) continue;
    const line = nameOf(name);
    bytes += Buffer.byteLength(line) + 1;
    if (bytes > MAX_MODEL_TEXT_BYTES) break;
    lines.push(line);
  }
  return lines;
}

async function countIgnoredEntries(scope: SearchScope, signal: AbortSignal): Promise<number> {
  let count = 0;
  const args = ["--files", ...scope.flags, "--", scope.root];
  await runRipgrep({ args, cwd: scope.cwd, signal, timeoutMs: SEARCH_TIMEOUT_MS, onIgnored: () => void count++ });
  return count;
}

/** Throws `ToolInputError` for an invalid glob. Checks only the text; the glob is compiled and matched elsewhere. */
export function checkGlob(pattern: string): void {
  if (pattern.split("/").includes(".."))
    throw new ToolInputError("pattern: a glob must not contain the folder `..`. Set path instead.");
  if (pattern.length > MAX_GLOB_CHARACTERS) throw new ToolInputError("pattern: expected at most 1000 characters");
}
