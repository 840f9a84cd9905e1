import assert from "node:assert/strict";
import { it } from "node:test";
import { Agent } from "gantry";
import { say, ScriptedProvider } from "gantry/testing";

it("an output schema whose pattern takes over 5 s fails the run with output_schema and keeps its messages", async (t) => {
  const provider = new ScriptedProvider([say(JSON.stringify(`${"a".repeat(40)}!`))]);
  const agent = new Agent({ providers: [provider], projectInstructions: false });
  t.after(() => agent.close());
  const run = await agent.run({ message: "x", outputSchema: { type: "string", pattern: "^(a+)+$" } });
  await assert.rejects(run.result, { code: "output_schema", message: /takes over 5 s/ });
  const messages = await agent.sessions.messages(run.sessionId);
  assert.deepEqual(
    messages.map(({ finished }) => finished),
    [true, true],
  );
});
