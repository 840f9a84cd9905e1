import { join } from "node:path";
import { abortable, createDeadline } from "../../base/abort.js";
import type { OwnedPath } from "../../files/owners.js";
import { repositoryOf } from "../../files/repository.js";
import { InputError } from "../../ports/errors.js";
import type { McpServerFactory } from "../../ports/mcp-server.js";
import type { RunInput } from "../../ports/run.js";
import type { SessionDriver } from "../../ports/session-driver.js";
import type { SlashCommand } from "../../ports/slash-command.js";
import { requireSession } from "../../sessions/require-session.js";
import { countAttachedBytes, type RunSlot } from "../budget/limits.js";
import { checkInput } from "../input/run-input.js";
import { withMcpServers } from "../input/input-checks.js";
import type { AgentTools, ToolSources } from "../tools/tool-sources.js";
import { CommandFolder } from "../../project/command-folder.js";

/** Time limit for generating the prompt of a command, in ms. An MCP server may have to answer. */
const PROMPT_TIMEOUT_MS = 30_000;
const MAX_NAME_CHARACTERS = 128;
const MAX_PROMPT_CHARACTERS = 8_388_608;

/** A command as shown in lists. */
export type ListedCommand = Pick<SlashCommand, "name" | "description" | "hint" | "origin">;

/** Commands that gantry executes itself; they have no prompt text. */
const BUILT_IN_COMMANDS: readonly ListedCommand[] = [
  {
    name: "compact",
    description: "Summarize the conversation to free space in the context window",
    hint: "what to keep",
    origin: "gantry",
  },
];

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

/** The agent's services that are needed to find its commands. */
interface CommandServices {
  readonly store: () => Promise<SessionDriver>;
  /** `projectDir`: absolute path of the agent's folder, the default for the query. */
  readonly defaults: { readonly projectDir: string };
  readonly tools: {
    readonly agentTools: AgentTools;
    readonly sources: ToolSources;
    readonly mcpServerFactory: McpServerFactory | undefined;
  };
  readonly commands: CommandOptions;
}

/** The query of `Agent.commands`. */
export interface CommandQuery {
  /** Any id of a session. The session's folder and open sources are used. Default: no session. */
  sessionId?: string | undefined;
  /** Absolute path of a folder. Default: the session's, or the agent's. */
  projectDir?: string | undefined;
  /** MCP servers of the caller's runs. Commands of other clients' servers are not listed. */
  servers?: RunInput["mcpServers"] | undefined;
}

/**
 * Lists the commands. If two commands share a name, the first in this order wins: built-in commands, then those of the
 * embedding program, of the operator's folders, of tool sources, of the project. Rejects with `SessionNotFoundError`,
 * `StoreError`, or `InputError` for invalid servers.
 */
export async function listCommands(
  agent: CommandServices,
  { sessionId, projectDir, servers = [] }: CommandQuery,
): Promise<ListedCommand[]> {
  const session = sessionId === undefined ? undefined : await requireSession(await agent.store(), sessionId);
  const folder = projectDir ?? session?.projectDir ?? agent.defaults.projectDir;
  const { sources } = withMcpServers(agent.tools.agentTools.list, agent.tools, { mcpServers: servers });
  const prompts = session
    ? agent.tools.sources.prompts({ sessionId: session.chain.root, projectDir: folder }, sources)
    : [];
  const operatorFolders = openOperatorFolders(agent.commands);
  const [operatorCommands, projectCommands] = await Promise.all([
    Promise.all(operatorFolders.map((operatorFolder) => operatorFolder.list())),
    openProjectFolder(agent.commands, folder).then((projectFolder) => projectFolder?.list() ?? []),
  ]);
  const commandsByName = new Map<string, ListedCommand>();
  for (const { name, description, hint, origin } of [
    ...BUILT_IN_COMMANDS,
    ...agent.commands.agentCommands,
    ...operatorCommands.flat(),
    ...prompts,
    ...projectCommands.filter((command) => !isReserved(command.name, sources)),
  ])
    if (!commandsByName.has(name)) commandsByName.set(name, { name, description, hint, origin });
  return [...commandsByName.values()];
}

