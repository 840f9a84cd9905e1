import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, builtinTools, MemoryDriver, silentLogger } from "gantry";
import { MemoryDocuments } from "gantry/plugin";
import { callTools, ScriptedProvider, type ScriptedStep } from "gantry/testing";
import { MemoryAcp, testTool } from "../../helpers/acp-agent.js";
import type { AcpPeer, Json } from "../../helpers/acp-peer.js";
import { tempDir, type Hooks } from "../../helpers/temp.js";

const EDITOR = { clientCapabilities: { fs: { readTextFile: true } } };

/** An agent on a store that acts like a separate process. One of its tools waits until it is released. */
function processOn(t: Hooks, store: MemoryDocuments, steps: readonly ScriptedStep[] = []) {
  let signalStarted: () => void = () => undefined;
  let end: () => void = () => undefined;
  const running = new Promise<void>((resolve) => (signalStarted = resolve));
  const work = new Promise<void>((resolve) => (end = resolve));
  const slow = testTool("slow", async () => (signalStarted(), await work, { text: "done" }));
  const where = testTool("where", (_args, { projectDir }) => ({ text: projectDir }));
  const agent = new Agent({
    providers: [new ScriptedProvider(steps)],
    driver: new MemoryDriver(store),
    tools: [slow, where, ...builtinTools()],
    logger: silentLogger,
  });
  t.after(async () => {
    end();
    await agent.close();
  });
  return { agent, running, end };
}

async function connectPeer(t: Hooks, agent: Agent, params: Json = {}): Promise<AcpPeer> {
  const peer = new MemoryAcp(t, agent).connect();
  await peer.initialize(params);
  return peer;
}

const states = (peer: AcpPeer) =>
  peer.updates().flatMap(({ sessionUpdate, status }) => (status === undefined ? [] : [[sessionUpdate, status]]));

describe("session/load of a running session", () => {
  for (const [location, isOtherProcess] of [
    ["another door of this process", false],
    ["another process", true],
  ] as const) {
    it(`in ${location} replays the running tool call as pending or in_progress, never as failed`, async (t) => {
      const { path: cwd } = await tempDir(t);
      const store = new MemoryDocuments();
      const first = processOn(t, store, [callTools(["slow", {}]), "done"]);
      const run = await first.agent.run({ message: "over HTTP", projectDir: cwd });
      await first.running;
      const { agent } = isOtherProcess ? processOn(t, store) : first;
      for (const [params, expectedState] of [
        [{}, ["tool_call", "pending"]],
        [EDITOR, ["tool_call_update", "in_progress"]],
      ]) {
        const peer = await connectPeer(t, agent, params);
        await peer.request("session/load", { sessionId: run.sessionId, cwd });
        assert.deepEqual(states(peer).at(-1), expectedState);
        assert.ok(states(peer).every(([, status]) => status !== "failed"));
        peer.assertClean();
      }
      first.end();
      assert.equal((await run.result).output, "done", "and the run was not disturbed");
      const peer = await connectPeer(t, agent);
      await peer.request("session/load", { sessionId: run.sessionId, cwd });
      assert.deepEqual(states(peer).at(-1), ["tool_call_update", "completed"]);
    });
  }

  it("replays a tool call that a crash interrupted as failed, and the session accepts a prompt", async (t) => {
    const { path: cwd } = await tempDir(t);
    const store = new MemoryDocuments();
    const first = processOn(t, store, [callTools(["slow", {}]), "done"]);
    const run = await first.agent.run({ message: "x", projectDir: cwd });
    await first.running;
    // Simulates a crash: no process holds the lease, and the result is never written.
    const messages = await first.agent.sessions.messages(run.sessionId);
    const copy = new MemoryDocuments();
    const driver = new MemoryDriver(copy);
    await driver.open();
    const session = (await first.agent.sessions.get(run.sessionId))!;
    await driver.create({ session, messages });
    const second = processOn(t, copy, ["again"]);
    const peer = await connectPeer(t, second.agent);
    await peer.request("session/load", { sessionId: run.sessionId, cwd });
    assert.deepEqual(states(peer).at(-1), ["tool_call_update", "failed"]);
    assert.deepEqual(await peer.prompt(run.sessionId, "go on"), { stopReason: "end_turn" });
  });
});

