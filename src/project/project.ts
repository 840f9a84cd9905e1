import { repositoryOf, type Repository } from "../files/repository.js";
import type { Logger } from "../ports/logger.js";
import type { Skill } from "../ports/skill.js";
import { gitHead } from "./git-head.js";
import { Instructions, type Instruction } from "./instructions.js";
import { Skills } from "./skills.js";
import { today, type Surroundings } from "./environment.js";

/** A first prompt waits so long at most for the top of the tree, in ms; it goes without where that takes longer. */
const TREE_MS = 1_000;
/** Sessions that begin in one folder within this time, in ms, are told the same. */
const SAME_MS = 10_000;
const FOLDERS = 64;
/** Files that are left out are told to the log once, so many of them. */
const TOLD = 256;

/** What is read of projects. */
export interface ProjectOptions {
  /** Folder of the user's own instructions and skills; absolute. */
  home?: string;
  /** Never read, whatever leads there; absolute paths. Default none. */
  deniedPaths?: readonly string[];
  /** Whether what a repository says is told at all; default true. */
  projectInstructions?: boolean;
  /** Is told what is left out. */
  logger?: Logger;
}

/** How to work, as the user and the project say it. */
export interface ProjectWords {
  /** The user's own. */
  readonly own: Instruction | undefined;
  /** From the top of the repository down to the project folder. */
  readonly project: readonly Instruction[];
  readonly skills: readonly Skill[];
}

/**
 * What projects and their surroundings say to whoever works there. Nobody vouched for a repository: all of it is bounded,
 * told with where it comes from, and gives no leave for anything. Nothing here rejects.
 */
export class Project {
  readonly #home: string | undefined;
  readonly #denied: readonly string[];
  readonly #speaks: boolean;
  readonly #logger: Logger | undefined;
  readonly #told = new Set<string>();
  readonly #treeMs: number;
  #madeInstructions: Instructions | undefined;
  #madeSkills: Skills | undefined;
  readonly #looks = new Map<string, { until: number; look: Promise<Omit<Surroundings, "day" | "folder">> }>();

  constructor({ home, deniedPaths = [], projectInstructions = true, logger }: ProjectOptions, treeMs = TREE_MS) {
    this.#treeMs = treeMs;
    this.#logger = logger;
    this.#home = home;
    this.#denied = deniedPaths;
    this.#speaks = projectInstructions;
  }

  // Made when they are needed: whoever starts an agent has no use for what a run is made of.
  get #instructions(): Instructions {
    return (this.#madeInstructions ??= new Instructions(this.#denied, this.leftOut));
  }

  get #skills(): Skills {
    return (this.#madeSkills ??= new Skills(this.#denied, this.leftOut));
  }

  /** Tells the log, once, of a file that says nothing here, and why. */
  readonly leftOut = (path: string, why: string): void => {
    if (this.#told.has(path) || this.#told.size >= TOLD) return;
    this.#told.add(path);
    this.#logger?.warn("a file of the project is left out of what it says", { path, why });
  };

  /** As the files are now. */
  async words(projectDir: string): Promise<ProjectWords> {
    const home = this.#home;
    const repository = await this.#repository(projectDir);
    const [own, project, skills] = await Promise.all([
      home === undefined ? undefined : this.#instructions.own(home),
      repository ? this.#instructions.ofProject(repository) : [],
      this.#skills.of(repository, home),
    ]);
    return { own, project, skills };
  }

  /** What the folders from below the project's down to this one say, the outermost first. */
  async below(projectDir: string, folder: string): Promise<Instruction[]> {
    const repository = await this.#repository(projectDir);
    return repository ? this.#instructions.below(projectDir, folder, repository.owners) : [];
  }

  /** What there is to see in a folder, as of now. */
  async surroundings(projectDir: string): Promise<Surroundings> {
    const now = Date.now();
    const known = this.#looks.get(projectDir);
    const look = known && known.until > now ? known.look : this.#look(projectDir);
    if (look !== known?.look) this.#keep(projectDir, { until: now + SAME_MS, look });
    return { day: today(), folder: projectDir, ...(await look) };
  }

  #keep(folder: string, known: { until: number; look: Promise<Omit<Surroundings, "day" | "folder">> }): void {
    this.#looks.delete(folder);
    const [oldest] = this.#looks.keys();
    if (this.#looks.size >= FOLDERS && oldest !== undefined) this.#looks.delete(oldest);
    this.#looks.set(folder, known);
  }

  async #look(projectDir: string): Promise<Omit<Surroundings, "day" | "folder">> {
    const repository = await this.#repository(projectDir);
    if (!repository) return { git: "", tree: "" };
    const { root, hasGit } = repository;
    const [git, tree] = await Promise.all([
      hasGit ? gitHead(root, this.#denied) : "",
      this.#tree(repository.folders.at(-1) ?? root),
    ]);
    return { git, tree };
  }

  async #tree(folder: string): Promise<string> {
    const { topOfTree } = await import("./tree.js");
    return topOfTree(folder, this.#denied, this.#treeMs);
  }

  /** Undefined where what it says is not told. */
  async #repository(projectDir: string): Promise<Repository | undefined> {
    return this.#speaks ? repositoryOf(projectDir).catch(() => undefined) : undefined;
  }
}
