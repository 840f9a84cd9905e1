import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, builtinTools, MemoryDriver, silentLogger } from "gantry";
import { MemoryDocuments } from "gantry/plugin";
import { callTools, ScriptedProvider, type ScriptedStep } from "gantry/testing";
import { InProcessAcp, createTestTool } from "../../helpers/acp-agent.js";
import type { AcpPeer, Json } from "../../helpers/acp-peer.js";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";

const EDITOR = { clientCapabilities: { fs: { readTextFile: true } } };

/** Creates an agent that acts like a separate process on the store. Its tool `slow` waits for `finishTool`. */
function createAgent(t: Hooks, store: MemoryDocuments, steps: readonly ScriptedStep[] = []) {
  let signalToolStart: () => void = () => undefined;
  let finishTool: () => void = () => undefined;
  const toolStarted = new Promise<void>((resolve) => (signalToolStart = resolve));
  const toolFinished = new Promise<void>((resolve) => (finishTool = resolve));
  const slowTool = createTestTool("slow", async () => (signalToolStart(), await toolFinished, { text: "done" }));
  const projectDirTool = createTestTool("where", (_args, { projectDir }) => ({ text: projectDir }));
  const agent = new Agent({
    providers: [new ScriptedProvider(steps)],
    driver: new MemoryDriver(store),
    tools: [slowTool, projectDirTool, ...builtinTools()],
    logger: silentLogger,
  });
  t.after(async () => {
    finishTool();
    await agent.close();
  });
  return { agent, toolStarted, finishTool };
}

async function connectPeer(t: Hooks, agent: Agent, params: Json = {}): Promise<AcpPeer> {
  const peer = new InProcessAcp(t, agent).connect();
  await peer.initialize(params);
  return peer;
}

const getStates = (peer: AcpPeer) =>
  peer.getUpdates().flatMap(({ sessionUpdate, status }) => (status === undefined ? [] : [[sessionUpdate, status]]));

