import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, MemoryDriver, type SessionState } from "gantry";
import { MemoryDocuments, currentHolder } from "gantry/plugin";
import { callTools, ScriptedProvider, type ScriptedChunk } from "gantry/testing";
import { releaseLease } from "../../../src/testing/session-driver/driver-calls.js";
import { aMessage, aResult, aRun, aSession, change } from "../../../src/testing/session-driver/records.js";
import { createGate, createWaitTool } from "../../helpers/gate.js";
import { waitUntil } from "../../helpers/server-runs.js";

/** Reads the state without the messages. */
async function readState(agent: Agent, id: string): Promise<SessionState> {
  for await (const event of agent.sessions.watch(id, { follow: false, afterSeq: Number.MAX_SAFE_INTEGER }))
    if (event.type === "state") return event.state;
  throw new Error("no state");
}

describe("the state of a watched session", () => {
  it("has runningElsewhere true only if its run is active in another process", async (t) => {
    const driver = new MemoryDriver();
    const toolGate = createGate();
    const provider = new ScriptedProvider([callTools(["wait", {}]), "done"]);
    const agent = new Agent({ providers: [provider], driver, tools: [createWaitTool(toolGate)] });
    t.after(() => agent.close());
    const run = await agent.run({ message: "go" });
    const id = run.sessionId;
    await toolGate.firstWait;
    const localState = await readState(agent, id);
    assert.deepEqual([localState.run?.state, localState.runningElsewhere], ["running", false]);
    toolGate.open();
    await run.result;
    assert.equal((await readState(agent, id)).runningElsewhere, false);

    // The lease holder must be a live process, so the parent process is used.
    const holder = { ...currentHolder(), pid: process.ppid, started: "" };
    const lease = await driver.lease(id, holder, 60_000);
    assert.ok("fence" in lease);
    const foreignRun = aRun("theirs", id, { startedAt: new Date(Date.now() + 1).toISOString() });
    await driver.write(id, { ...change({ runs: [foreignRun] }), fence: lease.fence });
    const remoteState = await readState(agent, id);
    assert.deepEqual([remoteState.run?.state, remoteState.runningElsewhere], ["running", true]);
    await releaseLease(driver, lease);
    const finalState = await readState(agent, id);
    assert.deepEqual([finalState.run?.state, finalState.runningElsewhere], ["interrupted", false]);
  });
});

/** Counts the calls of `messages` (`messages`), the returned messages (`rows`) and the calls of `head` (`states`). */
class CountedDriver extends MemoryDriver {
  readonly counts = { messages: 0, rows: 0, states: 0 };

  override async messages(...args: Parameters<MemoryDriver["messages"]>) {
    const messages = await super.messages(...args);
    this.counts.messages += 1;
    this.counts.rows += messages.length;
    return messages;
  }

  override async head(...args: Parameters<MemoryDriver["head"]>) {
    this.counts.states += 1;
    return super.head(...args);
  }
}

describe("the number of store reads for a watched session", () => {
  it("does not grow with the history or with the streamed text", async (t) => {
    const driver = new CountedDriver(new MemoryDocuments());
    const chunks = Array.from({ length: 3000 }, (_, n): ScriptedChunk => ({
      type: "text",
      block: "0",
      text: `w${n} `,
    }));
    const answerGate = createGate();
    const provider = new ScriptedProvider([
      async () => {
        await answerGate.wait();
        return chunks.flatMap((chunk, n) => (n % 100 === 0 ? [chunk, 1] : [chunk]));
      },
    ]);
    const agent = new Agent({ providers: [provider], driver });
    t.after(() => agent.close());
    await agent.sessions.list();
    const messages = Array.from({ length: 2000 }, (_, n) =>
      n % 2 ? aResult("a", n + 1, { name: "read" }) : aMessage("a", n + 1, { role: "assistant" }),
    );
    await driver.create({ session: aSession("a", { projectDir: process.cwd() }), messages: messages });
    await readState(agent, "a");
    assert.ok(driver.counts.rows <= 50, `${driver.counts.rows} rows`);

    const run = await agent.run({ message: "go", sessionId: "a" });
    let readyWatcherCount = 0;
    const watchers = Array.from({ length: 20 }, async () => {
      let text = "";
      for await (const event of agent.sessions.watch("a", { afterSeq: 2000 })) {
        if (event.type === "delta") text += event.text;
        if (event.type === "message" && event.message.seq === 2001) readyWatcherCount += 1;
        if (event.type === "message_end") return text.length;
      }
      return 0;
    });
    await Promise.all([answerGate.firstWait, waitUntil(() => readyWatcherCount === 20)]);
    const initialCounts = { ...driver.counts };
    answerGate.open();
    await run.result;
    for (const textLength of await Promise.all(watchers)) assert.ok(textLength > 10_000);
    // Only the end of the answer, the end of the run and a title change the state.
    assert.ok(driver.counts.states - initialCounts.states < 10, `${driver.counts.states - initialCounts.states} times`);
    assert.ok(driver.counts.rows - initialCounts.rows < 200, `${driver.counts.rows - initialCounts.rows} rows`);
  });
});
