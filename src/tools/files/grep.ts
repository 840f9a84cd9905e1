import { ToolInputError } from "../../ports/errors.js";
import type { Tool } from "../../ports/tool.js";
import { defineArguments, flag, integer, optional, text } from "../arguments.js";
import { defineTool } from "../define-tool.js";
import { createLocation, formatPath } from "./files.js";
import { checkGlob } from "./glob.js";
import { GrepSearch, type GrepOptions } from "./grep-search.js";
import { withIgnoreFiles } from "./search-folder.js";

const DEFAULT_LIMIT = 100;
const MAX_LIMIT = 1_000;
const MAX_PATTERN_CHARACTERS = 10_000;

const schema = defineArguments(
  {
    pattern: text("Matches within a line, unless it contains \\n", {
      minLength: 1,
      aliases: ["regex", "query"],
    }),
    path: optional(text("", { aliases: ["dir", "directory", "folder"] }), "."),
    glob: optional(text("", { aliases: ["include"] })),
    ignore_case: optional(flag(), false),
    literal: optional(flag(), false),
    context: optional(integer("", { min: 0, max: 20 }), 0),
    output: optional(text("", { oneOf: ["lines", "files", "count"] }), "lines"),
    limit: optional(integer("", { min: 1, max: MAX_LIMIT }), DEFAULT_LIMIT),
    all: optional(flag("Include ignored files"), false),
  },
  (args) => {
    if (args.pattern.length > MAX_PATTERN_CHARACTERS)
      throw new ToolInputError(`pattern: expected at most ${MAX_PATTERN_CHARACTERS} characters`);
    if (args.glob !== undefined) checkGlob(args.glob);
    return args;
  },
);

/** Creates the tool `grep`, which searches the content of files. */
export function grepTool(options: GrepOptions): Tool {
  return defineTool({
    name: "grep",
    description: "Search file contents with a regular expression of ripgrep or PCRE2.",
    schema,
    kind: "search",
    parallel: true,
    describe: ({ pattern, path, glob }, projectDir) => {
      const scopeNote = path === "." || path === "" ? "" : ` in ${formatPath(path, projectDir)}`;
      return {
        title: `Search ${JSON.stringify(pattern)}${scopeNote}${glob === undefined ? "" : ` (${glob})`}`,
        locations: [createLocation(path || ".", projectDir)],
      };
    },
    run: async (args, context) => ({
      text: await withIgnoreFiles(args.all, (all) => new GrepSearch(options, { ...args, all }, context).run()),
      locations: [],
    }),
  });
}
