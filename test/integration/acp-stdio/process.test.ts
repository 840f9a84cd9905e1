import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { describe, it } from "node:test";
import type { Json } from "../../helpers/acp-peer.js";
import { spawnAcp } from "../../helpers/acp-process.js";
import { call, say, startFakeModelServer, type FakeModelServer } from "../../helpers/fake-model-server.js";
import { until } from "../../helpers/lab.js";
import { startServer } from "../../helpers/server.js";
import { HttpPeer } from "../../helpers/acp-http.js";
import { tempDir, type Hooks } from "../../helpers/temp.js";

function configFor(model: FakeModelServer, settings: Record<string, unknown> = {}): Record<string, unknown> {
  const entry = { id: "m1", name: "M 1", context_window: 8000, max_output: 4000 };
  return {
    providers: [{ name: "lab", driver: "openai", base_url: model.baseUrl, api_key: "x", models: [entry] }],
    ...settings,
  };
}

async function modelServer(t: Hooks): Promise<FakeModelServer> {
  const model = await startFakeModelServer({ aside: say("A title") });
  t.after(() => model.close());
  return model;
}

function processesWith(marker: string): string[] {
  const all = execFileSync("ps", ["-eo", "pid,stat,args"], { encoding: "utf8" }).split("\n");
  return all.filter((line) => line.includes(marker) && !/^\s*\d+\s+Z/.test(line));
}

