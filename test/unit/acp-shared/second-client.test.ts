import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, builtinTools, MemoryDriver, ProviderError, silentLogger } from "gantry";
import { MemoryDocuments, type SessionDriver } from "gantry/plugin";
import { callTools, ScriptedProvider, type ScriptedStep } from "gantry/testing";
import { MemoryAcp, testTool } from "../../helpers/acp-agent.js";
import type { AcpPeer, Json } from "../../helpers/acp-peer.js";
import { gate, waitTool } from "../../helpers/gate.js";
import { STORES } from "../../helpers/stores.js";
import { until } from "../../helpers/lab.js";
import { tempDir, type Hooks } from "../../helpers/temp.js";

const EDITOR = { clientInfo: { name: "zed", version: "1" } };

/** Sends an answer in two pieces, the second after `until`. */
function halves(until: Promise<void>): ScriptedStep {
  return async () => {
    const begin = { type: "text" as const, block: "t", text: "first half, " };
    return [begin, until.then(() => 1) as never, { type: "text", block: "t", text: "second half" }];
  };
}

/** An agent on a store that acts like a separate process. */
function processOn(t: Hooks, driver: SessionDriver, steps: readonly ScriptedStep[] = []) {
  const toolGate = gate();
  const risky = testTool("risky", () => ({ text: "ran" }), { needsPermission: true, kind: "execute" });
  const agent = new Agent({
    providers: [new ScriptedProvider(steps)],
    driver,
    tools: [waitTool(toolGate), risky],
    logger: silentLogger,
  });
  t.after(async () => {
    toolGate.open();
    await agent.close();
  });
  return { agent, toolGate };
}

async function connectPeer(t: Hooks, agent: Agent, params: Json = EDITOR, options = {}): Promise<AcpPeer> {
  const peer = new MemoryAcp(t, agent, options).connect();
  await peer.initialize(params);
  if (params === EDITOR) peer.profile = "official";
  return peer;
}

const describeUpdate = (update: Json): string[] => {
  const { sessionUpdate: kind, content, status, toolCallId } = update;
  if (["session_info_update", "config_option_update", "available_commands_update"].includes(kind)) return [];
  const call = toolCallId === undefined ? [] : [status];
  return [[kind, ...(typeof content?.text === "string" ? [content.text] : []), ...call].join(" ")];
};

/** The updates that a client has received. Chunks of one message are joined. */
function story(peer: AcpPeer, from = 0): string[] {
  const lines: string[] = [];
  let id: unknown;
  for (const { params } of peer.received.slice(from).filter(({ method }) => method === "session/update")) {
    const { update } = params;
    const newLines = describeUpdate(update);
    if (newLines.length === 0) continue;
    if (update.messageId !== undefined && update.messageId === id) lines[lines.length - 1] += update.content.text;
    else lines.push(...newLines);
    id = update.messageId;
  }
  return lines;
}

const ended = ({ params }: Json) => params?.update?.sessionUpdate === "usage_update";

