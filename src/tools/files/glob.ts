import { resolve } from "node:path";
import { MODEL_BYTES } from "../../base/cut-text.js";
import { ToolError, ToolInputError } from "../../ports/errors.js";
import { isInside, type PathGuard } from "../../files/path-guard.js";
import type { Tool, ToolContext } from "../../ports/tool.js";
import { listFiles } from "../../processes/file-list.js";
import { runRipgrep } from "../../processes/ripgrep.js";
import { FirstPaths, SEARCH_TIMEOUT_MS, type SearchScope } from "../../processes/search-scope.js";
import { defineArguments, flag, optional, text } from "../arguments.js";
import { defineTool } from "../define-tool.js";
import { regularFiles } from "./search-results.js";
import { folderName, location, shown, type FileToolOptions } from "./files.js";
import { checkSearch, filesByPath, globArguments, openToolSearchScope, withIgnoreFiles } from "./search-folder.js";

const MAX_SHOWN = 1_000;

const schema = defineArguments(
  {
    pattern: text("Glob, for instance src/**/*.{ts,tsx}. Without a slash it matches names in every folder.", {
      minLength: 1,
      aliases: ["glob", "glob_pattern"],
    }),
    path: optional(
      text("Folder to search; default the project folder.", { aliases: ["dir", "directory", "folder"] }),
      ".",
    ),
    all: optional(flag("Include files that .gitignore hides."), false),
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
    description: "Find files by name, sorted by path. Omits files that .gitignore hides, unless all is set.",
    schema,
    kind: "search",
    parallel: true,
    describe: ({ pattern, path }, projectDir) => ({
      title: `Find ${pattern}${path === "." || path === "" ? "" : ` in ${shown(path, projectDir)}`}`,
      locations: [location(path || ".", projectDir)],
    }),
    run: async ({ pattern, path, all }, context) => {
      const start = path || ".";
      const folder = resolve(context.projectDir, start);
      // Models often send an absolute pattern.
      const relativePattern =
        isInside(pattern, folder) && pattern.startsWith("/") ? pattern.slice(folder.length + 1) || "**" : pattern;
      checkGlob(relativePattern);
      const text = await withIgnoreFiles(all, (isAll) =>
        globText(options, { ...{ pattern, start }, glob: relativePattern, all: isAll }, context),
      );
      return { text, locations: [] };
    },
  });
}

async function globText(
  options: FileToolOptions,
  { pattern, start, glob, all }: { pattern: string; start: string; glob: string; all: boolean },
  context: ToolContext,
): Promise<string> {
  const { projectDir, signal } = context;
  const { guard, place, fileBytes, nameOf } = await openToolSearchScope(options, start, context, all);
  try {
    if (fileBytes !== undefined) throw new ToolError(`${shown(start, projectDir)}: not a folder. Check the path.`);
    const { first, isIncomplete } = await matchesOf(glob, place, all, signal);
    const lines = await shownMatches(guard, place, first, nameOf);
    if (first.count === 0) {
      const ignored = all ? 0 : await countIgnored(place, signal);
      const hidden = ignored > 0 ? ` (${ignored} entries are hidden by .gitignore; set all to include them)` : "";
      lines.push(`No file matches ${pattern} in ${folderName(start, projectDir)}${hidden}.`);
    } else if (first.count > lines.length)
      lines.push(`[${lines.length} of ${first.count} files; use a narrower pattern or path]`);
    if (isIncomplete) lines.push("[the folder is too large to search completely; narrow path]");
    return lines.join("\n");
  } finally {
    await place.close();
  }
}

async function matchesOf(
  glob: string,
  place: SearchScope,
  all: boolean,
  signal: AbortSignal,
): Promise<{ first: FirstPaths; isIncomplete: boolean }> {
  const globs = globArguments(glob, place);
  const first = new FirstPaths(MAX_SHOWN);
  if (globs.isForPaths && !all) {
    const { names, isIncomplete } = await filesByPath(place, globs, signal);
    for (const name of names) first.add(name);
    return { first, isIncomplete };
  }
  const end = await listFiles(place, { signal, args: globs.args }, (name) => first.add(name));
  checkSearch(end, first.count > 0);
  return { first, isIncomplete: end.why === "timeout" };
}

/** The result lines. Includes only names that the guard confirms as regular files. */
async function shownMatches(
  guard: PathGuard,
  place: SearchScope,
  first: FirstPaths,
  nameOf: (name: string) => string,
): Promise<string[]> {
  const names = first.names();
  const confirmed = await regularFiles(guard, place.base, names);
  const lines: string[] = [];
  let bytes = 0;
  for (const name of names) {
    if (!confirmed.has(name)) continue;
    const line = nameOf(name);
    bytes += Buffer.byteLength(line) + 1;
    if (bytes > MODEL_BYTES) break;
    lines.push(line);
  }
  return lines;
}

async function countIgnored(place: SearchScope, signal: AbortSignal): Promise<number> {
  let count = 0;
  const args = ["--files", ...place.flags, "--", place.root];
  await runRipgrep({ args, cwd: place.cwd, signal, timeoutMs: SEARCH_TIMEOUT_MS, onIgnored: () => void count++ });
  return count;
}

/** Throws `ToolInputError` for an invalid glob. Checks only the text; the glob is compiled and matched elsewhere. */
export function checkGlob(pattern: string): void {
  if (pattern.split("/").includes(".."))
    throw new ToolInputError("pattern: a glob must not contain the folder `..`. Set path instead.");
  if (pattern.length > 1_000) throw new ToolInputError("pattern: expected at most 1000 characters");
}