describe("gantry serve --acp --stdio", () => {
  it("answers a prompt with only protocol messages on stdout while a plugin prints, and exits with 0 on EOF", async (t) => {
    const model = await modelServer(t);
    const plugin = await tempDir(t, {
      "noisy.mjs": `
        console.log("noise at import");
        export default { gantry: 1, kind: "tool", name: "noisy", parse: () => ({}), use: class {
          name = "noisy"; description = "noise"; inputSchema = { type: "object" }; kind = "other"; parallel = false; needsPermission = false;
          parse(input) { return input; }
          describe() { return { title: "Noise", locations: [] }; }
          async run() { console.log("stray"); console.info("stray"); process.stdout.write("stray\\n"); return { text: "done" }; }
        } };`,
    });
    model.enqueue(call("noisy", {}), say("All quiet."));
    const { gantry, peer } = await spawnAcp(t, {
      config: configFor(model, { agent: { tools: ["*", plugin.at("noisy.mjs")] } }),
    });
    await peer.initialize();
    const session = await peer.newSession(gantry.projectDir);
    assert.deepEqual(await peer.prompt(session, "make noise"), { stopReason: "end_turn" });
    assert.equal(peer.text(session), "All quiet.");
    gantry.child.stdin.end();
    assert.deepEqual(await gantry.exited, { code: 0, signal: null });
    assert.match(gantry.stderr, /noise at import/);
    assert.equal(gantry.stderr.match(/stray/g)?.length, 3);
    peer.assertClean();
  });

  it("sets --semi-space-growth-factor=1, which the HTTP server does not", async (t) => {
    const model = await modelServer(t);
    const { at } = await tempDir(t, {
      "flags.cjs": `
        const v8 = require("node:v8");
        const set = v8.setFlagsFromString;
        v8.setFlagsFromString = (flag) => { process.stderr.write("flag " + flag + "\\n"); set(flag); };`,
    });
    const env = { NODE_OPTIONS: `--require ${JSON.stringify(at("flags.cjs"))}` };
    const { gantry } = await spawnAcp(t, { config: configFor(model), env });
    await gantry.output(/flag --semi-space-growth-factor=1/, "stderr");
    const server = await startServer(t, { config: configFor(model), env });
    // Logged at the same time, after the flag.
    await server.output(/commands (run|are)/, "stderr");
    assert.doesNotMatch(server.stderr, /flag --/);
  });

  describe("the model list of a session", () => {
    const isUpdate = (message: Json) => message.params?.update?.sessionUpdate === "config_option_update";
    const modelsIn = (options: Json) => options[0].options.map(({ value }: Json) => value);

    it("contains the configured models in session/new although the provider never answers the list request", async (t) => {
      const model = await modelServer(t);
      model.listing = { say: [{ stall: true }] };
      const { gantry, peer } = await spawnAcp(t, { config: configFor(model) });
      await peer.initialize();
      const { sessionId, configOptions } = await peer.request("session/new", {
        cwd: gantry.projectDir,
        mcpServers: [],
      });
      assert.deepEqual(modelsIn(configOptions), ["lab/m1"]);
      assert.equal(configOptions[0].currentValue, "lab/m1");
      // The session can run a turn.
      assert.deepEqual(await peer.prompt(sessionId, "hi"), { stopReason: "end_turn" });
      assert.equal(peer.received.filter(isUpdate).length, 0);
      gantry.child.stdin.end();
      assert.deepEqual(await gantry.exited, { code: 0, signal: null });
      peer.assertClean();
    });

    it("is updated when the provider's list adds a model; the next process has that model in session/new", async (t) => {
      const model = await modelServer(t);
      model.models = ["m1", "m2"];
      model.listing = { say: [{ gate: "list" }] };
      const { gantry, peer } = await spawnAcp(t, { config: configFor(model) });
      await peer.initialize();
      const { sessionId, configOptions } = await peer.request("session/new", {
        cwd: gantry.projectDir,
        mcpServers: [],
      });
      assert.deepEqual(modelsIn(configOptions), ["lab/m1"]);
      const update = peer.seen(isUpdate);
      model.open("list");
      const { params } = await update;
      assert.equal(params.sessionId, sessionId);
      assert.deepEqual(modelsIn(params.update.configOptions), ["lab/m1", "lab/m2"]);
      gantry.child.stdin.end();
      await gantry.exited;
      peer.assertClean();

      model.listing = { say: [{ stall: true }] };
      const second = await spawnAcp(t, { config: configFor(model), home: gantry.home });
      await second.peer.initialize();
      const answer = await second.peer.request("session/new", { cwd: gantry.projectDir, mcpServers: [] });
      assert.deepEqual(modelsIn(answer.configOptions), ["lab/m1", "lab/m2"]);
    });

    it("is not updated when the provider's list adds nothing", async (t) => {
      const model = await modelServer(t);
      // The list adds nothing to the configured models.
      model.models = [{ id: "m1" }];
      const { gantry, peer } = await spawnAcp(t, { config: configFor(model) });
      await peer.initialize();
      const cwd = gantry.projectDir;
      const first = await peer.request("session/new", { cwd, mcpServers: [] });
      // This request waits for the list of models.
      const { configOptions } = await peer.request("session/set_config_option", {
        sessionId: first.sessionId,
        configId: "model",
        value: "lab/m1",
      });
      assert.deepEqual(configOptions, first.configOptions);
      const unknown = { sessionId: first.sessionId, configId: "model", value: "lab/none" };
      assert.equal((await peer.call("session/set_config_option", unknown)).error?.code, -32602);
      assert.equal(model.listings.length, 1);
      assert.deepEqual(await peer.prompt(first.sessionId, "hi"), { stopReason: "end_turn" });
      assert.equal(peer.received.filter(isUpdate).length, 0);
      peer.assertClean();
    });
  });

  it("ends the prompt and the command on session/cancel while bash sleeps", async (t) => {
    const model = await modelServer(t);
    const seconds = `1000.${process.pid}`;
    model.enqueue(call("bash", { command: `sleep ${seconds}`, timeout: 600 }), say("not reached"));
    const { gantry, peer } = await spawnAcp(t, { config: configFor(model) });
    await peer.initialize();
    const session = await peer.newSession(gantry.projectDir);
    const result = peer.prompt(session, "sleep");
    await peer.seen((message) => message.params?.update?.sessionUpdate === "tool_call");
    await until(() => processesWith(`sleep ${seconds}`).length > 0);
    peer.notify("session/cancel", { sessionId: session });
    assert.deepEqual(await result, { stopReason: "cancelled" });
    await until(() => processesWith(`sleep ${seconds}`).length === 0);
    peer.assertClean();
  });

  it("exits with 0 on SIGTERM right after session/new and logs no warning or error", async (t) => {
    const model = await modelServer(t);
    const { gantry, peer } = await spawnAcp(t, { config: configFor(model) });
    await peer.initialize();
    await peer.newSession(gantry.projectDir);
    assert.deepEqual(await gantry.stop(), { code: 0, signal: null });
    assert.doesNotMatch(gantry.stderr, / (warn|error) /);
    peer.assertClean();
  });

  it("cancels a prompt on SIGTERM, exits with 0, and the next process loads the partial answer", async (t) => {
    const model = await modelServer(t);
    model.enqueue({ say: [{ text: "half a" }, { stall: true }] }, say("The rest."));
    const home = await tempDir(t);
    const project = await tempDir(t);
    const options = { config: configFor(model), home: home.path, projectDir: project.path };
    const first = await spawnAcp(t, options);
    await first.peer.initialize();
    const session = await first.peer.newSession(project.path);
    const result = first.peer.prompt(session, "begin");
    await first.peer.seen((message) => message.params?.update?.sessionUpdate === "agent_message_chunk");
    first.gantry.child.kill("SIGTERM");
    assert.deepEqual(await result, { stopReason: "cancelled" });
    assert.equal((await first.gantry.exited).code, 0);
    const second = await spawnAcp(t, options);
    await second.peer.initialize();
    await second.peer.request("session/load", { sessionId: session, cwd: project.path, mcpServers: [] });
    assert.equal(second.peer.text(session, "user_message_chunk"), "begin");
    assert.equal(second.peer.text(session), "half a");
    assert.deepEqual(await second.peer.prompt(session, "go on"), { stopReason: "end_turn" });
    // The title request can arrive at the same time.
    assert.ok(model.requests.some((request) => /half a.*go on/s.test(JSON.stringify(request))));
    second.peer.assertClean();
  });
});

