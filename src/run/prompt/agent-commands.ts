import type { RunInput } from "../../ports/run.js";
import type { SlashCommand } from "../../ports/slash-command.js";
import { requireSession } from "../../sessions/require-session.js";
import { Commands, type CommandOptions, type ListedCommand, type ExpandedInput } from "./slash-commands.js";
import { withMcpServers } from "../input/run-input.js";
import { countAttachedBytes, type RunSlot } from "../budget/run-limiter.js";
import type { AgentTools } from "../tools/agent-tools.js";
import type { ToolSources } from "../tools/tool-sources.js";
import type { SessionDriver } from "../../ports/session-driver.js";
import type { McpServerFactory } from "../../ports/mcp-server.js";

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

/** Lists the commands. Rejects with `SessionNotFoundError`, `StoreError`, or `InputError` for invalid servers. */
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
  return new Commands(agent.commands).list(folder, { prompts, sources });
}

/**
 * Replaces a command in a run's input by its prompt. The run's sources must be open. Rejects with `InputError` or
 * `TooManyRunsError`.
 */
export async function expandCommand(
  agent: CommandServices,
  input: RunInput,
  { projectDir, prompts }: { projectDir: string; prompts: readonly SlashCommand[] },
  slot: RunSlot,
  signal: AbortSignal,
): Promise<ExpandedInput> {
  const { sources } = withMcpServers(agent.tools.agentTools.list, agent.tools, input);
  const expandedInput = await new Commands(agent.commands).expand(input, projectDir, { prompts, sources }, signal);
  slot.reserveBytes(countAttachedBytes(expandedInput) - countAttachedBytes(input));
  return expandedInput;
}