for (const [name, make] of STORES)
  describe(`a second ACP client (${name})`, { concurrency: 4 }, () => {
    for (const location of ["this process", "another process"] as const)
      it(`loads a session that runs in ${location} and follows it without a gap or a repeat`, async (t) => {
        const { path: cwd } = await tempDir(t);
        const open = await make(t);
        let go = (): void => undefined;
        const half = new Promise<void>((resolve) => (go = resolve));
        const first = processOn(t, open(), [callTools(["wait", {}]), halves(half), "again"]);
        const run = await first.agent.run({ message: "over HTTP", projectDir: cwd });
        await first.toolGate.reached;
        const { agent } = location === "this process" ? first : processOn(t, open());
        const peer = await connectPeer(t, agent);
        const specPeer = await connectPeer(t, agent, {});
        for (const client of [peer, specPeer]) await client.request("session/load", { sessionId: run.sessionId, cwd });
        const loadedLines = ["user_message_chunk over HTTP", "tool_call pending"];
        assert.deepEqual(story(peer), [...loadedLines, "tool_call_update in_progress"]);
        assert.deepEqual(story(specPeer), loadedLines);
        first.toolGate.open();
        await peer.seen(({ params }) => params?.update?.content?.text?.startsWith("first half"));
        // A client that joins in the middle of an answer.
        const lateClient = await connectPeer(t, agent);
        await lateClient.request("session/load", { sessionId: run.sessionId, cwd });
        go();
        for (const client of [peer, specPeer, lateClient]) await client.seen(ended);
        await run.result;
        const laterLines = [
          "tool_call_update completed",
          "agent_message_chunk first half, second half",
          "usage_update",
        ];
        assert.deepEqual(story(peer), [...loadedLines, "tool_call_update in_progress", ...laterLines]);
        assert.deepEqual(story(specPeer), [...loadedLines, ...laterLines]);
        assert.deepEqual(story(lateClient), [...loadedLines, ...laterLines]);
        // The clients see the next run from its start.
        const before = [peer, specPeer, lateClient].map(({ received }) => received.length);
        const next = await first.agent.run({ message: "more", sessionId: run.sessionId });
        await next.result;
        for (const [at, client] of [peer, specPeer, lateClient].entries()) {
          await client.seen((message) => client.received.indexOf(message) >= before[at]! && ended(message));
          assert.deepEqual(story(client, before[at]), [
            "user_message_chunk more",
            "agent_message_chunk again",
            "usage_update",
          ]);
          client.assertClean();
        }
      });

    it("receives each answer once and the prompts of other clients, but no echo of its own prompts", async (t) => {
      const { path: cwd } = await tempDir(t);
      const open = await make(t);
      const { agent } = processOn(t, open(), ["one", "two", "three", "four"]);
      const peer = await connectPeer(t, agent);
      const session = await peer.newSession(cwd);
      await peer.prompt(session, "mine");
      const run = async (message: string, of: Agent) => {
        const seen = peer.received.length;
        await (
          await of.run({ message, sessionId: session })
        ).result;
        await peer.seen((message) => peer.received.indexOf(message) >= seen && ended(message));
      };
      await run("theirs", agent);
      await peer.prompt(session, "mine too");
      await run("from elsewhere", processOn(t, open(), ["five"]).agent);
      await peer.prompt(session, "and mine");
      assert.deepEqual(
        story(peer).filter((line) => !line.startsWith("usage")),
        [
          "agent_message_chunk one",
          "user_message_chunk theirs",
          "agent_message_chunk two",
          "agent_message_chunk three",
          "user_message_chunk from elsewhere",
          "agent_message_chunk five",
          "agent_message_chunk four",
        ],
      );
      peer.assertClean();
    });

    it("receives runs of a session that it created but never prompted, and of one that it resumed, without history", async (t) => {
      const { path: cwd } = await tempDir(t);
      const open = await make(t);
      const { agent, toolGate } = processOn(t, open(), ["one", callTools(["wait", {}]), "two"]);
      const peer = await connectPeer(t, agent);
      const session = await peer.newSession(cwd);
      await (
        await agent.run({ message: "theirs", sessionId: session })
      ).result;
      await peer.seen(ended);
      assert.deepEqual(story(peer), ["user_message_chunk theirs", "agent_message_chunk one", "usage_update"]);
      const run = await agent.run({ message: "more", sessionId: session });
      await toolGate.reached;
      const resumed = await connectPeer(t, processOn(t, open()).agent);
      await resumed.request("session/resume", { sessionId: session, cwd });
      assert.deepEqual(story(resumed), [], "no history");
      toolGate.open();
      await run.result;
      await resumed.seen(ended);
      assert.deepEqual(story(resumed), [
        "tool_call pending",
        "tool_call_update completed",
        "agent_message_chunk two",
        "usage_update",
      ]);
      for (const client of [peer, resumed]) client.assertClean();
    });

    it("receives nothing twice when another client reverts messages and restores them", async (t) => {
      const { path: cwd } = await tempDir(t);
      const { agent } = processOn(t, (await make(t))(), ["one", "two", "three", "four"]);
      const peer = await connectPeer(t, agent);
      const sessionId = await peer.newSession(cwd);
      await peer.request("session/load", { sessionId, cwd });
      // Waits for the last text of each answer: text that is removed before it was sent is never sent.
      const runs = async (...turns: (readonly [prompt: string, answer: string])[]) => {
        for (const [message, answer] of turns) {
          await (
            await agent.run({ message, sessionId })
          ).result;
          await peer.seen(({ params }) => params?.update?.content?.text === answer);
        }
      };
      await runs(["a", "one"], ["b", "two"]);
      const [, answer] = await agent.sessions.messages(sessionId);
      const snapshot = await agent.sessions.revert(sessionId, answer!.id);
      await runs(["c", "three"]);
      await agent.sessions.restore(sessionId, snapshot.id);
      await runs(["d", "four"]);
      assert.deepEqual(
        story(peer).filter((line) => line !== "usage_update"),
        ["a", "one", "b", "two", "c", "three", "d", "four"].map(
          (text, i) => `${i % 2 ? "agent" : "user"}_message_chunk ${text}`,
        ),
      );
      await peer.request("session/load", { sessionId, cwd });
      assert.deepEqual(
        story(peer).slice(-6),
        story(peer)
          .filter((line) => / (a|one|b|two|d|four)$/.test(line))
          .slice(-6),
      );
      peer.assertClean();
    });

    it("cancels another client's run only after it has loaded the session, and receives the call's end and usage", async (t) => {
      const { path: cwd } = await tempDir(t);
      const open = await make(t);
      const first = processOn(t, open(), [callTools(["wait", {}])]);
      const run = await first.agent.run({ message: "x", projectDir: cwd });
      await first.toolGate.reached;
      const { agent } = processOn(t, open());
      const unloadedPeer = await connectPeer(t, agent);
      unloadedPeer.notify("session/cancel", { sessionId: run.sessionId });
      const peer = await connectPeer(t, agent);
      await peer.request("session/load", { sessionId: run.sessionId, cwd });
      assert.equal((await agent.runs.get(run.id))?.state, "running", "who has it not open cancels nothing");
      peer.notify("session/cancel", { sessionId: run.sessionId });
      await assert.rejects(run.result, { code: "run_cancelled" });
      await peer.seen(ended);
      assert.equal(peer.updates().filter(({ status }) => status === "failed" || status === "completed").length, 1);
      assert.equal(story(peer).at(-1), "usage_update", "what it cost is told of a cancelled run too");
      peer.assertClean();
    });

    it("with _meta.steer steers the running run or starts one; without it the session is busy", async (t) => {
      const { path: cwd } = await tempDir(t);
      const open = await make(t);
      const first = processOn(t, open(), [callTools(["wait", {}]), "done", "later"]);
      const run = await first.agent.run({ message: "x", projectDir: cwd });
      await first.toolGate.reached;
      const peer = await connectPeer(t, processOn(t, open(), ["prompted"]).agent);
      const { sessionId } = run;
      await peer.request("session/load", { sessionId, cwd });
      const prompt = [{ type: "text", text: "and mind the tests" }];
      const busy = await peer.call("session/prompt", { sessionId, prompt });
      assert.deepEqual([busy.error?.code, busy.error?.message], [-32600, "session is busy"]);
      const image = [...prompt, { type: "image", mimeType: "image/png", data: "aGk=" }];
      const imageAnswer = await peer.call("session/prompt", { sessionId, prompt: image, _meta: { steer: true } });
      assert.deepEqual([imageAnswer.error?.code, imageAnswer.error?.data?.field], [-32602, "prompt"]);
      assert.deepEqual(await peer.request("session/prompt", { sessionId, prompt, _meta: { steer: true } }), {
        stopReason: "end_turn",
        _meta: { steered: { runId: run.id } },
      });
      first.toolGate.open();
      await run.result;
      // Arrives before the next model call, or as the next prompt if the run had already ended.
      const steered = await peer.seen(({ params }) => params?.update?.content?.text === "and mind the tests");
      await peer.seen((message) => peer.received.indexOf(message) > peer.received.indexOf(steered) && ended(message));
      const lines = story(peer);
      const at = lines.indexOf("user_message_chunk and mind the tests");
      // The usage of the previous call can be reported in between.
      const next = lines.slice(at + 1).find((line) => line !== "usage_update");
      assert.match(next ?? "", /^agent_message_chunk (done|later)$/);
      assert.equal(lines.filter((line) => line === "user_message_chunk and mind the tests").length, 1);
      // Without an active run it is an ordinary prompt.
      const result = await peer.request("session/prompt", { sessionId, prompt, _meta: { steer: true } });
      assert.deepEqual(result, { stopReason: "end_turn" });
      assert.equal(story(peer).filter((line) => line === "agent_message_chunk prompted").length, 1);
      peer.assertClean();
    });
  });

