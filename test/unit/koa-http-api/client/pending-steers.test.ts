import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { GantryClient, PendingSteers, SessionMirror } from "gantry/client";
import { callTools, type ScriptedStep } from "gantry/testing";
import { gate, waitTool } from "../../../helpers/gate.js";
import { startApi } from "../../../helpers/http-api.js";
import type { Hooks } from "../../../helpers/temp.js";

/** Starts a run on a real server that stays in a tool call until `open`. Returns a client and its page of the session. */
async function startWorkingRun(t: Hooks, ...after: ScriptedStep[]) {
  const tool = gate();
  const api = await startApi(t, { steps: [callTools(["wait", {}]), ...after], agent: { tools: [waitTool(tool)] } });
  const client = new GantryClient({ url: api.url });
  const steers = new PendingSteers(client);
  const page = new SessionMirror();
  const { session_id: id } = await client.start({ message: "Work" });
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

describe("PendingSteers", () => {
  it("keeps texts pending until the run reads them, even the same text twice", async (t) => {
    const { steers, send, until, returned, texts, page, open } = await startWorkingRun(t, "Heard.");
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

  it("returns unread texts once and in order when the run is cancelled", async (t) => {
    const { client, id, steers, send, until, returned, texts, page } = await startWorkingRun(t);
    await send("One");
    await send("Two");
    await client.sessions.cancel(id);
    await until(() => page.state?.run?.state === "cancelled");
    assert.deepEqual(returned, ["One", "Two"]);
    assert.deepEqual(await steers.settle(page), []);
    assert.deepEqual(texts(), ["Work"]);
  });

  it("returns an unread text of a cancelled run even if the page already shows the next run", async (t) => {
    const { client, id, send, until, returned, texts, page } = await startWorkingRun(t, "Next.");
    await send("One");
    await client.start({ message: "And then", session_id: id, queue: true });
    await client.sessions.cancel(id, {});
    await until(() => texts().length > 1 && page.state?.run?.state === "finished");
    assert.deepEqual(returned, ["One"]);
    assert.deepEqual(texts(), ["Work", "And then"]);
  });

  it("returns an unread text to a client that stored it and was offline when the run was cancelled", async (t) => {
    const { client, id, steers, send, page } = await startWorkingRun(t);
    await send("One");
    const restoredSteers = new PendingSteers(client, JSON.parse(JSON.stringify(steers.all)) as typeof steers.all);
    await client.sessions.cancel(id);
    const later = new SessionMirror();
    for await (const event of client.sessions.watch(id, { follow: false })) later.apply(event);
    assert.deepEqual(await restoredSteers.settle(later), ["One"]);
    // The page still shows the earlier state of the run.
    assert.equal(page.state?.run?.state, "running");
    assert.deepEqual(await steers.settle(page), []);
  });

  it("returns nothing after a failed run, whose unread text becomes a user message", async (t) => {
    const failure: ScriptedStep = () => {
      throw new Error("no model");
    };
    const { send, steers, until, returned, texts, page, open } = await startWorkingRun(t, failure, "Next.");
    await send("One");
    open();
    await until(() => steers.all.length === 0 && page.state?.run?.state !== "running");
    assert.ok(texts().includes("One"));
    assert.deepEqual(returned, []);
  });

  it("keeps a text pending while the server is unreachable, and returns it if the run no longer exists", async (t) => {
    const { client, id, steers, send } = await startWorkingRun(t);
    await send("One");
    let isOffline = true;
    const flaky = new GantryClient({
      url: "http://gantry.invalid",
      fetch: () =>
        isOffline ? Promise.reject(new TypeError("away")) : Promise.resolve(new Response("{}", { status: 404 })),
    });
    const unreachableSteers = new PendingSteers(flaky, steers.all);
    assert.deepEqual(await unreachableSteers.settle(new SessionMirror()), []);
    assert.equal(unreachableSteers.all.length, 1);
    isOffline = false;
    // The run was deleted together with its session.
    assert.deepEqual(await unreachableSteers.settle(new SessionMirror()), ["One"]);
    await client.sessions.cancel(id);
  });

  it("keeps no text that the server rejected", async (t) => {
    const { client, id, page, until, steers, send } = await startWorkingRun(t);
    await client.sessions.cancel(id);
    await until(() => page.state?.run?.state === "cancelled");
    await assert.rejects(send("Too late"), { code: "no_run" });
    assert.deepEqual(steers.all, []);
  });
});
