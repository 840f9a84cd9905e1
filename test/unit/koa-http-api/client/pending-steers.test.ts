import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { GantryClient, PendingSteers, SessionMirror } from "gantry/client";
import { callTools, type ScriptedStep } from "gantry/testing";
import { createGate, createWaitTool } from "../../../helpers/gate.js";
import { startApi } from "../../../helpers/http-api.js";
import type { Hooks } from "../../../helpers/temp-dir.js";

/** Starts a run that waits in a tool call until `open` is called. Returns a client and its mirror of the session. */
async function startWorkingRun(t: Hooks, ...followingSteps: ScriptedStep[]) {
  const toolGate = createGate();
  const api = await startApi(t, {
    steps: [callTools(["wait", {}]), ...followingSteps],
    agent: { tools: [createWaitTool(toolGate)] },
  });
  const client = new GantryClient({ url: api.url });
  const steers = new PendingSteers(client);
  const page = new SessionMirror();
  const { session_id: id } = await client.start({ message: "Work" });
  const events = client.sessions.watch(id);
  const returnedTexts: string[] = [];
  /** Applies events to the page until `isExpected` returns true. */
  const readUntil = async (isExpected: () => boolean) => {
    while (!isExpected()) {
      const { value } = await events.next();
      if (value) page.apply(value);
      if (value?.type === "state" || value?.type === "message") returnedTexts.push(...(await steers.settle(page)));
    }
  };
  const sendSteer = (text: string) => steers.send(id, text, page);
  const hasToolCall = () => page.messages.some(({ tool_calls: calls }) => calls.length > 0);
  const getUserTexts = () => page.messages.filter(({ role }) => role === "user").map(({ content }) => content);
  await readUntil(hasToolCall);
  t.after(async () => void (await events.return()));
  return { client, id, page, steers, sendSteer, readUntil, returnedTexts, getUserTexts, open: () => toolGate.open() };
}

describe("PendingSteers", () => {
  it("keeps texts pending until the run reads them, including equal texts", async (t) => {
    const { steers, sendSteer, readUntil, returnedTexts, getUserTexts, page, open } = await startWorkingRun(
      t,
      "Heard.",
    );
    await sendSteer("Only in lib");
    await sendSteer("Only in lib");
    assert.deepEqual(
      steers.all.map(({ text }) => text),
      ["Only in lib", "Only in lib"],
    );
    open();
    await readUntil(() => page.state?.run?.state === "finished");
    assert.deepEqual(getUserTexts(), ["Work", "Only in lib", "Only in lib"]);
    assert.deepEqual([steers.all, returnedTexts], [[], []]);
  });

  it("returns unread texts once and in order when the run is cancelled", async (t) => {
    const { client, id, steers, sendSteer, readUntil, returnedTexts, getUserTexts, page } = await startWorkingRun(t);
    await sendSteer("One");
    await sendSteer("Two");
    await client.sessions.cancel(id);
    await readUntil(() => page.state?.run?.state === "cancelled");
    assert.deepEqual(returnedTexts, ["One", "Two"]);
    assert.deepEqual(await steers.settle(page), []);
    assert.deepEqual(getUserTexts(), ["Work"]);
  });

  it("returns an unread text of a cancelled run even if the page already shows the next run", async (t) => {
    const { client, id, sendSteer, readUntil, returnedTexts, getUserTexts, page } = await startWorkingRun(t, "Next.");
    await sendSteer("One");
    await client.start({ message: "And then", session_id: id, queue: true });
    await client.sessions.cancel(id, {});
    await readUntil(() => getUserTexts().length > 1 && page.state?.run?.state === "finished");
    assert.deepEqual(returnedTexts, ["One"]);
    assert.deepEqual(getUserTexts(), ["Work", "And then"]);
  });

  it("returns an unread text to a client that stored the text and was offline when the run was cancelled", async (t) => {
    const { client, id, steers, sendSteer, page } = await startWorkingRun(t);
    await sendSteer("One");
    const restoredSteers = new PendingSteers(client, JSON.parse(JSON.stringify(steers.all)) as typeof steers.all);
    await client.sessions.cancel(id);
    const laterPage = new SessionMirror();
    for await (const event of client.sessions.watch(id, { follow: false })) laterPage.apply(event);
    assert.deepEqual(await restoredSteers.settle(laterPage), ["One"]);
    // The page still shows the earlier state of the run.
    assert.equal(page.state?.run?.state, "running");
    assert.deepEqual(await steers.settle(page), []);
  });

  it("returns nothing after a failed run, whose unread text becomes a user message", async (t) => {
    const failingStep: ScriptedStep = () => {
      throw new Error("no model");
    };
    const { sendSteer, steers, readUntil, returnedTexts, getUserTexts, page, open } = await startWorkingRun(
      t,
      failingStep,
      "Next.",
    );
    await sendSteer("One");
    open();
    await readUntil(() => steers.all.length === 0 && page.state?.run?.state !== "running");
    assert.ok(getUserTexts().includes("One"));
    assert.deepEqual(returnedTexts, []);
  });

  it("keeps a text pending while the server is unreachable, and returns it if the run no longer exists", async (t) => {
    const { client, id, steers, sendSteer } = await startWorkingRun(t);
    await sendSteer("One");
    let isOffline = true;
    const flakyClient = new GantryClient({
      url: "http://gantry.invalid",
      fetch: () =>
        isOffline ? Promise.reject(new TypeError("away")) : Promise.resolve(new Response("{}", { status: 404 })),
    });
    const unreachableSteers = new PendingSteers(flakyClient, steers.all);
    assert.deepEqual(await unreachableSteers.settle(new SessionMirror()), []);
    assert.equal(unreachableSteers.all.length, 1);
    isOffline = false;
    // The run was deleted together with its session.
    assert.deepEqual(await unreachableSteers.settle(new SessionMirror()), ["One"]);
    await client.sessions.cancel(id);
  });

  it("discards a text that the server rejects", async (t) => {
    const { client, id, page, readUntil, steers, sendSteer } = await startWorkingRun(t);
    await client.sessions.cancel(id);
    await readUntil(() => page.state?.run?.state === "cancelled");
    await assert.rejects(sendSteer("Too late"), { code: "no_run" });
    assert.deepEqual(steers.all, []);
  });
});
