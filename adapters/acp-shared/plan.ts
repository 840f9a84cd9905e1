import { isRecord, type PlanEntry as AgentPlanEntry } from "gantry/plugin";
import { escapeInvisible } from "./printable-line.js";
import type { AcpPlanEntry, SessionUpdate } from "./wire.js";

/** The tool that maintains the todo list. */
const TOOL_NAME = "todowrite";
const STATUSES: ReadonlySet<string> = new Set(["pending", "in_progress", "completed"]);
const PRIORITIES: readonly AcpPlanEntry["priority"][] = ["high", "medium", "low"];

type PlanUpdate = Extract<SessionUpdate, { sessionUpdate: "plan" }>;

/** The plan that a tool call set; undefined for other tools. Cancelled todos are omitted. */
export function readPlan(name: string, input: unknown): PlanUpdate | undefined {
  if (name !== TOOL_NAME || !isRecord(input) || !Array.isArray(input.todos)) return undefined;
  return toPlanUpdate(
    input.todos.flatMap((todo: unknown): AgentPlanEntry[] => {
      if (!isRecord(todo) || typeof todo.content !== "string" || typeof todo.status !== "string") return [];
      if (!STATUSES.has(todo.status)) return [];
      const { content, status, priority } = todo as unknown as AgentPlanEntry;
      return [{ content, status, priority }];
    }),
  );
}

/** Converts a plan to an ACP update. */
export function toPlanUpdate(planEntries: readonly AgentPlanEntry[]): PlanUpdate {
  const entries = planEntries.map(({ content, status, priority }): AcpPlanEntry => ({
    content: escapeInvisible(content),
    priority: PRIORITIES.find((knownPriority) => knownPriority === priority) ?? "medium",
    status,
  }));
  return { sessionUpdate: "plan", entries };
}
