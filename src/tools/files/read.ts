import type { Tool } from "../../ports/tool.js";
import { ToolInputError } from "../../ports/errors.js";
import { defineArguments, hidden, integer, optional, PATH_ALIASES, text } from "../arguments.js";
import { defineTool } from "../define-tool.js";
import { createLocation, formatPath, withFile, type FileToolOptions } from "./files.js";
import { readFile } from "./read-file.js";

const MAX_LINES = 2_000;

const schema = defineArguments(
  {
    path: text("", { minLength: 1, aliases: PATH_ALIASES }),
    offset: optional(integer("First line, or page of a PDF", { min: 1 }), 1),
    limit: optional(integer("", { min: 1, max: MAX_LINES }), MAX_LINES),
    // The tool Read of Claude Code (2.1) takes the pages of a PDF as a range, such as "3" or "1-5".
    pages: hidden(text()),
  },
  (args) => {
    if (!args.pages) return args;
    const [, first, last = first] = /^(\d{1,6})(?:-(\d{1,6}))?$/.exec(args.pages.trim()) ?? [];
    const [offset, count] = [Number(first), Number(last) - Number(first) + 1];
    if (!(offset >= 1 && count >= 1))
      throw new ToolInputError(`pages: expected a range such as "1-5", got ${JSON.stringify(args.pages.slice(0, 80))}`);
    return { ...args, offset, limit: count };
  },
);

/** Creates the tool `read`, which shows lines of text files and notebooks, pages of PDFs, and images. */
export function readTool(options: FileToolOptions): Tool {
  return defineTool({
    name: "read",
    description:
      "Read a text file, notebook, PDF or image, at most 30 kB per call. Lines have the prefix `<number><tab>`, which is not in the file.",
    schema,
    kind: "read",
    parallel: true,
    describe: ({ path, offset }, projectDir) => ({
      title: `Read ${formatPath(path, projectDir)}${offset > 1 ? ` from ${/\.pdf$/i.test(path) ? "page" : "line"} ${offset}` : ""}`,
      locations: [createLocation(path, projectDir, offset)],
    }),
    run: ({ path, offset, limit }, context) =>
      withFile(options, path, context, (file) =>
        readFile(file, formatPath(path, context.projectDir), offset, limit, context),
      ),
  });
}
