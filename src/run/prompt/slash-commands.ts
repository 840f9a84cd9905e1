import { join } from "node:path";
import type { OwnedPath } from "../../files/owners.js";
import { repositoryOf } from "../../files/repository.js";
import { abortable, createDeadline } from "../../base/abort.js";
import { InputError } from "../../ports/errors.js";
import type { RunInput } from "../../ports/run.js";
import type { SlashCommand } from "../../ports/slash-command.js";
import { CommandFolder } from "./command-folder.js";
import { checkInput } from "../input/run-input.js";

/** Time limit for generating the prompt of a command, in ms. An MCP server may have to answer. */
const PROMPT_TIMEOUT_MS = 30_000;
/** Maximum characters of a command name. */
const MAX_NAME_CHARACTERS = 128;

/** Maximum characters of the prompt of a command. */
const MAX_PROMPT_CHARACTERS = 8_388_608;

/** Commands that gantry executes itself; they have no prompt text. */
export const BUILT_IN_COMMANDS: readonly Pick<SlashCommand, "name" | "description" | "hint" | "origin">[] = [
  {
    name: "compact",
    description: "Summarize the conversation to free space in the context window",
    hint: "what to keep",
    origin: "gantry",
  },
];

/** A command as shown in lists. */
export type ListedCommand = Pick<SlashCommand, "name" | "description" | "hint" | "origin">;

/** Origins of an agent's commands, besides its tool sources. */
export interface CommandOptions {
  /** Commands of the embedding program. */
  readonly agentCommands: readonly SlashCommand[];
  /** Absolute paths of the operator's command folders. */
  readonly folders: readonly string[];
  /** Whether commands of projects are used, from `.agents/commands`. */
  readonly usesProjectCommands: boolean;
  /** Absolute paths that are never read. */
  readonly deniedPaths: readonly string[];
  /** Called with the path and the reason for each command file that is skipped because of its owner. */
  readonly onSkipped?: OwnedPath["onSkipped"];
}

/**
 * Commands of tool sources, and the sources themselves. The server name of an MCP source is a reserved prefix: project
 * commands with this prefix are ignored.
 */
export interface SourceCommands {
  readonly prompts: readonly SlashCommand[];
  /** `mcp:issues` reserves `/issues:...`, also while that server is not open. */
  readonly sources: readonly { readonly name: string }[];
}

/**
 * The commands that `/name arguments` can call. If two commands share a name, the first in this order wins: built-in
 * commands, then those of the embedding program, of the operator's folders, of tool sources, of the project.
 */
export class Commands {
  readonly #options: CommandOptions;

  constructor(options: CommandOptions) {
    this.#options = options;
  }

  /** Lists all commands for a project folder. Never rejects. */
  async list(projectDir: string, { prompts, sources }: SourceCommands): Promise<ListedCommand[]> {
    const { agentCommands } = this.#options;
    const { operatorFolders, projectFolder } = await this.#openFolders(projectDir);
    const [operatorCommands, projectCommands = []] = await Promise.all([
      Promise.all(operatorFolders.map((folder) => folder.list())),
      projectFolder?.list(),
    ]);
    const allowedCommands = projectCommands.filter(({ name }) => !isReserved(name, sources));
    const commandsByName = new Map<string, ListedCommand>();
    for (const { name, description, hint, origin } of [
      ...BUILT_IN_COMMANDS,
      ...agentCommands,
      ...operatorCommands.flat(),
      ...prompts,
      ...allowedCommands,
    ])
      if (!commandsByName.has(name)) commandsByName.set(name, { name, description, hint, origin });
    return [...commandsByName.values()];
  }

