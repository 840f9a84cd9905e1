import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { describe, it } from "node:test";
import type { Json } from "../../helpers/acp-peer.js";
import { spawnAcpServer } from "../../helpers/acp-process.js";
import { callStep, textStep, startFakeModelServer, type FakeModelServer } from "../../helpers/fake-model-server.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { startServer } from "../../helpers/server.js";
import { HttpPeer } from "../../helpers/acp-http.js";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";

function createConfig(model: FakeModelServer, settings: Record<string, unknown> = {}): Record<string, unknown> {
  const modelEntry = { id: "m1", name: "M 1", context_window: 8000, max_output: 4000 };
  return {
    providers: [{ name: "lab", driver: "openai", base_url: model.baseUrl, api_key: "x", models: [modelEntry] }],
    ...settings,
  };
}

async function startModelServer(t: Hooks): Promise<FakeModelServer> {
  const model = await startFakeModelServer({ toolFreeAnswer: textStep("A title") });
  t.after(() => model.close());
  return model;
}

/** Returns the `ps` lines of the processes, except zombies, whose arguments contain `marker`. */
function findProcessLines(marker: string): string[] {
  const processLines = execFileSync("ps", ["-eo", "pid,stat,args"], { encoding: "utf8" }).split("\n");
  return processLines.filter((line) => line.includes(marker) && !/^\s*\d+\s+Z/.test(line));
}

