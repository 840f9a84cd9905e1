import type { RunInput } from "../ports/run.js";
import type { ToolSession } from "../ports/tool-source.js";
import { found } from "../sessions/sessions.js";
import { Commands, type ListedCommand, type SpokenInput } from "./commands.js";
import { attachedBytes, type RunPlace } from "./places.js";
import type { AgentParts } from "./run-context.js";

/** What is asked of `Agent.commands`. */
export interface CommandQuery {
  /** Any id of a session: its folder, and what its sources have open. */
  sessionId?: string | undefined;
  /** Absolute path of a folder in place of the session's, or the agent's. */
  projectDir?: string | undefined;
}

/** Rejects with `SessionNotFoundError` or `StoreError`. */
export async function commandsOf(agent: AgentParts, { sessionId, projectDir }: CommandQuery): Promise<ListedCommand[]> {
  const session = sessionId === undefined ? undefined : await found(await agent.store(), sessionId);
  const folder = projectDir ?? session?.projectDir ?? agent.projectDir;
  const prompts = session ? agent.sources.prompts(session.chain.root, folder) : [];
  return new Commands(agent.commands).list(folder, prompts);
}

/** A run's input with what its command stands for. The run has opened its sources. Rejects with `InputError` or `TooManyRunsError`. */
export async function spoken(
  agent: AgentParts,
  input: RunInput,
  { sessionId, projectDir }: ToolSession,
  place: RunPlace,
  signal: AbortSignal,
): Promise<SpokenInput> {
  const prompts = agent.sources.prompts(sessionId, projectDir);
  const asked = await new Commands(agent.commands).spoken(input, projectDir, prompts, signal);
  place.reserve(attachedBytes(asked) - attachedBytes(input));
  return asked;
}
