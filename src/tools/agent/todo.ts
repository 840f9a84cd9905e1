import { isRecord } from "../../base/json.js";
import type { Tool, ToolContext } from "../../ports/tool.js";
import type { PlanEntry } from "../../ports/watch.js";
import { defineArguments, hidden, list, object, text } from "../arguments.js";
import { defineTool } from "../define-tool.js";

/** Name of the tool that stores the todo list. */
export const PLAN_TOOL = "todowrite";

const STATE_KEY = "todos";
const STATUS_MARKS: Readonly<Record<string, string>> = {
  pending: "[ ]",
  in_progress: "[>]",
  completed: "[x]",
  cancelled: "[-]",
};

interface Todo {
  content: string;
  status: string;
}

const schema = defineArguments({
  todos: list(
    "",
    object(
      {
        content: text("", { minLength: 1 }),
        status: text("", { oneOf: Object.keys(STATUS_MARKS) }),
        // Models that know opencode's `todowrite` send it (opencode 1.18, tool/todo.ts). Clients show it.
        priority: hidden(text()),
      },
      { isSparse: true },
    ),
    { max: 100 },
  ),
});

/** Creates the tool `todowrite`, which stores the todo list of the session. */
export function todowriteTool(): Tool {
  return defineTool({
    name: PLAN_TOOL,
    description: "Replace the todo list. Send all steps, at most one as in_progress.",
    schema,
    kind: "think",
    describe: ({ todos }) => {
      const completedCount = todos.filter((todo) => todo.status === "completed").length;
      return `Update todos (${completedCount}/${todos.length} done)`;
    },
    run: ({ todos }, context) => {
      context.state.set(STATE_KEY, todos);
      return formatTodos(todos);
    },
  });
}

/**
 * Returns the todo list from the state of a session's tools, without cancelled entries. Undefined if no list was ever
 * stored.
 */
export function findStoredPlan(state: ReadonlyMap<string, unknown>): PlanEntry[] | undefined {
  const todos = state.get(STATE_KEY);
  if (!Array.isArray(todos)) return undefined;
  return (todos as unknown[]).flatMap((todo) => (isRecord(todo) ? (toPlanEntry(todo) ?? []) : []));
}

function toPlanEntry({ content, status, priority }: Record<string, unknown>): PlanEntry | undefined {
  const isEntry =
    typeof content === "string" && (status === "pending" || status === "in_progress" || status === "completed");
  return isEntry ? { content, status, ...(typeof priority === "string" && { priority }) } : undefined;
}

/** Creates the tool `todoread`, which shows the todo list of the session. */
export function todoreadTool(): Tool {
  return defineTool({
    name: "todoread",
    description: "Show the todo list.",
    schema: defineArguments({}),
    kind: "think",
    parallel: true,
    describe: () => "Read todos",
    run: (_, context) => formatTodos(readTodos(context)),
  });
}

function readTodos(context: ToolContext): readonly Todo[] {
  const todos = context.state.get(STATE_KEY);
  return Array.isArray(todos) ? (todos as Todo[]) : [];
}

function formatTodos(todos: readonly Todo[]): string {
  if (todos.length === 0) return "The list is empty.";
  return todos.map((todo) => `${STATUS_MARKS[todo.status] ?? "[ ]"} ${todo.content}`).join("\n");
}
