import { resolve } from "node:path";
import { ToolInputError } from "../ports/errors.js";
import { withThread } from "../hostile/threads.js";
import { isInside } from "../files/path-guard.js";
import type { Tool } from "../ports/tool.js";
import { defineArguments, flag, optional, text } from "./arguments.js";
import { defineTool } from "./define-tool.js";
import { folderName, location, shown } from "./files.js";
import type { FileToolOptions } from "./files.js";
import { ignoreNotes, newReport, searchIn } from "./search-folder.js";
import { MODEL_BYTES } from "../base/cut-text.js";

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
    all: optional(flag("Also look at what .gitignore hides."), false),
  },
  (given) => {
    checkGlob(given.pattern);
    return given;
  },
);

/** Finds files by name. */
export function globTool(options: FileToolOptions): Tool {
  return defineTool({
    name: "glob",
    description: "Find files by name, sorted by path. Leaves out what .gitignore hides unless all is set.",
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
      // Models like to give the whole path.
      const own =
        isInside(pattern, folder) && pattern.startsWith("/") ? pattern.slice(folder.length + 1) || "**" : pattern;
      checkGlob(own);
      const report = newReport();
      const lines: string[] = [];
      let bytes = 0;
      let count = 0;
      const how = { all, only: { kinds: ["file", "link", "other"], glob: own } } as const;
      await withThread(context.signal, async (thread) => {
        for await (const entries of await searchIn(thread, options, start, context, how, report)) {
          for (const entry of entries) {
            count++;
            if (lines.length >= MAX_SHOWN || bytes > MODEL_BYTES) continue;
            const line = shown(resolve(folder, entry.way), context.projectDir);
            bytes += Buffer.byteLength(line) + 1;
            if (bytes <= MODEL_BYTES) lines.push(line);
          }
        }
      });
      if (count === 0) {
        const hidden =
          report.ignored > 0 && !all ? ` (${report.ignored} entries are hidden by .gitignore; all searches them)` : "";
        lines.push(`No file matches ${pattern} in ${folderName(start, context.projectDir)}${hidden}.`);
      } else if (count > lines.length)
        lines.push(`[${lines.length} of ${count} files; use a narrower pattern or path]`);
      if (report.incomplete) lines.push("[the folder is too large to search whole; narrow it with path]");
      lines.push(...ignoreNotes(report, (one) => shown(one, context.projectDir)));
      return { text: lines.join("\n"), locations: [] };
    },
  });
}

/** Throws `ToolInputError` for what is no glob, by its look. It is compiled and matched in a thread. */
export function checkGlob(pattern: string): void {
  if (pattern.split("/").includes(".."))
    throw new ToolInputError("pattern: .. is not for globs. Name the folder in path.");
  if (pattern.length > 1_000) throw new ToolInputError("pattern: expected at most 1000 characters");
}
