import { isRecord, type PlanEntry as AgentPlanEntry } from "gantry/plugin";
import { escapeInvisible } from "./printable-line.js";
import type { AcpPlanEntry, SessionUpdate } from "./wire.js";

/** The tool that maintains the todo list. */
const TOOL_NAME = "todowrite";
const STATUSES: ReadonlySet<string> = new Set(["pending", "in_progress", "completed"]);

type PlanUpdate = Extract<SessionUpdate, { sessionUpdate: "plan" }>;

/** The plan that a tool call set; undefined for other tools. Cancelled todos are omitted. */
export function readPlan(name: string, input: unknown): PlanUpdate | undefined {
  if (name !== TOOL_NAME || !isRecord(input) || !Array.isArray(input.todos)) return undefined;
  return toPlanUpdate(
    input.todos.flatMap((todo: unknown): AgentPlanEntry[] => {
      if (!isRecord(todo) || typeof todo.content !== "string" || typeof todo.status !== "string") return [];
      if (!STATUSES.has(todo.status)) return [];
      return [{ content: todo.content, status: todo.status as AgentPlanEntry["status"] }];
    }),
  );
}

/** Converts a plan to an ACP update. */
export function toPlanUpdate(planEntries: readonly AgentPlanEntry[]): PlanUpdate {
  const entries = planEntries.map(({ content, status }): AcpPlanEntry => ({
    content: escapeInvisible(content),
    priority: "medium",
    status,
  }));
  return { sessionUpdate: "plan", entries };
}
