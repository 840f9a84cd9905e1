import type { Tool } from "../../ports/tool.js";
import { defineArguments, flag, optional, PATH_ALIASES, text } from "../arguments.js";
import { defineTool } from "../define-tool.js";
import { deletePath, previewDeletion } from "./delete-path.js";
import { createLocation, formatPath, type FileToolOptions } from "./files.js";

const schema = defineArguments({
  path: text("", { minLength: 1, aliases: PATH_ALIASES }),
  recursive: optional(flag(), false),
});

/** Creates the tool `delete`, which deletes a file, a link (not its target) or a folder. */
export function deleteTool(options: FileToolOptions): Tool {
  return defineTool({
    name: "delete",
    description: "Delete a file or folder. You cannot undo this.",
    schema,
    kind: "delete",
    describe: ({ path, recursive }, projectDir) => ({
      title: `Delete ${formatPath(path, projectDir)}${recursive ? " with its contents" : ""}`,
      locations: [createLocation(path, projectDir)],
    }),
    preview: (args, context) => previewDeletion(options, args, context),
    run: (args, context) => deletePath(options, args, context),
  });
}
