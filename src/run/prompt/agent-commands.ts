import type { RunInput } from "../../ports/run.js";
import type { SlashCommand } from "../../ports/slash-command.js";
import { found } from "../../sessions/require-session.js";
import { Commands, type CommandOptions, type ListedCommand, type SpokenInput } from "./slash-commands.js";
import { withServers } from "../input/run-input.js";
import { attachedBytes, type RunPlace } from "../budget/concurrency.js";
import type { AgentTools } from "../tools/agent-tools.js";
import type { ToolSources } from "../tools/sources.js";
import type { SessionDriver } from "../../ports/session-driver.js";
import type { ToolServers } from "../../ports/mcp-server.js";

/** The services of an agent that find its commands. */
interface CommandServices {
  readonly store: () => Promise<SessionDriver>;
  /** Absolute path of the folder of sessions that name none. */
  readonly projectDir: string;
  readonly tools: AgentTools;
  readonly sources: ToolSources;
  readonly toolServers: ToolServers | undefined;
  readonly commands: CommandOptions;
}

/** The query of `Agent.commands`. */
export interface CommandQuery {
  /** Any id of a session: its folder, and what its sources have open. */
  sessionId?: string | undefined;
  /** Absolute path of a folder in place of the session's, or the agent's. */
  projectDir?: string | undefined;
  /** Servers that whoever asks brings along with its runs: of others' nothing is told. */
  servers?: RunInput["servers"] | undefined;
}

/** Rejects with `SessionNotFoundError`, `StoreError`, or `InputError` for servers that may not be had. */
export async function commandsOf(
  agent: CommandServices,
  { sessionId, projectDir, servers = [] }: CommandQuery,
): Promise<ListedCommand[]> {
  const session = sessionId === undefined ? undefined : await found(await agent.store(), sessionId);
  const folder = projectDir ?? session?.projectDir ?? agent.projectDir;
  const { sources } = withServers(agent.tools.list, agent, { servers });
  const prompts = session ? agent.sources.prompts({ sessionId: session.chain.root, projectDir: folder }, sources) : [];
  return new Commands(agent.commands).list(folder, { prompts, sources });
}

/** A run's input with what its command stands for. The run has opened its sources. Rejects with `InputError` or `TooManyRunsError`. */
export async function spoken(
  agent: CommandServices,
  input: RunInput,
  { projectDir, prompts }: { projectDir: string; prompts: readonly SlashCommand[] },
  place: RunPlace,
  signal: AbortSignal,
): Promise<SpokenInput> {
  const { sources } = withServers(agent.tools.list, agent, input);
  const asked = await new Commands(agent.commands).spoken(input, projectDir, { prompts, sources }, signal);
  place.reserve(attachedBytes(asked) - attachedBytes(input));
  return asked;
}
