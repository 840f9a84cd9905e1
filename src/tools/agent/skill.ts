import { join, relative, resolve, sep } from "node:path";
import { hasCode, ToolError } from "../../ports/errors.js";
import { hasTrustedOwners, type Owners } from "../../files/owners.js";
import { repositoryOf } from "../../files/repository.js";
import { isInside, PathGuard } from "../../files/path-guard.js";
import { toPrintableLines, toPrintable } from "../../base/printable.js";
import { parseFrontMatter } from "../../project/front-matter.js";
import { SKILL_FILE } from "../../project/skills.js";
import type { Skill } from "../../ports/skill.js";
import type { Tool } from "../../ports/tool.js";
import { defineArguments, optional, text } from "../arguments.js";
import { defineTool } from "../define-tool.js";
import type { FileToolOptions } from "../files/files.js";
import { detectFileType } from "../files/content.js";
import { cutMiddle, MAX_MODEL_TEXT_BYTES } from "../../base/cut-text.js";

/** Maximum bytes read of one file. */
const MAX_FILE_BYTES = 256 * 1024;
/** Maximum files of a skill that are listed. */
const MAX_FILES = 50;
/** Maximum depth of the folders that are searched. The folder of the skill has depth 1. */
const MAX_DEPTH = 3;
/** Maximum folder entries that the search reads. */
const MAX_ENTRIES = 1_000;
/** Time limit of the search, in ms. */
const SEARCH_TIMEOUT_MS = 2_000;
const MAX_SHOWN_NAME_CHARACTERS = 100;
/** Folders of a skill that are not searched. */
const SKIPPED_FOLDERS = new Set([".git", "node_modules"]);
/** Prefix of the state keys for skills that the model read. The value is the time of the last read, in ms. */
export const SKILL_KEY_PREFIX = "skills.read:";

const schema = defineArguments({
  name: text("", { minLength: 1, aliases: ["skill"] }),
  file: optional(text("A file in the folder of the skill", { aliases: ["path"] }), SKILL_FILE),
});

/**
 * Creates the tool `skill`, which reads the files of a skill. The model knows the names of the skills from its prompt.
 */
export function skillTool({ deniedPaths }: Pick<FileToolOptions, "deniedPaths">): Tool {
  return defineTool({
    name: "skill",
    description: "Read the instructions of a skill and the names of its other files.",
    schema,
    kind: "read",
    parallel: true,
    needsSkills: true,
    describe: ({ name, file }) =>
      `Read the skill ${toPrintable(name)}${file === SKILL_FILE ? "" : `: ${toPrintable(file)}`}`,
    run: async ({ name, file }, { skills = [], signal, projectDir, state }) => {
      const skill = skills.find((candidate) => candidate.name === name);
      if (!skill) {
        const names = skills.map((candidate) => candidate.name).join(", ");
        throw new ToolError(
          `Skill ${JSON.stringify(name.slice(0, MAX_SHOWN_NAME_CHARACTERS))} does not exist. Use one of: ${names || "(none)"}.`,
        );
      }
      // The user's own skills lie in gantry's home, which is denied to all other tools.
      const guard = await PathGuard.create({
        roots: [skill.root],
        deniedPaths: skill.origin === "user" ? [] : deniedPaths,
      });
      const owners = skill.origin === "user" ? undefined : (await repositoryOf(projectDir)).owners;
      const content = await readSkillFile(guard, skill, file, owners);
      if (file !== SKILL_FILE) return content;
      state.set(SKILL_KEY_PREFIX + name, Date.now());
      const originLabel = skill.origin === "user" ? "Skill of the user" : "Unverified skill of the repository";
      const { files, isIncomplete } = await listSkillFiles(guard, skill.folder, signal);
      const otherFiles = files.filter((path) => path !== SKILL_FILE);
      const noFilesNote = isIncomplete ? "Its other files were not found." : "It has no other files.";
      return [
        `${originLabel}, in ${toPrintable(skill.folder)}`,
        otherFiles.length === 0 ? noFilesNote : `Its other files (set file to read one): ${otherFiles.join(", ")}`,
        ...(isIncomplete ? ["Its folder was not searched completely."] : []),
        "",
        toPrintableLines(parseFrontMatter(content).body || content),
      ].join("\n");
    },
  });
}

async function readSkillFile(
  guard: PathGuard,
  { name, folder, root }: Skill,
  file: string,
  owners: Owners | undefined,
): Promise<string> {
  const path = resolve(folder, file);
  const displayName = toPrintable(file);
  if (!isInside(path, folder)) throw new ToolError(`${displayName}: not in the folder of the skill ${name}.`);
  try {
    const { handle, stats } = await guard.openFile(path);
    try {
      if (!(await hasTrustedOwners({ path, root, owners }, stats)))
        throw new ToolError(`${displayName}: belongs to another user, or is writable by every user.`);
      const buffer = Buffer.alloc(Math.min(MAX_FILE_BYTES, Number(stats.size)));
      const { bytesRead } = await handle.read(buffer, 0, buffer.length, 0);
      const bytes = buffer.subarray(0, bytesRead);
      const content = detectFileType(bytes);
      if (content.kind !== "text") throw new ToolError(`${displayName}: is not a text file.`);
      return cutMiddle(new TextDecoder(content.encoding).decode(bytes), MAX_MODEL_TEXT_BYTES);
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (!hasCode(error, "path")) throw error;
    throw new ToolError(`${displayName}: ${error.message}.`, { cause: error });
  }
}

/**
 * Lists the files of a skill as sorted relative paths. Links are listed and not followed.
 *
 * `isIncomplete` is true if a limit of files, entries, depth or time was reached. Rejects with the signal's reason.
 */
async function listSkillFiles(guard: PathGuard, skillFolder: string, signal: AbortSignal) {
  const files: string[] = [];
  const deadlineMs = Date.now() + SEARCH_TIMEOUT_MS;
  let remainingEntries = MAX_ENTRIES;
  let isIncomplete = false;
  /** Returns false once a limit is reached. */
  const searchFolder = async (path: string, depth: number): Promise<boolean> => {
    const folder = await guard.openFolder(path).catch(() => undefined);
    if (!folder) return true;
    const folders: string[] = [];
    try {
      for await (const entry of folder.entries()) {
        signal.throwIfAborted();
        if (remainingEntries-- <= 0 || files.length >= MAX_FILES || Date.now() > deadlineMs) return false;
        const entryPath = join(path, entry.name);
        if (!entry.isDirectory()) files.push(toPrintable(relative(skillFolder, entryPath).split(sep).join("/")));
        else if (SKIPPED_FOLDERS.has(entry.name)) continue;
        else if (depth < MAX_DEPTH) folders.push(entryPath);
        else isIncomplete = true;
      }
    } finally {
      await folder.close();
    }
    for (const subfolder of folders) if (!(await searchFolder(subfolder, depth + 1))) return false;
    return true;
  };
  const isComplete = await searchFolder(skillFolder, 1);
  return { files: files.sort(), isIncomplete: isIncomplete || !isComplete };
}