describe("session/load of a running session", () => {
  for (const [location, isOtherProcess] of [
    ["this process", false],
    ["another process", true],
  ] as const) {
    it(`in ${location} replays the running tool call as pending or in_progress, never as failed`, async (t) => {
      const { path: cwd } = await tempDir(t);
      const store = new MemoryDocuments();
      const firstProcess = createAgent(t, store, [callTools(["slow", {}]), "done"]);
      const run = await firstProcess.agent.run({ message: "over HTTP", projectDir: cwd });
      await firstProcess.toolStarted;
      const { agent } = isOtherProcess ? createAgent(t, store) : firstProcess;
      for (const [params, expectedState] of [
        [{}, ["tool_call", "pending"]],
        [EDITOR, ["tool_call_update", "in_progress"]],
      ]) {
        const peer = await connectPeer(t, agent, params);
        await peer.request("session/load", { sessionId: run.sessionId, cwd });
        assert.deepEqual(getStates(peer).at(-1), expectedState);
        assert.ok(getStates(peer).every(([, status]) => status !== "failed"));
        peer.assertNoValidationErrors();
      }
      firstProcess.finishTool();
      assert.equal((await run.result).output, "done", "the run is not affected by the load");
      const peer = await connectPeer(t, agent);
      await peer.request("session/load", { sessionId: run.sessionId, cwd });
      assert.deepEqual(getStates(peer).at(-1), ["tool_call_update", "completed"]);
    });
  }

  it("replays a tool call that a crash interrupted as failed, and the session accepts a prompt", async (t) => {
    const { path: cwd } = await tempDir(t);
    const store = new MemoryDocuments();
    const firstProcess = createAgent(t, store, [callTools(["slow", {}]), "done"]);
    const run = await firstProcess.agent.run({ message: "x", projectDir: cwd });
    await firstProcess.toolStarted;
    // Simulates a crash: no process holds the lease, and the tool result is missing.
    const messages = await firstProcess.agent.sessions.messages(run.sessionId);
    const copiedStore = new MemoryDocuments();
    const driver = new MemoryDriver(copiedStore);
    await driver.open();
    const session = (await firstProcess.agent.sessions.get(run.sessionId))!;
    await driver.create({ session, messages });
    const secondProcess = createAgent(t, copiedStore, ["again"]);
    const peer = await connectPeer(t, secondProcess.agent);
    await peer.request("session/load", { sessionId: run.sessionId, cwd });
    assert.deepEqual(getStates(peer).at(-1), ["tool_call_update", "failed"]);
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
    const { agent } = createAgent(t, new MemoryDocuments(), steps);
    const peer = await connectPeer(t, agent);
    const session = await peer.newSession(cwd);
    const getResults = () =>
      peer
        .getUpdates()
        .filter(({ sessionUpdate, status }) => sessionUpdate === "tool_call_update" && status !== "pending");
    await peer.prompt(session, "edit");
    const liveResults = getResults();
    await peer.request("session/load", { sessionId: session, cwd });
    const replayedResults = getResults().slice(liveResults.length);
    const isCompleted = ({ status }: Json) => status === "completed";
    assert.deepEqual(
      replayedResults.filter(isCompleted),
      liveResults.filter(isCompleted),
      "the replay equals the live updates",
    );
    const [pathA, pathB] = [`${cwd}/a.txt`, `${cwd}/b.txt`];
    assert.deepEqual(
      replayedResults.slice(0, 3).map(({ content }) => content),
      [
        [{ type: "diff", path: pathA, oldText: "one\ntwo\n", newText: "1\ntwo\n" }],
        [{ type: "diff", path: pathA, oldText: "1\ntwo\n", newText: "I\n2\n" }],
        [{ type: "diff", path: pathB, oldText: null, newText: "new\n" }],
      ],
    );
    assert.deepEqual(
      replayedResults.map(({ locations }) => locations[0].path),
      [pathA, pathA, pathB, pathA, pathA],
    );
    assert.equal(replayedResults[3].status, "failed");
    assert.equal(replayedResults[3].content[0].type, "content", "a failed edit has no diff");
    assert.match(replayedResults[4].rawOutput, /2/);
    peer.assertNoValidationErrors();
  });
});

describe("cwd of session/load and session/resume", () => {
  it("is the folder of the client's tools; the session keeps its own folder, and session/list filters by that folder", async (t) => {
    const [sessionFolder, clientFolder] = [(await tempDir(t)).path, (await tempDir(t)).path];
    const store = new MemoryDocuments();
    const call = callTools(["where", {}]);
    const { agent } = createAgent(t, store, [call, "a", call, "b", call, "c"]);
    const peer = await connectPeer(t, agent);
    const session = await peer.newSession(sessionFolder);
    await peer.prompt(session, "x");
    for (const method of ["session/load", "session/resume"]) {
      await peer.request(method, { sessionId: session, cwd: clientFolder });
      await peer.prompt(session, "y");
    }
    const outputs = peer.getUpdates().flatMap(({ status, rawOutput }) => (status === "completed" ? [rawOutput] : []));
    assert.deepEqual([outputs[0], outputs.at(-1)], [sessionFolder, clientFolder]);
    assert.equal((await agent.sessions.get(session))?.projectDir, sessionFolder);
    const countSessions = async (cwd: string) =>
      (await peer.request("session/list", { cwd })).sessions.length as number;
    assert.deepEqual([await countSessions(sessionFolder), await countSessions(clientFolder)], [1, 0]);
    // A run without a folder uses the folder of the session.
    const otherProcess = createAgent(t, store, [call, "d"]);
    const run = await otherProcess.agent.run({ message: "z", sessionId: session });
    await run.result;
    const lastToolMessage = (await agent.sessions.messages(session)).filter(({ role }) => role === "tool").at(-1);
    assert.deepEqual(lastToolMessage?.parts, [{ type: "text", text: sessionFolder }]);
  });
});