  /**
   * Replaces a command in the message by its prompt; `originalText` is then the typed text. Returns the input itself if
   * the message is not a known command. Rejects with `InputError` if the command fails.
   */
  async expand(
    input: RunInput,
    projectDir: string,
    sourceCommands: SourceCommands,
    signal: AbortSignal,
  ): Promise<ExpandedInput> {
    const { name, argumentText } = parseCommand(input.message);
    if (name === undefined) return input;
    if (name === "compact") {
      const compactInput: RunInput = { ...input, message: argumentText, compact: true };
      checkInput(compactInput);
      return compactInput;
    }
    const command = await this.#find(name, projectDir, sourceCommands);
    if (!command) return input;
    const { text, parts = [] } = await generatePrompt(command, argumentText, signal);
    if (text.length > MAX_PROMPT_CHARACTERS)
      throw new InputError(
        "commands",
        `a command with a prompt of at most ${MAX_PROMPT_CHARACTERS} characters; /${name} has more`,
      );
    if (text.trim() === "" && parts.length === 0)
      throw new InputError("commands", `a command with a prompt; /${name} is empty`);
    return {
      ...input,
      message: text,
      attachments: [...parts, ...(input.attachments ?? [])],
      originalText: input.message,
    };
  }

  async #find(
    name: string,
    projectDir: string,
    { prompts, sources }: SourceCommands,
  ): Promise<SlashCommand | undefined> {
    const agentCommand = this.#options.agentCommands.find((command) => command.name === name);
    if (agentCommand) return agentCommand;
    const { operatorFolders, projectFolder } = await this.#openFolders(projectDir);
    for (const folder of operatorFolders) {
      const folderCommand = await folder.find(name);
      if (folderCommand) return folderCommand;
    }
    return (
      prompts.find((prompt) => prompt.name === name) ??
      (isReserved(name, sources) ? undefined : projectFolder?.find(name))
    );
  }

  async #openFolders(projectDir: string): Promise<{ operatorFolders: CommandFolder[]; projectFolder?: CommandFolder }> {
    const { folders, usesProjectCommands, deniedPaths, onSkipped } = this.#options;
    const operatorFolders = folders.map(
      (folder) =>
        new CommandFolder({
          folder,
          root: folder,
          denied: [],
          formatOrigin: (relativePath) => `commands/${relativePath}`,
        }),
    );
    const repository = usesProjectCommands ? await repositoryOf(projectDir).catch(() => undefined) : undefined;
    if (!repository) return { operatorFolders };
    const projectFolder = new CommandFolder({
      folder: join(projectDir, ".agents", "commands"),
      root: projectDir,
      owners: repository.owners,
      onSkipped,
      denied: deniedPaths,
      formatOrigin: (relativePath) => `.agents/commands/${relativePath}`,
    });
    return { operatorFolders, projectFolder };
  }
}

/** The input of a run after its command was expanded. */
export interface ExpandedInput extends RunInput {
  /** The typed text, if the message is the prompt of a command. */
  originalText?: string;
}

function isReserved(command: string, sources: SourceCommands["sources"]): boolean {
  return sources.some(({ name }) => name.startsWith("mcp:") && command.startsWith(`${name.slice("mcp:".length)}:`));
}

/** Parses the command in a message: the name after the leading slash, and the text after the name. */
function parseCommand(message: string): { name: string | undefined; argumentText: string } {
  const [, name, rawArguments = ""] = /^\/(\S+)(?:\s+([^]*))?$/.exec(message.trim()) ?? [];
  return {
    name: name !== undefined && name.length <= MAX_NAME_CHARACTERS ? name : undefined,
    argumentText: rawArguments.trim(),
  };
}

/**
 * Generates the prompt of a command. Errors become `InputError`, because no run exists yet that could fail. An abort of
 * `signal` rejects with its reason.
 */
async function generatePrompt(command: SlashCommand, argumentText: string, signal: AbortSignal) {
  const timeLimit = createDeadline(PROMPT_TIMEOUT_MS, signal);
  try {
    return await abortable(command.prompt(argumentText, timeLimit.signal), timeLimit.signal);
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof InputError) throw error;
    const reason = timeLimit.hasExpired ? `no answer within ${PROMPT_TIMEOUT_MS / 1000} s` : (error as Error).message;
    throw new InputError("commands", `a command that works; /${command.name} failed: ${reason}`);
  } finally {
    timeLimit.clear();
  }
}
