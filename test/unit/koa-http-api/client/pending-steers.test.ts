import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { GantryClient, PendingSteers, SessionMirror } from "gantry/client";
import { callTools, type ScriptedStep } from "gantry/testing";
import { gate, waitTool } from "../../../helpers/gate.js";
import { startApi } from "../../../helpers/http-api.js";
import type { Hooks } from "../../../helpers/temp.js";

/** Starts a run on a real server that stays in a tool call until `open`. Returns what a client knows of its session. */
async function working(t: Hooks, ...after: ScriptedStep[]) {
  const tool = gate();
  const api = await startApi(t, { steps: [callTools(["wait", {}]), ...after], agent: { tools: [waitTool(tool)] } });
  const client = new GantryClient({ url: api.url });
  const steers = new PendingSteers(client);
  const page = new SessionMirror();
  const { session_id: id } = await client.begin({ message: "Work" });
  const events = client.sessions.watch(id);
  const returned: string[] = [];
  /** Reads events until `holds` returns true, like a user interface. */
  const until = async (holds: () => boolean) => {
    while (!holds()) {
      const { value } = await events.next();
      if (value) page.apply(value);
      if (value?.type === "state" || value?.type === "message") returned.push(...(await steers.settle(page)));
    }
  };
  const send = (text: string) => steers.send(id, text, page);
  const hasCall = () => page.messages.some(({ tool_calls: calls }) => calls.length > 0);
  const texts = () => page.messages.filter(({ role }) => role === "user").map(({ content }) => content);
  await until(hasCall);
  t.after(async () => void (await events.return()));
  return { client, id, page, steers, send, until, returned, texts, open: () => tool.open() };
}

describe("texts that were sent to a run under way", () => {
  it("are pending until the run reads them, the same text twice too", async (t) => {
    const { steers, send, until, returned, texts, page, open } = await working(t, "Heard.");
    await send("Only in lib");
    await send("Only in lib");
    assert.deepEqual(
      steers.all.map(({ text }) => text),
      ["Only in lib", "Only in lib"],
    );
    open();
    await until(() => page.state?.run?.state === "finished");
    assert.deepEqual(texts(), ["Work", "Only in lib", "Only in lib"]);
    assert.deepEqual([steers.all, returned], [[], []]);
  });

  it("come back once, in their order, when the run is stopped", async (t) => {
    const { client, id, steers, send, until, returned, texts, page } = await working(t);
    await send("One");
    await send("Two");
    await client.sessions.cancel(id);
    await until(() => page.state?.run?.state === "cancelled");
    assert.deepEqual(returned, ["One", "Two"]);
    assert.deepEqual(await steers.settle(page), []);
    assert.deepEqual(texts(), ["Work"]);
  });

  it("come back to a client that sees the stopped run no more, because the next one has begun", async (t) => {
    const { client, id, send, until, returned, texts, page } = await working(t, "Next.");
    await send("One");
    await client.begin({ message: "And then", session_id: id, queue: true });
    await client.sessions.cancel(id, {});
    await until(() => texts().length > 1 && page.state?.run?.state === "finished");
    assert.deepEqual(returned, ["One"]);
    assert.deepEqual(texts(), ["Work", "And then"]);
  });

  it("come back to a client that has stored them, and was away when the run was stopped", async (t) => {
    const { client, id, steers, send, page } = await working(t);
    await send("One");
    const again = new PendingSteers(client, JSON.parse(JSON.stringify(steers.all)) as typeof steers.all);
    await client.sessions.cancel(id);
    const later = new SessionMirror();
    for await (const event of client.sessions.watch(id, { follow: false })) later.apply(event);
    assert.deepEqual(await again.settle(later), ["One"]);
    // The page still shows the earlier state of the run.
    assert.equal(page.state?.run?.state, "running");
    assert.deepEqual(await steers.settle(page), []);
  });

  it("are the next prompt after a run that failed, and do not come back", async (t) => {
    const failure: ScriptedStep = () => {
      throw new Error("no model");
    };
    const { send, steers, until, returned, texts, page, open } = await working(t, failure, "Next.");
    await send("One");
    open();
    await until(() => steers.all.length === 0 && page.state?.run?.state !== "running");
    assert.ok(texts().includes("One"));
    assert.deepEqual(returned, []);
  });

  it("stay pending while the server cannot be asked about their run", async (t) => {
    const { client, id, steers, send } = await working(t);
    await send("One");
    let isAway = true;
    const flaky = new GantryClient({
      url: "http://gantry.invalid",
      fetch: () =>
        isAway ? Promise.reject(new TypeError("away")) : Promise.resolve(new Response("{}", { status: 404 })),
    });
    const elsewhere = new PendingSteers(flaky, steers.all);
    assert.deepEqual(await elsewhere.settle(new SessionMirror()), []);
    assert.equal(elsewhere.all.length, 1);
    isAway = false;
    // The run was deleted together with its session.
    assert.deepEqual(await elsewhere.settle(new SessionMirror()), ["One"]);
    await client.sessions.cancel(id);
  });

  it("are not kept where the server took none", async (t) => {
    const { client, id, page, until, steers, send } = await working(t);
    await client.sessions.cancel(id);
    await until(() => page.state?.run?.state === "cancelled");
    await assert.rejects(send("Too late"), { code: "no_run" });
    assert.deepEqual(steers.all, []);
  });
});
