import type { Tool } from "../../ports/tool.js";
import { defineArguments, list, object, PATH_ALIASES, text } from "../arguments.js";
import { defineTool } from "../define-tool.js";
import { EDIT_FIELDS, createPlannedDiffs } from "./edit.js";
import { editFile, previewEdits } from "./edit-file.js";
import { createLocation, formatPath, type FileToolOptions } from "./files.js";

const MAX_EDITS = 200;

const schema = defineArguments({
  path: text("", { minLength: 1, aliases: PATH_ALIASES }),
  edits: list("", object(EDIT_FIELDS), { min: 1, max: MAX_EDITS, isStrict: true }),
});

/**
 * Creates the tool `multiedit`: several replacements in one file, all or none. One call saves a model call for each
 * further replacement.
 */
export function multieditTool(options: FileToolOptions): Tool {
  return defineTool({
    name: "multiedit",
    description: "Make several edits in one file, in this order, all or none.",
    schema,
    kind: "edit",
    describe: ({ path, edits }, projectDir) => ({
      title: `Edit ${formatPath(path, projectDir)}${edits.length > 1 ? ` in ${edits.length} places` : ""}`,
      locations: [createLocation(path, projectDir)],
      diff: createPlannedDiffs(path, edits, projectDir),
      reads: [createLocation(path, projectDir)],
    }),
    preview: ({ path, edits }, context) => previewEdits(options, path, edits, context),
    run: ({ path, edits }, context) => editFile(options, path, edits, context),
  });
}