describe("the HTTP API and ACP on one port", () => {
  it("share sessions in both directions", async (t) => {
    const model = await modelServer(t);
    model.enqueue(say("over ACP"), say("over HTTP"), say("again ACP"));
    const config = configFor(model, { server: { port: 0, transports: ["koa-http-api", "acp-http-sse-ws"] } });
    const server = await startServer(t, { config, args: ["serve"] });
    await server.output(/acp server listening on \S+\/acp/);
    const peer = new HttpPeer(`${server.url}/acp`);
    await peer.open();
    await peer.stream();
    const acpId = await peer.newSession(server.projectDir);
    await peer.prompt(acpId, "first");
    const list = (await (await server.fetch("/api/sessions")).json()) as Json;
    assert.equal(list.total, 1);
    const { id } = list.sessions[0];
    const run = await server.fetch("/api/run", {
      method: "POST",
      body: JSON.stringify({ message: "second", session_id: id }),
    });
    assert.equal(((await run.json()) as Json).output, "over HTTP");
    await peer.request("session/load", { sessionId: id, cwd: server.projectDir });
    assert.equal(peer.text(id, "user_message_chunk"), "firstsecond");
    await peer.prompt(acpId, "third");
    const { messages } = (await (await server.fetch(`/api/sessions/${id}/messages`)).json()) as Json;
    assert.deepEqual(
      messages.map(({ content }: Json) => content),
      ["first", "over ACP", "second", "over HTTP", "third", "again ACP"],
    );
    assert.equal((await server.fetch("/api/nope", { method: "OPTIONS" })).status, 204);
    assert.equal((await server.fetch("/elsewhere", { method: "OPTIONS" })).status, 405);
    peer.assertClean();
  });
});
