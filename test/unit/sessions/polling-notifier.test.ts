import assert from "node:assert/strict";
import { it } from "node:test";
import { Agent } from "gantry";
import { PollingNotifier, type Notifier } from "gantry/plugin";
import { LowdbJsonDriver } from "gantry/adapters/lowdb-json-driver";
import { ScriptedProvider } from "gantry/testing";
import { notifierOf } from "../../../src/sessions/polling-notifier.js";
import { tempDir } from "../../helpers/temp-dir.js";

/** Resolves at the next notification. The timer keeps the process alive, which a subscription does not. */
async function waitForNotification(notifier: Notifier, root: string): Promise<void> {
  const keepAliveTimer = setInterval(() => {}, 1000);
  let unsubscribe = () => {};
  await new Promise<void>((resolve) => (unsubscribe = notifier.subscribe(root, resolve)));
  unsubscribe();
  clearInterval(keepAliveTimer);
}

it("PollingNotifier notifies all subscribers after a failed poll, and continues to poll", async () => {
  let pollCount = 0;
  const notifier = new PollingNotifier(() => {
    pollCount += 1;
    if (pollCount === 1) throw new Error("the file is not there");
    return ["b"];
  });
  await Promise.all([waitForNotification(notifier, "a"), waitForNotification(notifier, "b")]);
  await waitForNotification(notifier, "b");
  assert.equal(pollCount, 2);
});

it("the JSON driver notifies of changes by another driver in its process, not of its own changes", async (t) => {
  const folder = await tempDir(t);
  const [firstDriver, secondDriver] = [0, 1].map(() => new LowdbJsonDriver({ path: folder.at("sessions") }));
  assert.ok(firstDriver && secondDriver);
  const agent = new Agent({ driver: firstDriver, providers: [new ScriptedProvider([])] });
  t.after(() => agent.close());
  await secondDriver.open();
  t.after(() => secondDriver.close());
  const { id } = await agent.sessions.create();
  let ownNotificationCount = 0;
  const unsubscribe = notifierOf(firstDriver).subscribe(id, () => (ownNotificationCount += 1));
  const notificationPromise = waitForNotification(notifierOf(secondDriver), id);
  await agent.sessions.delete(id);
  await notificationPromise;
  unsubscribe();
  assert.equal(ownNotificationCount, 0);
  assert.equal(await secondDriver.get(id), undefined);
});
