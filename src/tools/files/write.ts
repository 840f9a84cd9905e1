import type { Tool } from "../../ports/tool.js";
import { defineArguments, PATH_ALIASES, text } from "../arguments.js";
import { defineTool } from "../define-tool.js";
import { createLocation, formatPath, type FileToolOptions } from "./files.js";
import { previewWrite, writeFile } from "./write-file.js";

const schema = defineArguments({
  path: text("", { minLength: 1, aliases: PATH_ALIASES }),
  content: text("", { aliases: ["text", "contents", "file_text"] }),
});

/** Creates the tool `write`, which creates or replaces a file atomically. */
export function writeTool(options: FileToolOptions): Tool {
  return defineTool({
    name: "write",
    description: "Create or replace a file, with missing folders.",
    schema,
    kind: "edit",
    describe: ({ path, content }, projectDir) => {
      const fileLocation = createLocation(path, projectDir);
      return {
        title: `Write ${formatPath(path, projectDir)}`,
        locations: [fileLocation],
        diff: [{ path: fileLocation.path, oldText: null, newText: content }],
      };
    },
    preview: (args, context) => previewWrite(options, args, context),
    run: (args, context) => writeFile(options, args, context),
  });
}