describe("several ACP clients of one session", { concurrency: 4 }, () => {
  it("session/close by one client ends its own view, not the prompt of another client", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent, toolGate } = processOn(t, new MemoryDriver(new MemoryDocuments()), [
      callTools(["wait", {}]),
      "done",
    ]);
    const server = new MemoryAcp(t, agent);
    const [firstPeer, secondPeer] = [server.connect(), server.connect()];
    for (const peer of [firstPeer, secondPeer]) await peer.initialize();
    const sessionId = await firstPeer.newSession(cwd);
    const result = firstPeer.prompt(sessionId, "x");
    await toolGate.reached;
    await secondPeer.request("session/load", { sessionId, cwd });
    await secondPeer.request("session/close", { sessionId });
    const mark = secondPeer.received.length;
    toolGate.open();
    assert.deepEqual(await result, { stopReason: "end_turn" });
    await secondPeer.request("session/list", {});
    assert.equal(secondPeer.received.length, mark + 1, "it is told nothing more");
  });

  it("receive the latest output of a running command, whichever client prompted; a spec client receives none", async (t) => {
    const { path: cwd } = await tempDir(t);
    const [firstOutputSeen, toolGate] = [gate(), gate()];
    const lines = Array.from({ length: 3_000 }, (_, n) => `line ${n}\n`);
    const chatty = testTool("chatty", async (_args, { progress }) => {
      progress("begun\n");
      await firstOutputSeen.wait();
      for (const line of lines) progress(line);
      await toolGate.wait();
      return { text: "all" };
    });
    const agent = new Agent({
      providers: [new ScriptedProvider([callTools(["chatty", {}]), "done"])],
      tools: [chatty],
      logger: silentLogger,
    });
    t.after(() => agent.close());
    const server = new MemoryAcp(t, agent);
    const [ownPeer, otherPeer, specPeer] = [server.connect(), server.connect(), server.connect()];
    await ownPeer.initialize(EDITOR);
    await otherPeer.initialize(EDITOR);
    await specPeer.initialize();
    for (const peer of [ownPeer, otherPeer]) peer.profile = "official";
    const sessionId = await ownPeer.newSession(cwd);
    for (const peer of [otherPeer, specPeer]) await peer.request("session/load", { sessionId, cwd });
    const result = ownPeer.prompt(sessionId, "x");
    const last = lines.at(-1)!.trim();
    const printed = (peer: AcpPeer): string[] =>
      peer
        .updates()
        .flatMap(({ status, content }) => (status === "in_progress" && content ? [content[0].content.text] : []));
    for (const peer of [ownPeer, otherPeer]) await peer.seen(() => printed(peer).length > 0);
    firstOutputSeen.open();
    for (const peer of [ownPeer, otherPeer]) await peer.seen(() => printed(peer).at(-1)?.includes(last) === true);
    toolGate.open();
    await result;
    for (const peer of [ownPeer, otherPeer]) {
      await peer.seen(() => story(peer).includes("agent_message_chunk done"));
      const texts = printed(peer);
      assert.match(texts[0]!, /^begun/);
      for (const text of texts) assert.ok(text.length < 8_300, `${text.length}`);
      assert.match(texts.at(-1)!, /^\[…\]\nline \d+\n/, "whole lines");
      const states = peer.updates().flatMap(({ status }) => (status === undefined ? [] : [status]));
      assert.equal(states.at(-1), "completed", "nothing is told behind the result");
      peer.assertClean();
    }
    await specPeer.seen(() => story(specPeer).includes("agent_message_chunk done"));
    assert.deepEqual(printed(specPeer), []);
  });

  it("receive the plan once per change and a provider retry once; a late client receives the current plan", async (t) => {
    const { path: cwd } = await tempDir(t);
    const todos = (status: string) => [
      { content: "look", status },
      { content: "mend", status: "pending" },
    ];
    const overloaded = new ProviderError("scripted", "overloaded", "try later", { status: 503, retryAfterMs: 400 });
    const agent = new Agent({
      providers: [
        new ScriptedProvider(
          [
            callTools(["todowrite", { todos: todos("in_progress") }]),
            overloaded,
            callTools(["todowrite", { todos: todos("completed") }]),
            "done",
          ],
          { maxRetries: 1 },
        ),
      ],
      tools: builtinTools(),
      logger: silentLogger,
    });
    t.after(() => agent.close());
    const server = new MemoryAcp(t, agent);
    const [ownPeer, otherPeer, specPeer] = [server.connect(), server.connect(), server.connect()];
    for (const peer of [ownPeer, otherPeer]) await peer.initialize(EDITOR);
    await specPeer.initialize();
    for (const peer of [ownPeer, otherPeer]) peer.profile = "official";
    const sessionId = await ownPeer.newSession(cwd);
    for (const peer of [otherPeer, specPeer]) await peer.request("session/load", { sessionId, cwd });
    await ownPeer.prompt(sessionId, "x");
    const plans = (peer: AcpPeer) =>
      peer
        .updates()
        .flatMap(({ sessionUpdate, entries }) =>
          sessionUpdate === "plan" ? [entries.map((entry: Json) => entry.status)] : [],
        );
    for (const peer of [otherPeer, specPeer]) await peer.seen(ended);
    for (const peer of [ownPeer, otherPeer]) {
      assert.deepEqual(plans(peer), [
        ["in_progress", "pending"],
        ["completed", "pending"],
      ]);
      assert.match(peer.text(sessionId, "agent_thought_chunk"), /^\[scripted: 503: try later; retrying in 1 s\]\n$/);
      peer.assertClean();
    }
    assert.deepEqual(plans(specPeer), []);
    assert.equal(specPeer.text(sessionId, "agent_thought_chunk"), "");
    // A client that joins later receives the current plan, and no retry notice that has ended.
    const lateClient = server.connect();
    await lateClient.initialize(EDITOR);
    await lateClient.request("session/load", { sessionId, cwd });
    assert.deepEqual(plans(lateClient).at(-1), ["completed", "pending"]);
    assert.equal(lateClient.text(sessionId, "agent_thought_chunk"), "");
  });

  it("a client's own prompt is not echoed to it, even if the store confirms the prompt late", async (t) => {
    const { path: cwd } = await tempDir(t);
    const driver = new MemoryDriver(new MemoryDocuments());
    const { agent } = processOn(t, driver, ["one"]);
    const peer = await connectPeer(t, agent);
    const session = await peer.newSession(cwd);
    await peer.request("session/load", { sessionId: session, cwd });
    const watcher = await connectPeer(t, agent);
    await watcher.request("session/load", { sessionId: session, cwd });
    const promptSeen = watcher.seen(({ params }) => params?.update?.sessionUpdate === "user_message_chunk");
    // The run is reported as started when its prompt is on disk. By then another client has already seen the prompt.
    Object.assign(driver, { synced: () => promptSeen });
    await peer.prompt(session, "mine");
    assert.deepEqual(
      story(peer).filter((line) => line !== "usage_update"),
      ["agent_message_chunk one"],
    );
  });

  it("a client that resumes during an answer receives the remaining text and nothing earlier", async (t) => {
    const { path: cwd } = await tempDir(t);
    let go = (): void => undefined;
    const half = new Promise<void>((resolve) => (go = resolve));
    const { agent } = processOn(t, new MemoryDriver(new MemoryDocuments()), ["one", halves(half)]);
    const { sessionId, result } = await agent.run({ message: "x", projectDir: cwd });
    await result;
    const idle = await connectPeer(t, agent);
    await idle.request("session/resume", { sessionId, cwd });
    const run = await agent.run({ message: "y", sessionId });
    await idle.seen(({ params }) => params?.update?.content?.text?.startsWith("first half"));
    assert.deepEqual(story(idle), ["user_message_chunk y", "agent_message_chunk first half, "]);
    const peer = await connectPeer(t, agent);
    await peer.request("session/resume", { sessionId, cwd });
    await peer.request("session/list", {});
    go();
    await run.result;
    await peer.seen(({ params }) => params?.update?.content?.text?.endsWith("second half"));
    assert.equal(peer.text(sessionId), "second half");
    assert.equal(peer.text(sessionId, "user_message_chunk"), "");
  });

  it("a temporary store failure neither loses nor repeats an update", async (t) => {
    const { path: cwd } = await tempDir(t);
    const store = new MemoryDocuments();
    const driver = new MemoryDriver(store);
    const { agent } = processOn(t, driver, ["one", "two"]);
    const peer = await connectPeer(t, agent);
    const session = await peer.newSession(cwd);
    await peer.prompt(session, "mine");
    const messages = driver.messages.bind(driver);
    let failing = true;
    let failed = 0;
    driver.messages = (...args) => {
      if (!failing) return messages(...args);
      failed += 1;
      return Promise.reject(new Error("no disk"));
    };
    const otherProcess = processOn(t, new MemoryDriver(store), ["theirs"]);
    await (
      await otherProcess.agent.run({ message: "x", sessionId: session })
    ).result;
    await until(() => failed > 0);
    failing = false;
    await peer.seen(({ params }) => params?.update?.content?.text === "theirs");
    assert.equal(story(peer).filter((line) => line === "user_message_chunk x").length, 1);
  });
});
