import type { Diff } from "../../ports/tool-display.js";
import type { Tool } from "../../ports/tool.js";
import type { TextEdit } from "../../untrusted/edits/apply-edit.js";
import { defineArguments, flag, optional, PATH_ALIASES, text } from "../arguments.js";
import { defineTool } from "../define-tool.js";
import { editFile, previewEdits } from "./edit-file.js";
import { createLocation, formatPath, type FileToolOptions } from "./files.js";

export const EDIT_FIELDS = {
  old_string: text("", { minLength: 1, aliases: ["old_text", "oldText", "oldString", "old"] }),
  new_string: text("", { aliases: ["new_text", "newText", "newString", "new"] }),
  replace_all: optional(flag(), false),
};

const schema = defineArguments({
  path: text("", { minLength: 1, aliases: PATH_ALIASES }),
  ...EDIT_FIELDS,
});

/** Returns the diffs of the edits as the model sent them. Whether the old text exists is checked when the call runs. */
export function createPlannedDiffs(path: string, edits: readonly TextEdit[], projectDir: string): Diff[] {
  const fileLocation = createLocation(path, projectDir);
  return edits.map((edit) => ({ path: fileLocation.path, oldText: edit.old_string, newText: edit.new_string }));
}

/** Creates the tool `edit`, which replaces exact text in a file. */
export function editTool(options: FileToolOptions): Tool {
  return defineTool({
    name: "edit",
    description:
      "Replace text in a file. old_string is exact, with its indentation, and occurs once unless replace_all is set.",
    schema,
    kind: "edit",
    describe: ({ path, ...edit }, projectDir) => ({
      title: `Edit ${formatPath(path, projectDir)}`,
      locations: [createLocation(path, projectDir)],
      diff: createPlannedDiffs(path, [edit], projectDir),
      // An error quotes lines of the file.
      reads: [createLocation(path, projectDir)],
    }),
    preview: ({ path, ...edit }, context) => previewEdits(options, path, [edit], context),
    run: ({ path, ...edit }, context) => editFile(options, path, [edit], context),
  });
}
