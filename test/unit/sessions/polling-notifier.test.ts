import assert from "node:assert/strict";
import { it } from "node:test";
import { Agent } from "gantry";
import { PollingNotifier, type Notifier } from "gantry/plugin";
import { LowdbJsonDriver } from "gantry/adapters/lowdb-json-driver";
import { ScriptedProvider } from "gantry/testing";
import { notifierOf } from "../../../src/sessions/polling-notifier.js";
import { tempDir } from "../../helpers/temp.js";

/** Resolves with the next notification. A subscription alone does not keep the process alive. */
async function hint(notifier: Notifier, root: string): Promise<void> {
  const awake = setInterval(() => {}, 1000);
  let end = () => {};
  await new Promise<void>((resolve) => (end = notifier.subscribe(root, resolve)));
  end();
  clearInterval(awake);
}

it("a look that fails is a hint to all, and the process goes on", async () => {
  let looks = 0;
  const notifier = new PollingNotifier(() => {
    looks += 1;
    if (looks === 1) throw new Error("the file is not there");
    return ["b"];
  });
  await Promise.all([hint(notifier, "a"), hint(notifier, "b")]);
  await hint(notifier, "b");
  assert.equal(looks, 2);
});

it("json: a driver hears of what another one of its process published, not of its own", async (t) => {
  const folder = await tempDir(t);
  const [firstDriver, secondDriver] = [0, 1].map(() => new LowdbJsonDriver({ path: folder.at("sessions") }));
  assert.ok(firstDriver && secondDriver);
  const agent = new Agent({ driver: firstDriver, providers: [new ScriptedProvider([])] });
  t.after(() => agent.close());
  await secondDriver.open();
  t.after(() => secondDriver.close());
  const { id } = await agent.sessions.create();
  let ownHints = 0;
  const end = notifierOf(firstDriver).subscribe(id, () => (ownHints += 1));
  const foreignHint = hint(notifierOf(secondDriver), id);
  await agent.sessions.delete(id);
  await foreignHint;
  end();
  assert.equal(ownHints, 0);
  assert.equal(await secondDriver.get(id), undefined);
});