describe("gantry serve --acp --stdio", () => {
  it("writes only protocol messages to stdout while a plugin prints, and exits with 0 on EOF", async (t) => {
    const model = await startModelServer(t);
    const plugin = await tempDir(t, {
      "noisy.mjs": `
        console.log("noise at import");
        export default { gantry: 1, kind: "tool", name: "noisy", parse: () => ({}), useClass: class {
          name = "noisy"; description = "noise"; inputSchema = { type: "object" }; kind = "other"; parallel = false; needsPermission = false;
          parse(input) { return input; }
          describe() { return { title: "Noise", locations: [] }; }
          async run() { console.log("stray"); console.info("stray"); process.stdout.write("stray\\n"); return { text: "done" }; }
        } };`,
    });
    model.enqueue(callStep("noisy", {}), textStep("All quiet."));
    const { gantry, peer } = await spawnAcpServer(t, {
      config: createConfig(model, { agent: { tools: ["*", plugin.at("noisy.mjs")] } }),
    });
    await peer.initialize();
    const session = await peer.newSession(gantry.projectDir);
    assert.deepEqual(await peer.prompt(session, "make noise"), { stopReason: "end_turn" });
    assert.equal(peer.getText(session), "All quiet.");
    gantry.child.stdin.end();
    assert.deepEqual(await gantry.exited, { code: 0, signal: null });
    assert.match(gantry.stderr, /noise at import/);
    assert.equal(gantry.stderr.match(/stray/g)?.length, 3);
    peer.assertNoValidationErrors();
  });

  it("sets --semi-space-growth-factor=1 after the first run, unlike the HTTP server", async (t) => {
    const model = await startModelServer(t);
    const { at } = await tempDir(t, {
      "flags.cjs": `
        const v8 = require("node:v8");
        const set = v8.setFlagsFromString;
        v8.setFlagsFromString = (flag) => { process.stderr.write("flag " + flag + "\\n"); set(flag); };`,
    });
    const env = { NODE_OPTIONS: `--require ${JSON.stringify(at("flags.cjs"))}` };
    const { gantry, peer } = await spawnAcpServer(t, { config: createConfig(model), env });
    await peer.initialize();
    const session = await peer.newSession(gantry.projectDir);
    assert.doesNotMatch(gantry.stderr, /flag --/);
    await peer.prompt(session, "hi");
    await gantry.waitForOutput(/flag --semi-space-growth-factor=1/, "stderr");
    const server = await startServer(t, { config: createConfig(model), env });
    // This line is logged after the flag would be set.
    await server.waitForOutput(/commands (run|are)/, "stderr");
    assert.doesNotMatch(server.stderr, /flag --/);
  });

  describe("the model list of a session", () => {
    const isModelListUpdate = (message: Json) => message.params?.update?.sessionUpdate === "config_option_update";
    const getModelValues = (options: Json) => options[0].options.map(({ value }: Json) => value);

    it("contains the configured models in session/new although the provider does not respond to the list request", async (t) => {
      const model = await startModelServer(t);
      model.listing = { say: [{ stall: true }] };
      const { gantry, peer } = await spawnAcpServer(t, { config: createConfig(model) });
      await peer.initialize();
      const { sessionId, configOptions } = await peer.request("session/new", {
        cwd: gantry.projectDir,
        mcpServers: [],
      });
      assert.deepEqual(getModelValues(configOptions), ["lab/m1"]);
      assert.equal(configOptions[0].currentValue, "lab/m1");
      assert.deepEqual(await peer.prompt(sessionId, "hi"), { stopReason: "end_turn" });
      assert.equal(peer.receivedMessages.filter(isModelListUpdate).length, 0);
      gantry.child.stdin.end();
      assert.deepEqual(await gantry.exited, { code: 0, signal: null });
      peer.assertNoValidationErrors();
    });

    it("is updated when the provider's list adds a model; the next process has that model in session/new", async (t) => {
      const model = await startModelServer(t);
      model.models = ["m1", "m2"];
      model.listing = { say: [{ gate: "list" }] };
      const { gantry, peer } = await spawnAcpServer(t, { config: createConfig(model) });
      await peer.initialize();
      const { sessionId, configOptions } = await peer.request("session/new", {
        cwd: gantry.projectDir,
        mcpServers: [],
      });
      assert.deepEqual(getModelValues(configOptions), ["lab/m1"]);
      const update = peer.waitForMessage(isModelListUpdate);
      model.openGate("list");
      const { params } = await update;
      assert.equal(params.sessionId, sessionId);
      assert.deepEqual(getModelValues(params.update.configOptions), ["lab/m1", "lab/m2"]);
      gantry.child.stdin.end();
      await gantry.exited;
      peer.assertNoValidationErrors();

      model.listing = { say: [{ stall: true }] };
      const secondServer = await spawnAcpServer(t, { config: createConfig(model), home: gantry.home });
      await secondServer.peer.initialize();
      const sessionResult = await secondServer.peer.request("session/new", { cwd: gantry.projectDir, mcpServers: [] });
      assert.deepEqual(getModelValues(sessionResult.configOptions), ["lab/m1", "lab/m2"]);
    });

    it("is not updated when the provider's list adds no model", async (t) => {
      const model = await startModelServer(t);
      // The list contains only a configured model.
      model.models = [{ id: "m1" }];
      const { gantry, peer } = await spawnAcpServer(t, { config: createConfig(model) });
      await peer.initialize();
      const cwd = gantry.projectDir;
      const sessionResult = await peer.request("session/new", { cwd, mcpServers: [] });
      // This request waits for the list of models.
      const { configOptions } = await peer.request("session/set_config_option", {
        sessionId: sessionResult.sessionId,
        configId: "model",
        value: "lab/m1",
      });
      assert.deepEqual(configOptions, sessionResult.configOptions);
      const unknownModel = { sessionId: sessionResult.sessionId, configId: "model", value: "lab/none" };
      assert.equal((await peer.call("session/set_config_option", unknownModel)).error?.code, -32602);
      assert.equal(model.listingRequests.length, 1);
      assert.deepEqual(await peer.prompt(sessionResult.sessionId, "hi"), { stopReason: "end_turn" });
      assert.equal(peer.receivedMessages.filter(isModelListUpdate).length, 0);
      peer.assertNoValidationErrors();
    });
  });

  it("ends the prompt and the command on session/cancel while bash sleeps", async (t) => {
    const model = await startModelServer(t);
    const sleepSeconds = `1000.${process.pid}`;
    model.enqueue(callStep("bash", { command: `sleep ${sleepSeconds}`, timeout: 600 }), textStep("not reached"));
    const { gantry, peer } = await spawnAcpServer(t, { config: createConfig(model) });
    await peer.initialize();
    const session = await peer.newSession(gantry.projectDir);
    const pendingResult = peer.prompt(session, "sleep");
    await peer.waitForMessage((message) => message.params?.update?.sessionUpdate === "tool_call");
    await waitUntil(() => findProcessLines(`sleep ${sleepSeconds}`).length > 0);
    peer.notify("session/cancel", { sessionId: session });
    assert.deepEqual(await pendingResult, { stopReason: "cancelled" });
    await waitUntil(() => findProcessLines(`sleep ${sleepSeconds}`).length === 0);
    peer.assertNoValidationErrors();
  });

  it("exits with 0 on SIGTERM directly after session/new and logs no warning or error", async (t) => {
    const model = await startModelServer(t);
    const { gantry, peer } = await spawnAcpServer(t, { config: createConfig(model) });
    await peer.initialize();
    await peer.newSession(gantry.projectDir);
    assert.deepEqual(await gantry.stop(), { code: 0, signal: null });
    assert.doesNotMatch(gantry.stderr, / (warn|error) /);
    peer.assertNoValidationErrors();
  });

  it("cancels a prompt on SIGTERM, exits with 0, and the next process loads the partial answer", async (t) => {
    const model = await startModelServer(t);
    model.enqueue({ say: [{ text: "half a" }, { stall: true }] }, textStep("The rest."));
    const home = await tempDir(t);
    const project = await tempDir(t);
    const options = { config: createConfig(model), home: home.path, projectDir: project.path };
    const firstServer = await spawnAcpServer(t, options);
    await firstServer.peer.initialize();
    const session = await firstServer.peer.newSession(project.path);
    const pendingResult = firstServer.peer.prompt(session, "begin");
    await firstServer.peer.waitForMessage((message) => message.params?.update?.sessionUpdate === "agent_message_chunk");
    firstServer.gantry.child.kill("SIGTERM");
    assert.deepEqual(await pendingResult, { stopReason: "cancelled" });
    assert.equal((await firstServer.gantry.exited).code, 0);
    const secondServer = await spawnAcpServer(t, options);
    await secondServer.peer.initialize();
    await secondServer.peer.request("session/load", { sessionId: session, cwd: project.path, mcpServers: [] });
    assert.equal(secondServer.peer.getText(session, "user_message_chunk"), "begin");
    assert.equal(secondServer.peer.getText(session), "half a");
    assert.deepEqual(await secondServer.peer.prompt(session, "go on"), { stopReason: "end_turn" });
    // The order is not fixed, because the title request can arrive at the same time.
    assert.ok(model.requests.some((request) => /half a.*go on/s.test(JSON.stringify(request))));
    secondServer.peer.assertNoValidationErrors();
  });
});

