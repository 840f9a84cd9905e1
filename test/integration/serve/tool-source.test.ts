import assert from "node:assert/strict";
import { it } from "node:test";
import { runGantry, startServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp-dir.js";

/** Module of a model that calls the tool `where` once and sends the result as text. */
const providerModule = `
const usage = { inputTokens: 1, outputTokens: 1, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 };
export default {
  gantry: 1, kind: "model-provider", name: "caller", parse: (raw) => raw,
  create: () => ({
    name: "caller", idleTimeoutMs: 1000, maxRetries: 0, maxWaitMs: 60000, configuredModels: [{ id: "m", name: "M", ownedBy: "us" }],
    models: async () => [{ id: "m", name: "M", ownedBy: "us" }],
    async *stream({ messages, tools }) {
      const last = messages.at(-1);
      if (tools.length > 0 && last.role === "user") {
        yield { type: "tool_call", block: "0", id: "1", name: "where", arguments: "{}" };
        yield { type: "finish", reason: "tool_calls", usage };
      } else {
        yield { type: "text", block: "0", text: tools.map(({ name }) => name).join(",") + ": " + last.parts[0].text };
        yield { type: "finish", reason: "stop", usage };
      }
    },
    close: async () => undefined,
  }),
};`;

const sourceModule = `
export default {
  gantry: 1, kind: "tool-source", name: "places", parse: (raw) => raw,
  create: ({ name = "places", word }, { logger }) => ({
    name,
    async open({ projectDir }) {
      const tool = {
        name: "where", description: "Where.", inputSchema: { type: "object" }, kind: "read", parallel: true, needsPermission: false,
        parse: () => ({}), describe: () => ({ title: "Where", locations: [] }),
        run: async () => ({ text: word + " " + projectDir + " " + process.env.LAB_KEY }),
      };
      return { tools: [tool], close: async () => logger.info("places closed") };
    },
  }),
};`;

const config = {
  providers: [{ driver: "./caller.mjs" }],
  agent: { tools: ["read", { tool: "./places.mjs", word: "at" }] },
};
const files = { "caller.mjs": providerModule, "places.mjs": sourceModule };

it("a tool source in agent.tools provides its tool, has secrets redacted, and is closed with the server", async (t) => {
  const home = await tempDir(t, files);
  const key = "k3y-9fQ2xLw7Zr4TbVn8MdHs6JpYc1Ge";
  const server = await startServer(t, {
    home: home.path,
    config: { ...config, server: { required_headers: { "x-key": "${LAB_KEY}" } } },
    env: { LAB_KEY: key },
  });
  const response = await server.fetch("/api/run", {
    method: "POST",
    headers: { "x-key": key },
    body: '{"message":"hi"}',
  });
  const { output } = (await response.json()) as { output: string };
  assert.match(output, /^read,where: at \/\S+ \[redacted\]$/);
  await server.stop();
  assert.match(server.stderr, /places closed/);
});

it("two tool sources of one name are rejected at the start; gantry adapters lists the source", async (t) => {
  const home = await tempDir(t, {
    ...files,
    "config.json": JSON.stringify({ ...config, agent: { tools: ["./places.mjs", { tool: "./places.mjs" }] } }),
  });
  const options = { projectDir: home.path, from: "source" } as const;
  const rejectedRun = await runGantry(t, ["serve", "--config", home.at("config.json")], options);
  assert.equal(rejectedRun.code, 1);
  assert.match(rejectedRun.stderr, /config\.json: agent\.tools: expected sources of distinct names, got places twice/);
  const listRun = await runGantry(t, ["adapters", "--json", "--config", home.at("config.json")], options);
  const entries = JSON.parse(listRun.stdout) as { kind: string; name: string; selectedBy: string[] }[];
  assert.deepEqual(
    entries.filter(({ kind }) => kind === "tool-source").map(({ name, selectedBy }) => [name, selectedBy]),
    [["./places.mjs", ["agent.tools[0]", "agent.tools[1]"]]],
  );
});
