import type { Tool, ToolContext } from "../ports/tool.js";
import { defineArguments, list, object, text } from "./arguments.js";
import { defineTool } from "./define-tool.js";

const STATE = "todos";
const MARKS: Readonly<Record<string, string>> = {
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
    "The whole list; it takes the place of the one before.",
    object({
      content: text("What to do.", { minLength: 1 }),
      status: text("How far it is.", { oneOf: Object.keys(MARKS) }),
    }),
    { max: 100 },
  ),
});

/** Keeps the session's list of things to do. */
export function todowriteTool(): Tool {
  return defineTool({
    name: "todowrite",
    description:
      "Keep a list of the steps of a task that has several. Send the whole list each time something changes.",
    schema,
    kind: "think",
    describe: ({ todos }) => {
      const done = todos.filter((todo) => todo.status === "completed").length;
      return `Update todos (${done}/${todos.length} done)`;
    },
    run: ({ todos }, context) => {
      context.state.set(STATE, todos);
      return show(todos);
    },
  });
}

/** Shows the session's list of things to do. */
export function todoreadTool(): Tool {
  return defineTool({
    name: "todoread",
    description: "Show the todo list.",
    kind: "think",
    parallel: true,
    describe: () => "Read todos",
    run: (_, context) => show(kept(context)),
  });
}

function kept(context: ToolContext): readonly Todo[] {
  const todos = context.state.get(STATE);
  return Array.isArray(todos) ? (todos as Todo[]) : [];
}

function show(todos: readonly Todo[]): string {
  if (todos.length === 0) return "The list is empty.";
  return todos.map((todo) => `${MARKS[todo.status] ?? "[ ]"} ${todo.content}`).join("\n");
}
