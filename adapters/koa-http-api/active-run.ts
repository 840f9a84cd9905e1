import type { Agent, RunRecord, RunState } from "gantry";

export const UNDER_WAY: readonly RunState[] = ["running", "waiting"];

/** The run that is under way in a session; undefined when there is none. */
export async function runOf(agent: Agent, sessionId: string): Promise<RunRecord | undefined> {
  const [run] = await agent.runs.list({ sessionId, states: UNDER_WAY, limit: 1 });
  return run;
}
