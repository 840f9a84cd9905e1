import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { Agent, type RunInput } from "gantry";
import { McpServers, type ServerUse } from "gantry/adapters/mcp-tools";
import { callTools, say, ScriptedProvider, type ScriptedStep } from "gantry/testing";
import { createFaultyStdioServer, PATH_ENV } from "../../helpers/mcp-servers.js";

/** Runs a prompt whose model calls the tool `sample`. Returns its result, and the prompts of models without tools. */
async function runSample(t: TestContext, use: ServerUse, ask: RunInput["ask"], ...answers: readonly ScriptedStep[]) {
  const provider = new ScriptedProvider([callTools(["hostile__sample", {}]), ...answers, say("done")]);
  const source = new McpServers({ env: PATH_ENV }).source(createFaultyStdioServer("kind"), use);
  const agent = new Agent({ providers: [provider], tools: [source] });
  t.after(() => agent.close());
  const result = await (await agent.run({ message: "go", ...(ask && { ask }) })).result;
  const prompts = provider.requests
    .filter(({ tools }) => tools.length === 0)
    .map(({ messages }) => JSON.stringify(messages.at(-1)?.parts));
  return { text: JSON.stringify(provider.requests.at(-1)?.messages.at(-1)?.parts), prompts, result };
}

describe("sampling by an MCP server", () => {
  it("gets an answer of the session's model after permission", async (t) => {
    const titles: string[] = [];
    const ask: RunInput["ask"] = ({ title }) => {
      titles.push(title);
      return Promise.resolve("allow");
    };
    const { text, prompts, result } = await runSample(t, { sampling: true }, ask, say("42"));
    assert.match(text, /model.*gantry.*role.*assistant.*content.*text.*42/);
    assert.deepEqual(titles.slice(1), ["hostile asks the model: Answer briefly. What is 6 x 7?"]);
    assert.match(prompts.join("\n"), /Answer briefly\.\\n\\nWhat is 6 x 7\?/);
    assert.equal(result.output, "done");
  });

  it("is refused if the user does not permit it", async (t) => {
    const ask: RunInput["ask"] = ({ title }) => Promise.resolve(/asks the model/.test(title) ? "reject" : "allow");
    const { text } = await runSample(t, { sampling: true }, ask);
    assert.match(text, /the user did not permit this request/);
  });

  it("is not offered without the option", async (t) => {
    const { text } = await runSample(t, {}, () => Promise.resolve("allow"));
    assert.match(text, /-32601/);
  });
});
