import { join } from "node:path";
import { escapeInvisible } from "../base/printable.js";
import { createTextCache, createFolderCache, type PathCache, type TextStart } from "../files/path-cache.js";
import type { Owners, OwnedPath } from "../files/owners.js";
import type { Repository } from "../files/repository.js";
import type { Skill } from "../ports/skill.js";
import { parseFrontMatter } from "./front-matter.js";

/** File name of a skill's instructions. */
export const SKILL_FILE = "SKILL.md";
/** Maximum skills of a session. Also the maximum folders per skills folder that are read. */
const MAX_SKILLS = 64;
/** Maximum characters of a description. */
const MAX_DESCRIPTION_CHARACTERS = 200;
/** Maximum bytes that are read of a skill file to find its front matter. */
const MAX_HEADER_BYTES = 4_096;
const SKILL_FOLDERS = [".agents/skills", ".claude/skills"] as const;

/** Reads the skills of projects and of the user. Skills that cannot be read are skipped; no method rejects. */
export class Skills {
  readonly #projectReader: SkillReader;
  readonly #userReader = new SkillReader([]);

  /**
   * Paths in `deniedPaths` are never read, even through links. `onSkipped` is called for files with an owner that is
   * not allowed.
   */
  constructor(deniedPaths: readonly string[], onSkipped?: OwnedPath["onSkipped"]) {
    this.#projectReader = new SkillReader(deniedPaths, onSkipped);
  }

  /**
   * Returns the skills, sorted by name. If names collide, the user's own skill wins, then the one of the project
   * folder, then the one of the repository root.
   */
  async readSkills(repository: Repository | undefined, home: string | undefined): Promise<Skill[]> {
    const { root = "", folders = [], owners } = repository ?? {};
    const projectFolder = folders.at(-1);
    const baseFolders = [
      ...new Set([...(projectFolder === undefined ? [] : [projectFolder]), ...(repository ? [root] : [])]),
    ];
    const skillLists = await Promise.all([
      ...(home === undefined
        ? []
        : [this.#userReader.readFolder(join(home, "skills"), join(home, "skills"), "user", undefined)]),
      ...baseFolders.flatMap((baseFolder) =>
        SKILL_FOLDERS.map((folder) =>
          this.#projectReader.readFolder(join(baseFolder, folder), root, "project", owners),
        ),
      ),
    ]);
    const skillsByName = new Map<string, Skill>();
    for (const skill of skillLists.flat())
      if (!skillsByName.has(skill.name) && skillsByName.size < MAX_SKILLS) skillsByName.set(skill.name, skill);
    return [...skillsByName.values()].sort((left, right) => (left.name < right.name ? -1 : 1));
  }
}

/** Reads skill folders and the front matter of their skill files. Results are cached. */
class SkillReader {
  readonly #folders: PathCache<readonly string[]>;
  readonly #files: PathCache<TextStart>;

  readonly #onSkipped: OwnedPath["onSkipped"];

  constructor(deniedPaths: readonly string[], onSkipped?: OwnedPath["onSkipped"]) {
    this.#onSkipped = onSkipped;
    this.#folders = createFolderCache(MAX_SKILLS, deniedPaths);
    this.#files = createTextCache(MAX_HEADER_BYTES, deniedPaths);
  }

  async readFolder(
    folder: string,
    root: string,
    origin: Skill["origin"],
    owners: Owners | undefined,
  ): Promise<Skill[]> {
    const readOptions = { root, owners, onSkipped: this.#onSkipped };
    const names = (await this.#folders.read({ ...readOptions, path: folder })) ?? [];
    const skills = await Promise.all(
      names.map(async (name): Promise<Skill | undefined> => {
        const skillFolder = join(folder, name);
        const file = await this.#files.read({ ...readOptions, path: join(skillFolder, SKILL_FILE) });
        if (!file) return undefined;
        const { fields } = parseFrontMatter(file.text);
        const skillName = [fields.get("name"), name].find((candidate) => candidate !== undefined && isName(candidate));
        if (skillName === undefined) return undefined;
        return {
          name: skillName,
          description: toOneLine(fields.get("description") ?? ""),
          origin,
          folder: skillFolder,
          root,
        };
      }),
    );
    return skills.filter((skill) => skill !== undefined);
  }
}

/** Whether a name fits on one line and into a tool call. */
function isName(name: string): boolean {
  return /^[\p{L}\p{N}][\p{L}\p{N} ._:-]{0,63}$/u.test(name);
}

function toOneLine(text: string): string {
  const line = escapeInvisible(text.replace(/\s+/g, " ").trim());
  const characters = [...line];
  return characters.length <= MAX_DESCRIPTION_CHARACTERS
    ? line
    : `${characters.slice(0, MAX_DESCRIPTION_CHARACTERS - 1).join("")}…`;
}
