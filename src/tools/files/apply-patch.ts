import type { Diff, Location } from "../../ports/tool-display.js";
import type { Tool } from "../../ports/tool.js";
import { defineArguments, text } from "../arguments.js";
import { defineTool } from "../define-tool.js";
import { createLocation, formatPath, type FileToolOptions } from "./files.js";
import { patchFiles, previewPatch } from "./patch-files.js";
import { parsePatch, type PatchSection } from "./patch-text.js";

const PATCH_FORMAT = `*** Begin Patch
*** Add File: path/new.txt
+every line begins with +
*** Update File: path/old.py
*** Move to: path/renamed.py
@@ class Reader
@@     def lines(self):
 three lines of context above, each after a space
-a removed line
+an added line
 three lines of context below
*** Delete File: path/obsolete.txt
*** End Patch

Move to is optional. @@ names the class or function if the context is not unique. *** End of File after a chunk: the file ends there. Chunks follow the order of the file.`;

const schema = defineArguments(
  {
    input: text(PATCH_FORMAT, {
      minLength: 1,
      aliases: ["patch", "patchText", "patch_text", "diff"],
    }),
  },
  (values) => {
    parsePatch(values.input);
    return values;
  },
);

/** Models trained on this format: GPT from 4.1 and 5 on, codex and the o series. */
const TRAINED_MODELS = /^(?:gpt-(?:4\.1|[5-9]|[12]\d)(?!\d)|codex|o[1-9](?![a-z\d]))|-codex(?![a-z])/;

/** Whether a model was trained on this patch format, judged by its id. A vendor prefix of a gateway is ignored. */
export function supportsPatches({ id }: { readonly id: string }): boolean {
  const name = id
    .toLowerCase()
    .replace(/^.*\//, "")
    .replace(/:.*$/, "")
    .replace(/^openai[.-]/, "");
  return TRAINED_MODELS.test(name);
}

/**
 * Creates the tool `apply_patch`, which changes several files with one patch in the format of OpenAI's models. These
 * models get it instead of `edit`.
 */
export function applyPatchTool(options: FileToolOptions): Tool {
  return defineTool({
    name: "apply_patch",
    description: "Change files with a patch, all changes or none.",
    schema,
    kind: "edit",
    models: supportsPatches,
    replaces: ["edit", "multiedit"],
    describe: ({ input }, projectDir) => {
      const sections = parsePatch(input);
      const paths = sections.flatMap((section) =>
        getMoveTarget(section) === undefined ? [section.path] : [section.path, getMoveTarget(section) ?? ""],
      );
      return {
        title: formatTitle(sections, projectDir),
        locations: [...new Set(paths)].map((path) => createLocation(path, projectDir)),
        diff: sections.flatMap((section) => createPlannedDiffs(section, projectDir)),
        actsAs: listEquivalentTools(sections),
        ...findReadLocations(sections, projectDir),
      };
    },
    preview: ({ input }, context) => previewPatch(options, parsePatch(input), context),
    run: ({ input }, context) => patchFiles(options, parsePatch(input), context),
  });
}

function getMoveTarget(section: PatchSection): string | undefined {
  return section.action === "update" ? section.moveTo : undefined;
}

function formatTitle(sections: readonly PatchSection[], projectDir: string): string {
  const [singleSection] = sections;
  if (sections.length !== 1 || !singleSection) return `Patch ${new Set(sections.map(({ path }) => path)).size} files`;
  const name = formatPath(singleSection.path, projectDir);
  const newPath = getMoveTarget(singleSection);
  if (newPath !== undefined) return `Move ${name} to ${formatPath(newPath, projectDir)}`;
  return `${{ add: "Create", delete: "Delete", update: "Patch" }[singleSection.action]} ${name}`;
}

/** Returns the diffs of a patch section. Whether the old lines exist is checked when the patch runs. */
function createPlannedDiffs(section: PatchSection, projectDir: string): Diff[] {
  const { path } = createLocation(getMoveTarget(section) ?? section.path, projectDir);
  if (section.action === "delete") return [];
  if (section.action === "add") return [{ path, oldText: null, newText: section.content }];
  return section.chunks.map(({ lines }) => {
    const joinWithout = (sign: string): string =>
      lines.flatMap((line) => (line.sign === sign ? [] : [line.text])).join("\n");
    return { path, oldText: joinWithout("+"), newText: joinWithout("-") };
  });
}

/**
 * Returns the files whose content the call may show: errors quote lines of updated files, and a moved file is readable
 * at its target.
 */
function findReadLocations(sections: readonly PatchSection[], projectDir: string): { reads?: Location[] } {
  const paths = new Set(sections.flatMap(({ action, path }) => (action === "update" ? [path] : [])));
  return paths.size > 0 ? { reads: [...paths].map((path) => createLocation(path, projectDir)) } : {};
}

/** Returns the tools whose permission rules also apply to this call. */
function listEquivalentTools(sections: readonly PatchSection[]): string[] {
  const hasEdits = sections.some((section) => section.action === "update" && section.chunks.length > 0);
  const hasWrites = sections.some((section) => section.action === "add" || getMoveTarget(section) !== undefined);
  const hasDeletes = sections.some((section) => section.action === "delete" || getMoveTarget(section) !== undefined);
  return [...(hasEdits ? ["edit"] : []), ...(hasWrites ? ["write"] : []), ...(hasDeletes ? ["delete"] : [])];
}
