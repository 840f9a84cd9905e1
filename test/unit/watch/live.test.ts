import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, MemoryDriver, type SessionState } from "gantry";
import { MemoryDocuments, currentHolder } from "gantry/plugin";
import { callTools, ScriptedProvider, type ScriptedChunk } from "gantry/testing";
import { aMessage, aResult, aRun, aSession, change, releaseLease } from "../../../src/testing/session-driver/rule.js";
import { gate, waitTool } from "../../helpers/gate.js";
import { until } from "../../helpers/lab.js";

async function stateOf(agent: Agent, id: string): Promise<SessionState> {
  for await (const event of agent.sessions.watch(id, { follow: false, afterSeq: Number.MAX_SAFE_INTEGER }))
    if (event.type === "state") return event.state;
  throw new Error("no state");
}

describe("the state of a watched session", () => {
  it("reports whether its run is active in another process", async (t) => {
    const driver = new MemoryDriver();
    const open = gate();
    const provider = new ScriptedProvider([callTools(["wait", {}]), "done"]);
    const agent = new Agent({ providers: [provider], driver, tools: [waitTool(open)] });
    t.after(() => agent.close());
    const run = await agent.run({ message: "go" });
    const id = run.sessionId;
    await open.reached;
    const localState = await stateOf(agent, id);
    assert.deepEqual([localState.run?.state, localState.runningElsewhere], ["running", false]);
    open.open();
    await run.result;
    assert.equal((await stateOf(agent, id)).runningElsewhere, false);

    // The parent process is alive.
    const holder = { ...currentHolder(), pid: process.ppid, started: "" };
    const lease = await driver.lease(id, holder, 60_000);
    assert.ok("fence" in lease);
    const foreignRun = aRun("theirs", id, { startedAt: new Date(Date.now() + 1).toISOString() });
    await driver.write(id, { ...change({ runs: [foreignRun] }), fence: lease.fence });
    const remoteState = await stateOf(agent, id);
    assert.deepEqual([remoteState.run?.state, remoteState.runningElsewhere], ["running", true]);
    await releaseLease(driver, lease);
    const over = await stateOf(agent, id);
    assert.deepEqual([over.run?.state, over.runningElsewhere], ["interrupted", false]);
  });
});

/** Counts the calls and rows. */
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
    const words = Array.from({ length: 3000 }, (_, n): ScriptedChunk => ({ type: "text", block: "0", text: `w${n} ` }));
    const hold = gate();
    const provider = new ScriptedProvider([
      async () => {
        await hold.wait();
        return words.flatMap((word, n) => (n % 100 === 0 ? [word, 1] : [word]));
      },
    ]);
    const agent = new Agent({ providers: [provider], driver });
    t.after(() => agent.close());
    await agent.sessions.list();
    const messages = Array.from({ length: 2000 }, (_, n) =>
      n % 2 ? aResult("a", n + 1, { name: "read" }) : aMessage("a", n + 1, { role: "assistant" }),
    );
    await driver.create({ session: aSession("a", { projectDir: process.cwd() }), messages: messages });
    await stateOf(agent, "a");
    assert.ok(driver.counts.rows <= 50, `${driver.counts.rows} rows`);

    const run = await agent.run({ message: "go", sessionId: "a" });
    let begun = 0;
    const watchers = Array.from({ length: 20 }, async () => {
      let text = "";
      for await (const event of agent.sessions.watch("a", { afterSeq: 2000 })) {
        if (event.type === "delta") text += event.text;
        if (event.type === "message" && event.message.seq === 2001) begun += 1;
        if (event.type === "message_end") return text.length;
      }
      return 0;
    });
    await Promise.all([hold.reached, until(() => begun === 20)]);
    const before = { ...driver.counts };
    hold.open();
    await run.result;
    for (const length of await Promise.all(watchers)) assert.ok(length > 10_000);
    // Only the end of the answer, the end of the run and a title change the state.
    assert.ok(driver.counts.states - before.states < 10, `${driver.counts.states - before.states} times`);
    assert.ok(driver.counts.rows - before.rows < 200, `${driver.counts.rows - before.rows} rows`);
  });
});
