import { join } from "node:path";
import type { OwnedPlace } from "../../files/owners.js";
import { repositoryOf } from "../../files/repository.js";
import { abortable, deadline } from "../../base/abort.js";
import { InputError } from "../../ports/errors.js";
import type { RunInput } from "../../ports/run.js";
import type { SlashCommand } from "../../ports/slash-command.js";
import { CommandFolder } from "./command-folder.js";
import { checkInput } from "../input/run-input.js";

/** For a command to say what it stands for, in ms: a server may have to be asked. */
const PROMPT_MS = 30_000;
/** Of one name. */
const LONGEST_NAME = 128;

/** Of what a command says, in characters. */
const LONGEST_TEXT = 8_388_608;

/** A command that the kernel does by itself: its prompt is no text. */
export const BUILT_IN: readonly Pick<SlashCommand, "name" | "description" | "hint" | "origin">[] = [
  {
    name: "compact",
    description: "Sum up what was said, so that the model sees less of it",
    hint: "what to keep",
    origin: "gantry",
  },
];

/** A command as lists show it. */
export type ListedCommand = Pick<SlashCommand, "name" | "description" | "hint" | "origin">;

/** Where an agent has commands from, beside those of its sources. */
export interface CommandOptions {
  /** An embedder's own. */
  readonly own: readonly SlashCommand[];
  /** Folders of whoever runs the agent; absolute paths. */
  readonly folders: readonly string[];
  /** Whether those of projects are used, from `.agents/commands`. */
  readonly ofProjects: boolean;
  /** Never read; absolute paths. */
  readonly denied: readonly string[];
  /** Is told which files of a project are left out. */
  readonly leftOut?: OwnedPlace["leftOut"];
}

/** Commands of tool sources, and the names of the sources, which no command of a project may use. */
export interface SourceCommands {
  readonly prompts: readonly SlashCommand[];
  /** `mcp:issues` reserves `/issues:...`, also while that server is not open. */
  readonly sources: readonly { readonly name: string }[];
}

/**
 * The commands that `/name words` can call. If two commands share a name, the first in this order wins: built in, of the
 * embedder, of the user, of tool sources, of the project.
 */
export class Commands {
  readonly #options: CommandOptions;

  constructor(options: CommandOptions) {
    this.#options = options;
  }

  /** All of a project. Never rejects. */
  async list(projectDir: string, { prompts, sources }: SourceCommands): Promise<ListedCommand[]> {
    const { own } = this.#options;
    const { users, project } = await this.#folders(projectDir);
    const [ofUsers, ofProject = []] = await Promise.all([
      Promise.all(users.map((folder) => folder.list())),
      project?.list(),
    ]);
    const free = ofProject.filter(({ name }) => !isReserved(name, sources));
    const all = new Map<string, ListedCommand>();
    for (const { name, description, hint, origin } of [...BUILT_IN, ...own, ...ofUsers.flat(), ...prompts, ...free])
      if (!all.has(name)) all.set(name, { name, description, hint, origin });
    return [...all.values()];
  }

  /**
   * The input with what its message stands for, where that is a command; `typed` is what was typed then. The input itself
   * where it is none. Rejects with `InputError` where the command cannot be done.
   */
  async spoken(
    input: RunInput,
    projectDir: string,
    offered: SourceCommands,
    signal: AbortSignal,
  ): Promise<SpokenInput> {
    const { name, words } = commandIn(input.message);
    if (name === undefined) return input;
    if (name === "compact") {
      const compacting: RunInput = { ...input, message: words, compact: true };
      checkInput(compacting);
      return compacting;
    }
    const command = await this.#named(name, projectDir, offered);
    if (!command) return input;
    const { text, parts = [] } = await said(command, words, signal);
    if (text.length > LONGEST_TEXT)
      throw new InputError(
        "commands",
        `a command that says at most ${LONGEST_TEXT} characters, and /${name} says more`,
      );
    if (text.trim() === "" && parts.length === 0)
      throw new InputError("commands", `a command that says something, and /${name} is empty`);
    return { ...input, message: text, attachments: [...parts, ...(input.attachments ?? [])], typed: input.message };
  }

  async #named(
    name: string,
    projectDir: string,
    { prompts, sources }: SourceCommands,
  ): Promise<SlashCommand | undefined> {
    const own = this.#options.own.find((one) => one.name === name);
    if (own) return own;
    const { users, project } = await this.#folders(projectDir);
    for (const folder of users) {
      const found = await folder.named(name);
      if (found) return found;
    }
    return prompts.find((one) => one.name === name) ?? (isReserved(name, sources) ? undefined : project?.named(name));
  }

  async #folders(projectDir: string): Promise<{ users: CommandFolder[]; project?: CommandFolder }> {
    const { folders, ofProjects, denied, leftOut } = this.#options;
    const users = folders.map(
      (folder) => new CommandFolder({ folder, root: folder, denied: [], origin: (way) => `commands/${way}` }),
    );
    const repository = ofProjects ? await repositoryOf(projectDir).catch(() => undefined) : undefined;
    if (!repository) return { users };
    const project = new CommandFolder({
      folder: join(projectDir, ".agents", "commands"),
      root: projectDir,
      owners: repository.owners,
      leftOut,
      denied,
      origin: (way) => `.agents/commands/${way}`,
    });
    return { users, project };
  }
}

/** What a run is asked, when its commands were looked up. */
export interface SpokenInput extends RunInput {
  /** What a person typed, where the message is what that stands for. */
  typed?: string;
}

function isReserved(command: string, sources: SourceCommands["sources"]): boolean {
  return sources.some(({ name }) => name.startsWith("mcp:") && command.startsWith(`${name.slice(4)}:`));
}

/** The name behind the slash that a message begins with, and what comes behind it. */
function commandIn(message: string): { name: string | undefined; words: string } {
  const [, name, words = ""] = /^\/(\S+)(?:\s+([^]*))?$/.exec(message.trim()) ?? [];
  return { name: name !== undefined && name.length <= LONGEST_NAME ? name : undefined, words: words.trim() };
}

/** What the command says; what goes wrong is told as what it is, for there is no run yet that could fail. */
async function said(command: SlashCommand, words: string, signal: AbortSignal) {
  const time = deadline(PROMPT_MS, signal);
  try {
    return await abortable(command.prompt(words, time.signal), time.signal);
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof InputError) throw error;
    const why = time.expired ? `no answer within ${PROMPT_MS / 1000} s` : (error as Error).message;
    throw new InputError("commands", `a command that can be done, and /${command.name} cannot: ${why}`);
  } finally {
    time.clear();
  }
}