describe("session/load of edits", () => {
  it("replays the diffs and locations of edits, and no diff for a failed edit", async (t) => {
    const { path: cwd } = await tempDir(t, { "a.txt": "one\ntwo\n" });
    const edits = [
      { old_string: "1", new_string: "I" },
      { old_string: "two", new_string: "2" },
    ];
    const steps: ScriptedStep[] = [
      callTools(["edit", { path: "a.txt", old_string: "one", new_string: "1" }]),
      callTools(["multiedit", { path: "a.txt", edits }]),
      callTools(["write", { path: "b.txt", content: "new\n" }]),
      callTools(["edit", { path: "a.txt", old_string: "missing", new_string: "x" }]),
      callTools(["read", { path: "a.txt" }]),
      "done",
    ];
    const { agent } = processOn(t, new MemoryDocuments(), steps);
    const peer = await connectPeer(t, agent);
    const session = await peer.newSession(cwd);
    const results = () =>
      peer
        .updates()
        .filter(({ sessionUpdate, status }) => sessionUpdate === "tool_call_update" && status !== "pending");
    await peer.prompt(session, "edit");
    const live = results();
    await peer.request("session/load", { sessionId: session, cwd });
    const replayed = results().slice(live.length);
    const done = ({ status }: Json) => status === "completed";
    assert.deepEqual(replayed.filter(done), live.filter(done), "what was shown then");
    const [a, b] = [`${cwd}/a.txt`, `${cwd}/b.txt`];
    assert.deepEqual(
      replayed.slice(0, 3).map(({ content }) => content),
      [
        [{ type: "diff", path: a, oldText: "one\ntwo\n", newText: "1\ntwo\n" }],
        [{ type: "diff", path: a, oldText: "1\ntwo\n", newText: "I\n2\n" }],
        [{ type: "diff", path: b, oldText: null, newText: "new\n" }],
      ],
    );
    assert.deepEqual(
      replayed.map(({ locations }) => locations[0].path),
      [a, a, b, a, a],
    );
    assert.equal(replayed[3].status, "failed");
    assert.equal(replayed[3].content[0].type, "content", "what failed has changed nothing");
    assert.match(replayed[4].rawOutput, /2/);
    peer.assertClean();
  });
});

describe("cwd of session/load and session/resume", () => {
  it("is where the client's tools run; the session keeps its own folder and is listed by it", async (t) => {
    const [a, b] = [(await tempDir(t)).path, (await tempDir(t)).path];
    const store = new MemoryDocuments();
    const call = callTools(["where", {}]);
    const { agent } = processOn(t, store, [call, "a", call, "b", call, "c"]);
    const peer = await connectPeer(t, agent);
    const session = await peer.newSession(a);
    await peer.prompt(session, "x");
    for (const method of ["session/load", "session/resume"]) {
      await peer.request(method, { sessionId: session, cwd: b });
      await peer.prompt(session, "y");
    }
    const outputs = peer.updates().flatMap(({ status, rawOutput }) => (status === "completed" ? [rawOutput] : []));
    assert.deepEqual([outputs[0], outputs.at(-1)], [a, b]);
    assert.equal((await agent.sessions.get(session))?.projectDir, a);
    const list = async (cwd: string) => (await peer.request("session/list", { cwd })).sessions.length as number;
    assert.deepEqual([await list(a), await list(b)], [1, 0]);
    // A client that names no folder works in the folder of the session.
    const next = processOn(t, store, [call, "d"]);
    const run = await next.agent.run({ message: "z", sessionId: session });
    await run.result;
    const lastToolMessage = (await agent.sessions.messages(session)).filter(({ role }) => role === "tool").at(-1);
    assert.deepEqual(lastToolMessage?.parts, [{ type: "text", text: a }]);
  });
});
