import { join, relative, resolve, sep } from "node:path";
import { hasCode, ToolError } from "../ports/errors.js";
import { isInside, PathGuard } from "../files/path-guard.js";
import { printable } from "../base/printable.js";
import { frontMatter } from "../project/front-matter.js";
import { SKILL_FILE } from "../project/skill-file.js";
import type { Skill } from "../ports/skill.js";
import type { Tool } from "../ports/tool.js";
import { defineArguments, optional, text } from "./arguments.js";
import { defineTool } from "./define-tool.js";
import type { FileToolOptions } from "./files.js";
import { sniff } from "./content.js";
import { cutMiddle, MODEL_BYTES } from "../base/cut-text.js";

/** Read of one file. */
const MOST_BYTES = 256 * 1024;
/** Files of a skill that are named, and how deep they are looked for. */
const FILES = 50;
const DEPTH = 3;

const schema = defineArguments({
  name: text("Name of the skill.", { minLength: 1, aliases: ["skill"] }),
  file: optional(
    text("One of its other files, as a path within its folder; default the skill itself.", { aliases: ["path"] }),
    SKILL_FILE,
  ),
});

/** Reads what a skill says, of which the model knows the name. */
export function skillTool({ deniedPaths }: Pick<FileToolOptions, "deniedPaths">): Tool {
  return defineTool({
    name: "skill",
    description:
      "Read a skill: written instructions for tasks of one kind, with the names of its other files. " +
      "Read it before you begin a task that it fits.",
    schema,
    kind: "read",
    parallel: true,
    needsSkills: true,
    describe: ({ name, file }) =>
      `Read the skill ${printable(name)}${file === SKILL_FILE ? "" : `: ${printable(file)}`}`,
    run: async ({ name, file }, { skills = [] }) => {
      const skill = skills.find((one) => one.name === name);
      if (!skill) {
        const names = skills.map((one) => one.name).join(", ");
        throw new ToolError(
          `There is no skill ${JSON.stringify(name.slice(0, 100))}. Use one of: ${names || "(none)"}.`,
        );
      }
      // What is the user's own lies in gantry's home, which no other tool reads.
      const guard = await PathGuard.create({
        roots: [skill.root],
        denied: skill.origin === "user" ? [] : deniedPaths,
      });
      const said = await read(guard, skill, file);
      if (file !== SKILL_FILE) return said;
      const whose =
        skill.origin === "user" ? "The user's own skill" : "A skill of the repository, for which nobody vouches";
      const files = await filesOf(guard, skill.folder);
      const others = files.filter((one) => one !== SKILL_FILE);
      return [
        `${whose}, in ${printable(skill.folder)}`,
        others.length === 0 ? "It has no other files." : `Its other files (read them with file): ${others.join(", ")}`,
        "",
        frontMatter(said).body || said,
      ].join("\n");
    },
  });
}

async function read(guard: PathGuard, { name, folder }: Skill, file: string): Promise<string> {
  const path = resolve(folder, file);
  const called = printable(file);
  if (!isInside(path, folder)) throw new ToolError(`${called}: not in the folder of the skill ${name}.`);
  try {
    const { handle, stats } = await guard.openFile(path);
    try {
      const buffer = Buffer.alloc(Math.min(MOST_BYTES, Number(stats.size)));
      const { bytesRead } = await handle.read(buffer, 0, buffer.length, 0);
      const bytes = buffer.subarray(0, bytesRead);
      const content = sniff(bytes);
      if (content.kind !== "text") throw new ToolError(`${called}: it is no text.`);
      return cutMiddle(new TextDecoder(content.encoding).decode(bytes), MODEL_BYTES);
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (!hasCode(error, "path")) throw error;
    throw new ToolError(`${called}: ${error.message}.`, { cause: error });
  }
}

/** Paths within a skill's folder, sorted; links are named and not followed. */
async function filesOf(guard: PathGuard, start: string): Promise<string[]> {
  const found: string[] = [];
  const look = async (path: string, depth: number): Promise<void> => {
    const folder = await guard.openFolder(path).catch(() => undefined);
    try {
      for await (const entry of folder?.entries() ?? []) {
        if (found.length >= FILES) return;
        const own = join(path, entry.name);
        if (!entry.isDirectory()) found.push(printable(relative(start, own).split(sep).join("/")));
        else if (depth < DEPTH && entry.name !== ".git" && entry.name !== "node_modules") await look(own, depth + 1);
      }
    } finally {
      await folder?.close();
    }
  };
  await look(start, 1);
  return found.sort();
}
