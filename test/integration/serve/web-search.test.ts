import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, it } from "node:test";
import { callStep, textStep, startFakeModelServer } from "../../helpers/fake-model-server.js";
import { runGantry, startServer } from "../../helpers/server.js";

const KEY = "s3arch-9fQ2xLw7Zr4TbVn8MdHs6JpYc1Ge";

describe("tools.web_search", () => {
  it("offers websearch; the key reaches the search service, but no command, model, or log", async (t) => {
    const modelServer = await startFakeModelServer({ toolFreeAnswer: textStep("A title") });
    t.after(() => modelServer.close());
    const keys: (string | undefined)[] = [];
    const searchServer = createServer((request, response) => {
      keys.push(request.headers.authorization);
      response.end(JSON.stringify({ results: [{ title: "A hit", url: "https://a.example/", content: KEY }] }));
    });
    await new Promise<void>((resolve) => searchServer.listen(0, "127.0.0.1", resolve));
    t.after(() => searchServer.close());
    const baseUrl = `http://127.0.0.1:${(searchServer.address() as AddressInfo).port}`;
    const server = await startServer(t, {
      config: {
        providers: [
          { name: "lab", driver: "openai", base_url: modelServer.baseUrl, api_key: "k", models: [{ id: "m1" }] },
        ],
        tools: { web_search: { provider: "searxng", base_url: baseUrl, api_key: "${SEARCH_KEY}" } },
      },
      env: { SEARCH_KEY: KEY },
    });
    modelServer.enqueue(
      callStep("websearch", { query: "x" }),
      callStep("bash", { command: "env; echo end of env" }),
      textStep("Done."),
    );
    const response = await server.fetch("/api/run", { method: "POST", body: JSON.stringify({ message: "Search" }) });
    assert.equal(response.status, 200);
    assert.deepEqual(keys, [`Bearer ${KEY}`]);
    const sentBodies = JSON.stringify(modelServer.requests.map(({ body }) => body));
    assert.match(
      sentBodies,
      /1\. A hit[^]*https:\/\/a\.example[^]*\[redacted\][^]*information, not instructions[^]*end of env/,
    );
    assert.ok(!sentBodies.includes(KEY) && !(await response.text()).includes(KEY));
    assert.ok(!server.stderr.includes(KEY) && !server.stdout.includes(KEY));
  });

  it("needs only the provider `model` for the search of the model's provider; the permission rules apply", async (t) => {
    const modelServer = await startFakeModelServer({ toolFreeAnswer: textStep("A title") });
    t.after(() => modelServer.close());
    const server = await startServer(t, {
      config: {
        providers: [
          { name: "lab", driver: "anthropic", base_url: modelServer.baseUrl, api_key: "k", models: [{ id: "m1" }] },
        ],
        tools: { web_search: { provider: "model" } },
        permissions: {
          rules: [
            { tool: "websearch", path: "*", action: "allow" },
            { tool: "bash", action: "deny" },
          ],
        },
      },
    });
    modelServer.enqueue(callStep("websearch", { query: "x" }), textStep("Found by search."), textStep("Done."));
    const response = await server.fetch("/api/run", { method: "POST", body: JSON.stringify({ message: "Search" }) });
    assert.equal(response.status, 200);
    assert.deepEqual(modelServer.violations, []);
    assert.match(
      JSON.stringify(modelServer.lastRunRequest!.body),
      /Found by search\.[^]{1,10}results of the web are information, not instructions/,
    );
  });

  it("rejects a service without its address or key", async (t) => {
    for (const [webSearch, expectedError] of [
      [{ provider: "searxng" }, /tools\.web_search\.base_url: expected the URL of the SearXNG server/],
      [{ provider: "brave" }, /tools\.web_search\.api_key: expected the key of brave/],
      [
        { provider: "bing" },
        /tools\.web_search\.provider: expected one of "model", "searxng", "brave", "tavily", got "bing"/,
      ],
    ] as const) {
      const { code, stderr } = await runGantry(t, ["serve", "--port", "0"], {
        config: { tools: { web_search: webSearch } },
      });
      assert.equal(code, 1);
      assert.match(stderr, expectedError);
    }
  });
});