/** The input of a run after its command was expanded. */
export interface ExpandedInput extends RunInput {
  /** The typed text, if the message is the prompt of a command. */
  originalText?: string;
}

/**
 * Replaces a command in a run's input by its prompt; `originalText` is then the typed text. Returns the input itself if
 * the message is not a known command. The run's sources must be open; `prompts` are their commands. Rejects with
 * `InputError` if the command fails, or with `TooManyRunsError`.
 */
export async function expandCommand(
  agent: CommandServices,
  input: RunInput,
  { projectDir, prompts }: { projectDir: string; prompts: readonly SlashCommand[] },
  slot: RunSlot,
  signal: AbortSignal,
): Promise<ExpandedInput> {
  const { name, argumentText } = parseCommand(input.message);
  if (name === undefined) return input;
  if (name === "compact") {
    const compactInput: RunInput = { ...input, message: argumentText, compact: true };
    checkInput(compactInput);
    return compactInput;
  }
  const { sources } = withMcpServers(agent.tools.agentTools.list, agent.tools, input);
  const command = await findCommand(agent.commands, name, projectDir, prompts, sources);
  if (!command) return input;
  const { text, parts = [] } = await generatePrompt(command, argumentText, signal);
  const createError = (expected: string) => new InputError("commands", `a command with a prompt${expected}`);
  if (text.length > MAX_PROMPT_CHARACTERS)
    throw createError(` of at most ${MAX_PROMPT_CHARACTERS} characters; /${name} has more`);
  if (text.trim() === "" && parts.length === 0) throw createError(`; /${name} is empty`);
  const { attachments = [] } = input;
  slot.reserveBytes(countAttachedBytes(parts));
  return { ...input, message: text, attachments: [...parts, ...attachments], originalText: input.message };
}

/** Finds a command that has a prompt, in the order of `listCommands`. */
async function findCommand(
  options: CommandOptions,
  name: string,
  projectDir: string,
  prompts: readonly SlashCommand[],
  sources: readonly { readonly name: string }[],
): Promise<SlashCommand | undefined> {
  const agentCommand = options.agentCommands.find((command) => command.name === name);
  if (agentCommand) return agentCommand;
  for (const folder of openOperatorFolders(options)) {
    const folderCommand = await folder.find(name);
    if (folderCommand) return folderCommand;
  }
  const prompt = prompts.find((candidate) => candidate.name === name);
  if (prompt || isReserved(name, sources)) return prompt;
  return (await openProjectFolder(options, projectDir))?.find(name);
}

function openOperatorFolders({ folders }: CommandOptions): CommandFolder[] {
  return folders.map(
    (folder) => new CommandFolder({ folder, root: folder, denied: [], formatOrigin: (path) => `commands/${path}` }),
  );
}

/** Opens the command folder of a project; undefined if it is not used, or if the project folder does not exist. */
async function openProjectFolder(
  { usesProjectCommands, deniedPaths, onSkipped }: CommandOptions,
  projectDir: string,
): Promise<CommandFolder | undefined> {
  const repository = usesProjectCommands ? await repositoryOf(projectDir).catch(() => undefined) : undefined;
  return (
    repository &&
    new CommandFolder({
      folder: join(projectDir, ".agents", "commands"),
      root: projectDir,
      owners: repository.owners,
      onSkipped,
      denied: deniedPaths,
      formatOrigin: (path) => `.agents/commands/${path}`,
    })
  );
}

/**
 * Whether a project must not define this command. The server name of an MCP source is a reserved prefix: `mcp:issues`
 * reserves `/issues:...`, also while that server is not open.
 */
function isReserved(command: string, sources: readonly { readonly name: string }[]): boolean {
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
