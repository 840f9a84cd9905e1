import type { Tool } from "../../ports/tool.js";
import { defineArguments, integer, optional, PATH_ALIASES, text } from "../arguments.js";
import { defineTool } from "../define-tool.js";
import { createLocation, formatPath, withFile, type FileToolOptions } from "./files.js";
import { readFile } from "./read-file.js";

const MAX_LINES = 2_000;

const schema = defineArguments({
  path: text("", { minLength: 1, aliases: PATH_ALIASES }),
  offset: optional(integer("First line", { min: 1 }), 1),
  limit: optional(integer("", { min: 1, max: MAX_LINES }), MAX_LINES),
});

/** Creates the tool `read`, which shows lines of text files, and images. */
export function readTool(options: FileToolOptions): Tool {
  return defineTool({
    name: "read",
    description:
      "Read a text file or an image, at most 30 kB per call. Lines have the prefix `<number><tab>`, which is not in the file.",
    schema,
    kind: "read",
    parallel: true,
    describe: ({ path, offset }, projectDir) => ({
      title: `Read ${formatPath(path, projectDir)}${offset > 1 ? ` from line ${offset}` : ""}`,
      locations: [createLocation(path, projectDir, offset)],
    }),
    run: ({ path, offset, limit }, context) =>
      withFile(options, path, context, (file) =>
        readFile(file, formatPath(path, context.projectDir), offset, limit, context),
      ),
  });
}
