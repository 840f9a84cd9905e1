import assert from "node:assert/strict";
import { it } from "node:test";
import { builtinTools } from "gantry";
import { callTool, createToolContext } from "../../../helpers/tool-context.js";

it("todowrite and todoread keep a separate list for each session", async () => {
  const tools = new Map(builtinTools().map((tool) => [tool.name, tool] as const));
  const [firstContext, secondContext] = [createToolContext("/"), createToolContext("/")];
  const todos = [
    { content: "read", status: "completed" },
    { content: "write", status: "in_progress", priority: "high" },
    { content: "test", status: "pending" },
  ];
  const writeResult = await callTool(tools.get("todowrite")!, { todos: JSON.stringify(todos) }, firstContext);
  assert.equal(writeResult.text, "[x] read\n[>] write\n[ ] test");
  assert.equal((await callTool(tools.get("todoread")!, {}, firstContext)).text, writeResult.text);
  assert.equal((await callTool(tools.get("todoread")!, {}, secondContext)).text, "The list is empty.");
  assert.equal(
    tools.get("todowrite")!.describe(tools.get("todowrite")!.parse({ todos }), "/").title,
    "Update todos (1/3 done)",
  );
  assert.throws(
    () => tools.get("todowrite")!.parse({ todos: [{ content: "x", status: "doing" }] }),
    /todos\[0\].status: expected one of "pending", "in_progress", "completed", "cancelled", got "doing"/,
  );
});
