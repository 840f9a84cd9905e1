import { isRecord } from "../base/json.js";
import { SharedReads } from "../base/shared-reads.js";
import { repositoryOf, type Repository } from "../files/repository.js";
import type { Logger } from "../ports/logger.js";
import type { Skill } from "../ports/skill.js";
import { describeGitHead } from "./git-head.js";
import { Instructions, type InstructionFile } from "./instructions.js";
import { Skills } from "./skills.js";
import { readTreeTop } from "./tree.js";

/** Maximum time for reading the tree before the first prompt, in ms. After that the prompt is sent without the tree. */
const TREE_TIMEOUT_MS = 1_000;
/**
 * Lifetime of a cached environment, in ms. Sessions that start in the same folder within this time share the
 * environment.
 */
const ENVIRONMENT_CACHE_MS = 10_000;
const MAX_CACHED_FOLDERS = 64;
/** Maximum skipped files that are logged. Each file is logged once. */
const MAX_LOGGED_FILES = 256;

/** Maximum lengths of stored values, in characters. */
const MAX_CHARACTERS_BY_FIELD = { folder: 4_096, git: 600, tree: 2_400 } as const;

/** Options of `Project`. */
export interface ProjectOptions {
  /** Absolute path of the folder with the user's own instructions and skills. Undefined: none are read. */
  home?: string;
  /** Absolute paths that are never read, even through links. Default: none. */
  deniedPaths?: readonly string[];
  /** Whether instructions, skills and environment of the repository are read. Default: true. */
  projectInstructions?: boolean;
  /** Receives a warning for each skipped file. Undefined: no log. */
  logger?: Logger;
}

/** Instructions and skills of the user and the project. */
export interface ProjectInstructions {
  /** The user's own instructions. Undefined: none. */
  readonly user: InstructionFile | undefined;
  /** From the root of the repository down to the project folder. */
  readonly project: readonly InstructionFile[];
  readonly skills: readonly Skill[];
}

/** The environment description that a session was started with. */
export interface Environment {
  /** Local date of this machine, as in `2026-01-31`. */
  readonly day: string;
  /** Absolute path of the project folder. */
  readonly folder: string;
  /** Branch and state of the Git repository. `""`: no repository, or not reported to the model. */
  readonly git: string;
  /** Top levels of the project folder. `""`: not reported to the model. */
  readonly tree: string;
}

/**
 * Reads instructions, skills and the environment description of projects. Repositories are untrusted: all content is
 * limited in size, labelled with its source, and grants no permission.
 *
 * No method rejects.
 */
export class Project {
  readonly #home: string | undefined;
  readonly #deniedPaths: readonly string[];
  readonly #readsRepository: boolean;
  readonly #logger: Logger | undefined;
  readonly #loggedPaths = new Set<string>();
  readonly #treeTimeoutMs: number;
  #lazyInstructions: Instructions | undefined;
  #lazySkills: Skills | undefined;
  readonly #instructionReads = new SharedReads((projectDir) => this.#readInstructions(projectDir));
  readonly #environmentsByFolder = new Map<
    string,
    { expiresAtMs: number; environment: Promise<Omit<Environment, "day" | "folder">> }
  >();

  constructor(
    { home, deniedPaths = [], projectInstructions = true, logger }: ProjectOptions,
    treeTimeoutMs = TREE_TIMEOUT_MS,
  ) {
    this.#treeTimeoutMs = treeTimeoutMs;
    this.#logger = logger;
    this.#home = home;
    this.#deniedPaths = deniedPaths;
    this.#readsRepository = projectInstructions;
  }

  // Created at first use, because starting an agent needs neither.
  get #instructions(): Instructions {
    return (this.#lazyInstructions ??= new Instructions(this.#deniedPaths, this.logSkipped));
  }

  get #skills(): Skills {
    return (this.#lazySkills ??= new Skills(this.#deniedPaths, this.logSkipped));
  }

