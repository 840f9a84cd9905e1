import type { Agent, RunRecord, RunState } from "gantry";

export const ACTIVE_STATES: readonly RunState[] = ["running", "waiting"];

/** The running or waiting run of a session; undefined if the session has no such run. */
export async function findActiveRun(agent: Agent, sessionId: string): Promise<RunRecord | undefined> {
  const [run] = await agent.runs.list({ sessionId, states: ACTIVE_STATES, limit: 1 });
  return run;
}
