import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { it } from "node:test";
import { spawnAcpServer } from "../../helpers/acp-process.js";
import { callStep, textStep, startFakeModelServer, type FakeModelServer } from "../../helpers/fake-model-server.js";
import { parseSseEvents } from "../../helpers/raw-http.js";
import { startServer } from "../../helpers/server.js";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";

interface ToolEvent {
  type: string;
  tool_output?: string;
}

const COMMAND = "rm -rf build && ls";
const FILES = { "build/root.txt": "root", "packages/x/build/x.txt": "x" };

async function startModelServer(t: Hooks): Promise<{ modelServer: FakeModelServer; config: Record<string, unknown> }> {
  const modelServer = await startFakeModelServer({ toolFreeAnswer: textStep("A title") });
  t.after(() => modelServer.close());
  const provider = {
    name: "lab",
    driver: "openai",
    base_url: modelServer.baseUrl,
    api_key: "x",
    models: [{ id: "m1" }],
  };
  return { modelServer, config: { providers: [provider] } };
}

it("bash runs in workdir and rejects an unknown argument; read ignores an unknown argument and reports it", async (t) => {
  const { modelServer, config } = await startModelServer(t);
  const project = await tempDir(t, FILES);
  const server = await startServer(t, { config, projectDir: project.path });
  modelServer.enqueue(
    callStep("bash", { command: COMMAND, folder: "packages/x" }),
    callStep("bash", { command: COMMAND, workdir: "packages/x", description: "Remove the build" }),
    callStep("read", { path: "build/root.txt", encoding: "utf-8" }),
    textStep("Done."),
  );
  const response = await server.fetch("/api/run", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ message: "Remove the build of x.", stream: true }),
  });
  const events = parseSseEvents(await response.text()).map(({ data }) => data as ToolEvent);
  const outputs = events.filter(({ type }) => type === "tool_result").map(({ tool_output }) => tool_output ?? "");
  assert.match(
    outputs[0] ?? "",
    /^bash: unknown argument folder\. The call did not run\. Known arguments: command, workdir, timeout, background, detached\.$/,
  );
  assert.match(outputs[1] ?? "", /\[exit code 0\]/);
  assert.match(outputs[2] ?? "", /root\n[^]*\[unknown argument encoding was ignored\./);
  assert.deepEqual([existsSync(project.at("build")), existsSync(project.at("packages/x/build"))], [true, false]);
  assert.match(JSON.stringify(modelServer.lastRunRequest?.body), /unknown argument folder\. The call did not run/);
  assert.deepEqual(modelServer.violations, []);
});

it("an ACP client sees the workdir in the title of a command and in its permission request", async (t) => {
  const { modelServer, config } = await startModelServer(t);
  const project = await tempDir(t, FILES);
  const { peer } = await spawnAcpServer(t, {
    config: { ...config, permissions: { mode: "ask" } },
    projectDir: project.path,
  });
  await peer.initialize();
  const sessionId = await peer.newSession(project.path);
  const requestedTitles: unknown[] = [];
  peer.onRequest = (_method, params: { toolCall: { title: string } }) => {
    requestedTitles.push(params.toolCall.title);
    return { outcome: { outcome: "selected", optionId: "allow_once" } };
  };
  modelServer.enqueue(callStep("bash", { command: COMMAND, workdir: "packages/x" }), textStep("Done."));
  await peer.prompt(sessionId, "Remove the build of x.");
  const expectedTitle = `cd packages/x && ${COMMAND}`;
  assert.deepEqual(requestedTitles, [expectedTitle]);
  const updates = peer.getUpdates(sessionId) as { sessionUpdate: string; title?: string }[];
  assert.equal(updates.find(({ sessionUpdate }) => sessionUpdate === "tool_call")?.title, expectedTitle);
  assert.equal(existsSync(project.at("packages/x/build")), false);
});