  /** Logs a skipped file and the reason, once per path. */
  readonly logSkipped = (path: string, why: string): void => {
    if (this.#loggedPaths.has(path) || this.#loggedPaths.size >= MAX_LOGGED_FILES) return;
    this.#loggedPaths.add(path);
    this.#logger?.warn("project file skipped; its instructions are not used", { path, why });
  };

  /** Reads the instructions and skills of a project in their current state. Runs that start together share a read. */
  instructions(projectDir: string): Promise<ProjectInstructions> {
    return this.#instructionReads.get(projectDir);
  }

  async #readInstructions(projectDir: string): Promise<ProjectInstructions> {
    const home = this.#home;
    const repository = await this.#findRepository(projectDir);
    const [user, project, skills] = await Promise.all([
      home === undefined ? undefined : this.#instructions.readUserInstructions(home),
      repository ? this.#instructions.readProjectInstructions(repository) : [],
      this.#skills.readSkills(repository, home),
    ]);
    return { user, project, skills };
  }

  /** Reads the instructions between the project folder (exclusive) and `folder`, the outermost first. */
  async below(projectDir: string, folder: string): Promise<InstructionFile[]> {
    const repository = await this.#findRepository(projectDir);
    return repository ? this.#instructions.readInstructionsBelow(projectDir, folder, repository.owners) : [];
  }

  /** Describes the current environment of a project. Git state and tree may be up to 10 s old. */
  async environment(projectDir: string): Promise<Environment> {
    const nowMs = Date.now();
    const cachedEntry = this.#environmentsByFolder.get(projectDir);
    const environment =
      cachedEntry && cachedEntry.expiresAtMs > nowMs ? cachedEntry.environment : this.#readEnvironment(projectDir);
    if (environment !== cachedEntry?.environment)
      this.#cacheEnvironment(projectDir, { expiresAtMs: nowMs + ENVIRONMENT_CACHE_MS, environment });
    return { day: formatToday(), folder: projectDir, ...(await environment) };
  }

  #cacheEnvironment(
    folder: string,
    entry: { expiresAtMs: number; environment: Promise<Omit<Environment, "day" | "folder">> },
  ): void {
    this.#environmentsByFolder.delete(folder);
    const [oldestFolder] = this.#environmentsByFolder.keys();
    if (this.#environmentsByFolder.size >= MAX_CACHED_FOLDERS && oldestFolder !== undefined)
      this.#environmentsByFolder.delete(oldestFolder);
    this.#environmentsByFolder.set(folder, entry);
  }

  async #readEnvironment(projectDir: string): Promise<Omit<Environment, "day" | "folder">> {
    const repository = await this.#findRepository(projectDir);
    if (!repository) return { git: "", tree: "" };
    const { root, hasGit } = repository;
    const [git, tree] = await Promise.all([
      hasGit ? describeGitHead(root, this.#deniedPaths) : "",
      readTreeTop(repository.folders.at(-1) ?? root, this.#deniedPaths, this.#treeTimeoutMs),
    ]);
    return { git, tree };
  }

  /** Undefined if `projectInstructions` is false or the folder cannot be read. */
  async #findRepository(projectDir: string): Promise<Repository | undefined> {
    return this.#readsRepository ? repositoryOf(projectDir).catch(() => undefined) : undefined;
  }
}

/**
 * Returns the local date for the environment description. Only the day, so that the prompt prefix stays the same for
 * the prompt cache.
 */
export function formatToday(now = new Date()): string {
  const padToTwo = (number: number) => String(number).padStart(2, "0");
  return `${now.getFullYear()}-${padToTwo(now.getMonth() + 1)}-${padToTwo(now.getDate())}`;
}

/** Parses a stored environment. Undefined if the value is invalid. */
export function parseEnvironment(value: unknown): Environment | undefined {
  if (!isRecord(value)) return undefined;
  const { day, folder, git, tree } = value;
  const isValid =
    typeof day === "string" &&
    /^\d{4}-\d\d-\d\d$/.test(day) &&
    isText(folder, MAX_CHARACTERS_BY_FIELD.folder) &&
    isText(git, MAX_CHARACTERS_BY_FIELD.git) &&
    isText(tree, MAX_CHARACTERS_BY_FIELD.tree);
  return isValid ? { day, folder: folder as string, git: git as string, tree: tree as string } : undefined;
}

function isText(value: unknown, maxCharacters: number): value is string {
  return typeof value === "string" && value.length <= maxCharacters;
}
