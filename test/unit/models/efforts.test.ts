import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, type ReasoningEffort } from "gantry";
import { EFFORTS, nearestEffort, type Model } from "gantry/plugin";
import { ScriptedProvider, say } from "gantry/testing";
import { tempDir } from "../../helpers/temp-dir.js";
import { waitUntil } from "../../helpers/server-runs.js";

type Efforts = NonNullable<Model["efforts"]>;

const MODELS: Model[] = [{ id: "m", name: "M", ownedBy: "x", reasoning: true, efforts: ["low", "high"] }];

describe("the reasoning effort of a request", () => {
  it("is the requested effort if the model supports it, or if its efforts are unknown", () => {
    for (const effort of EFFORTS) {
      assert.equal(nearestEffort(effort, undefined), effort);
      assert.equal(nearestEffort(effort, ["minimal", "low", "medium", "high", "xhigh", "max"]), effort);
    }
  });

  it("is empty if the model has no efforts or no effort was requested", () => {
    for (const effort of EFFORTS) assert.equal(nearestEffort(effort, []), "");
    assert.equal(nearestEffort("", ["low"]), "");
  });

  it("is otherwise the nearest effort, or the effort closer to `high` if two efforts are equally near", () => {
    const cases: [requestedEffort: ReasoningEffort, modelEfforts: Efforts, expectedEffort: ReasoningEffort][] = [
      ["max", ["low", "medium", "high"], "high"],
      ["xhigh", ["low", "medium", "high"], "high"],
      ["minimal", ["low", "medium", "high"], "low"],
      ["medium", ["low", "high", "max"], "high"],
      ["xhigh", ["low", "medium", "high", "max"], "high"],
      ["minimal", ["high"], "high"],
      ["low", ["minimal", "high"], "minimal"],
    ];
    for (const [requestedEffort, modelEfforts, expectedEffort] of cases)
      assert.equal(
        nearestEffort(requestedEffort, modelEfforts),
        expectedEffort,
        `${requestedEffort} of ${modelEfforts.join()}`,
      );
  });

  it("is the nearest effort, with a log line, while the session stores the requested effort", async (t) => {
    const folder = await tempDir(t);
    const provider = new ScriptedProvider([say("1"), say("2")], { models: MODELS });
    const logLines: string[] = [];
    const addLine = (message: string, fields?: object): void =>
      void logLines.push(`${message} ${JSON.stringify(fields)}`);
    const logger = { debug: () => undefined, info: addLine, warn: () => undefined, error: () => undefined };
    const agent = new Agent({ providers: [provider], tools: [], projectDir: folder.path, logger });
    t.after(() => agent.close());
    const run = await agent.run({ message: "hi", reasoningEffort: "max" });
    await run.result;
    assert.equal(provider.requests.find(({ needsReasoning }) => needsReasoning !== false)?.effort, "high");
    assert.equal((await agent.sessions.get(run.sessionId))?.reasoningEffort, "max");
    assert.match(logLines.join("\n"), /model does not support the reasoning effort.*"requested":"max","effort":"high"/);
    logLines.length = 0;
    await (
      await agent.run({ message: "again", sessionId: run.sessionId, reasoningEffort: "low" })
    ).result;
    assert.equal(provider.requests.at(-1)?.effort, "low");
    assert.doesNotMatch(logLines.join("\n"), /model does not support the reasoning effort/);
  });

  it("is `low` and without reasoning for a title request", async (t) => {
    const folder = await tempDir(t);
    const provider = new ScriptedProvider([say("1")], { models: MODELS });
    const agent = new Agent({ providers: [provider], tools: [], projectDir: folder.path });
    t.after(() => agent.close());
    await (
      await agent.run({ message: "hi", reasoningEffort: "high" })
    ).result;
    await waitUntil(() => provider.titleRequests.length > 0);
    assert.deepEqual(
      provider.titleRequests.map(({ effort, needsReasoning }) => [effort, needsReasoning]),
      [["low", false]],
    );
    assert.equal(
      provider.requests[0]?.needsReasoning,
      undefined,
      "the request of an answer does not set needsReasoning",
    );
  });
});
