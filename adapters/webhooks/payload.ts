import type { Ask, RunRecord } from "gantry";
import { roundCost } from "gantry/plugin";

/** Returns a run with the fields of `GET /api/runs/{id}`, without its answer. */
export function toRunData(run: RunRecord) {
  const { promptTokens, completionTokens, totalTokens, cost } = run.usage;
  return {
    id: run.id,
    session_id: run.sessionId,
    state: run.state,
    started_at: run.startedAt,
    ended_at: run.endedAt,
    provider: run.provider,
    model: run.model,
    usage: {
      prompt_tokens: promptTokens,
      completion_tokens: completionTokens,
      total_tokens: totalTokens,
      cost: roundCost(cost),
    },
    iterations: run.iterations,
    ended_by: run.endedBy,
    error: run.error,
  };
}

/** Returns a question with fields of `GET /api/asks/{id}`, without the texts and arguments of the call. */
export function toAskData(ask: Ask) {
  return {
    id: ask.id,
    session_id: ask.sessionId,
    run_id: ask.runId,
    tool_call_id: ask.callId,
    kind: ask.kind,
    tool: ask.tool,
    created_at: ask.createdAt,
    deadline: ask.deadline,
    state: ask.state,
    answered_by: ask.answeredBy,
    closed_at: ask.closedAt,
  };
}