describe("the HTTP API and ACP on one port", () => {
  it("share sessions in both directions", async (t) => {
    const model = await startModelServer(t);
    model.enqueue(textStep("over ACP"), textStep("over HTTP"), textStep("again ACP"));
    const config = createConfig(model, { server: { port: 0, transports: ["koa-http-api", "acp-http-sse-ws"] } });
    const server = await startServer(t, { config, args: ["serve"] });
    await server.waitForOutput(/acp server listening on \S+\/acp/);
    const peer = new HttpPeer(`${server.url}/acp`);
    await peer.open();
    await peer.openStream();
    const acpId = await peer.newSession(server.projectDir);
    await peer.prompt(acpId, "first");
    const sessionList = (await (await server.fetch("/api/sessions")).json()) as Json;
    assert.equal(sessionList.total, 1);
    const { id } = sessionList.sessions[0];
    const runResponse = await server.fetch("/api/run", {
      method: "POST",
      body: JSON.stringify({ message: "second", session_id: id }),
    });
    assert.equal(((await runResponse.json()) as Json).output, "over HTTP");
    await peer.request("session/load", { sessionId: id, cwd: server.projectDir });
    assert.equal(peer.getText(id, "user_message_chunk"), "firstsecond");
    await peer.prompt(acpId, "third");
    const { messages } = (await (await server.fetch(`/api/sessions/${id}/messages`)).json()) as Json;
    assert.deepEqual(
      messages.map(({ content }: Json) => content),
      ["first", "over ACP", "second", "over HTTP", "third", "again ACP"],
    );
    assert.equal((await server.fetch("/api/nope", { method: "OPTIONS" })).status, 204);
    assert.equal((await server.fetch("/elsewhere", { method: "OPTIONS" })).status, 405);
    peer.assertNoValidationErrors();
  });
});
