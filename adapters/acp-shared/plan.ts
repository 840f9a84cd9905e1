import { isRecord } from "gantry";
import { visible } from "./visible.js";
import type { PlanEntry, SessionUpdate } from "./wire.js";

/** The tool that keeps the list of things to do. */
const TOOL = "todowrite";
const STATUSES: ReadonlySet<string> = new Set(["pending", "in_progress", "completed"]);

/** The plan that a call of a tool set; undefined for any other tool. Todos that were given up are no part of it. */
export function planOf(name: string, input: unknown): SessionUpdate | undefined {
  if (name !== TOOL || !isRecord(input) || !Array.isArray(input.todos)) return undefined;
  const entries = input.todos.flatMap((todo: unknown): PlanEntry[] => {
    if (!isRecord(todo) || typeof todo.content !== "string" || typeof todo.status !== "string") return [];
    if (!STATUSES.has(todo.status)) return [];
    return [{ content: visible(todo.content), priority: "medium", status: todo.status as PlanEntry["status"] }];
  });
  return { sessionUpdate: "plan", entries };
}
