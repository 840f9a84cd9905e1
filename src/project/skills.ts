import { join } from "node:path";
import { escapeInvisible } from "../base/printable.js";
import { knownFiles, knownFolders, type Known, type KnownText } from "../files/known-file.js";
import type { Owners, OwnedPlace } from "../files/owners.js";
import type { Repository } from "../files/repository.js";
import type { Skill } from "../ports/skill.js";
import { frontMatter } from "./front-matter.js";
import { SKILL_FILE } from "./skill-file.js";

/** Maximum skills of a session. Also the maximum folders per skills folder that are read. */
const MOST = 64;
/** Maximum characters of a description. */
const DESCRIPTION = 200;
/** Maximum bytes that are read of a skill file to find its front matter. */
const HEAD_BYTES = 4_096;
const FOLDERS = [".agents/skills", ".claude/skills"] as const;

/** Reads the skills of projects and of the user. Skills that cannot be read are skipped; no method rejects. */
export class Skills {
  readonly #ofProject: Shelf;
  readonly #own = new Shelf([]);

  /**
   * Paths in `denied` are never read, even through links. `leftOut` is called for files with an owner that is not
   * allowed.
   */
  constructor(denied: readonly string[], leftOut?: OwnedPlace["leftOut"]) {
    this.#ofProject = new Shelf(denied, leftOut);
  }

  /**
   * Returns the skills, sorted by name. If names collide, the user's own skill wins, then the one of the project
   * folder, then the one of the repository root.
   */
  async of(repository: Repository | undefined, home: string | undefined): Promise<Skill[]> {
    const { root = "", folders = [], owners } = repository ?? {};
    const project = folders.at(-1);
    const places = [...new Set([...(project === undefined ? [] : [project]), ...(repository ? [root] : [])])];
    const found = await Promise.all([
      ...(home === undefined ? [] : [this.#own.skills(join(home, "skills"), join(home, "skills"), "user", undefined)]),
      ...places.flatMap((place) =>
        FOLDERS.map((folder) => this.#ofProject.skills(join(place, folder), root, "project", owners)),
      ),
    ]);
    const byName = new Map<string, Skill>();
    for (const skill of found.flat()) if (!byName.has(skill.name) && byName.size < MOST) byName.set(skill.name, skill);
    return [...byName.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  }
}

/** Reads skill folders and the front matter of their skill files. Results are cached. */
class Shelf {
  readonly #folders: Known<readonly string[]>;
  readonly #files: Known<KnownText>;

  readonly #leftOut: OwnedPlace["leftOut"];

  constructor(denied: readonly string[], leftOut?: OwnedPlace["leftOut"]) {
    this.#leftOut = leftOut;
    this.#folders = knownFolders(MOST, denied);
    this.#files = knownFiles(HEAD_BYTES, denied);
  }

  async skills(folder: string, root: string, origin: Skill["origin"], owners: Owners | undefined): Promise<Skill[]> {
    const place = { root, owners, leftOut: this.#leftOut };
    const names = (await this.#folders.read({ ...place, path: folder })) ?? [];
    const found = await Promise.all(
      names.map(async (name): Promise<Skill | undefined> => {
        const own = join(folder, name);
        const said = await this.#files.read({ ...place, path: join(own, SKILL_FILE) });
        if (!said) return undefined;
        const { fields } = frontMatter(said.text);
        const called = [fields.get("name"), name].find((one) => one !== undefined && isName(one));
        if (called === undefined) return undefined;
        return { name: called, description: oneLine(fields.get("description") ?? ""), origin, folder: own, root };
      }),
    );
    return found.filter((one) => one !== undefined);
  }
}

/** Whether a name fits on one line and into a tool call. */
function isName(name: string): boolean {
  return /^[\p{L}\p{N}][\p{L}\p{N} ._:-]{0,63}$/u.test(name);
}

function oneLine(text: string): string {
  const line = escapeInvisible(text.replace(/\s+/g, " ").trim());
  const characters = [...line];
  return characters.length <= DESCRIPTION ? line : `${characters.slice(0, DESCRIPTION - 1).join("")}…`;
}
