// A driver with the required members of the port only: tests the kernel's replacements for the optional members.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, MemoryDriver, type WatchEvent } from "gantry";
import { MemoryDocuments, type SessionDriver } from "gantry/plugin";
import { ScriptedProvider, sessionDriverChecks } from "gantry/testing";
import { notifierOf } from "../../../src/sessions/polling-notifier.js";
import { until } from "../../helpers/lab.js";
import { tempDir, type Hooks } from "../../helpers/temp.js";

const METHODS = [
  "open",
  "close",
  "create",
  "get",
  "head",
  "list",
  "messages",
  "runs",
  "asks",
  "instructions",
  "write",
  "delete",
  "lease",
  "dump",
  "load",
] as const;

function requiredOf(documents: MemoryDocuments): SessionDriver {
  const fullDriver = new MemoryDriver(documents);
  const methods = Object.fromEntries(METHODS.map((name) => [name, fullDriver[name].bind(fullDriver)]));
  return { name: "required", ...(methods as Pick<SessionDriver, (typeof METHODS)[number]>) };
}

describe("a driver with only the required members", () => {
  let documents = new MemoryDocuments();
  const opened = async (): Promise<SessionDriver> => {
    const driver = requiredOf(documents);
    await driver.open();
    return driver;
  };
  const create = (): Promise<SessionDriver> => {
    documents = new MemoryDocuments();
    return opened();
  };
  const checks = sessionDriverChecks({ create, second: opened, reopen: opened, clean: () => Promise.resolve() });
  for (const check of checks) it(check.name, () => check.run());
});

describe("two agents on drivers with only the required members", () => {
  const two = async (t: Hooks, script: ConstructorParameters<typeof ScriptedProvider>[0]) => {
    const { path: projectDir } = await tempDir(t);
    const documents = new MemoryDocuments();
    const provider = new ScriptedProvider(script);
    const [localAgent, remoteAgent] = [0, 1].map(
      () => new Agent({ driver: requiredOf(documents), providers: [provider], tools: [], projectDir }),
    ) as [Agent, Agent];
    // The timers of a notifier do not keep the process alive.
    const alive = setInterval(() => undefined, 1000);
    t.after(async () => {
      clearInterval(alive);
      await Promise.all([localAgent.close(), remoteAgent.close()]);
    });
    return { here: localAgent, there: remoteAgent, provider };
  };

  it("watch and cancel each other's runs", async (t) => {
    const { here: localAgent, there: remoteAgent, provider } = await two(t, [{ hang: true }]);
    const run = await localAgent.run({ message: "hi" });
    const ended = run.result.catch((error: unknown) => error);
    const events: WatchEvent[] = [];
    const watching = new AbortController();
    const watched = (async () => {
      for await (const event of remoteAgent.sessions.watch(run.sessionId, { signal: watching.signal }))
        events.push(event);
    })().catch(() => undefined);
    await until(() => provider.requests.length === 1);
    await until(() => events.some(({ type }) => type === "message"));
    assert.equal((await remoteAgent.runs.cancel(run.id)).state, "cancelled");
    await until(() => events.some((event) => event.type === "state" && event.state.run?.state === "cancelled"));
    watching.abort();
    await Promise.all([watched, ended]);
  });

  it("notifierOf() returns one notifier per driver, which notifies its subscribers periodically", async (t) => {
    const driver = requiredOf(new MemoryDocuments());
    const notifier = notifierOf(driver);
    assert.equal(notifierOf(driver), notifier);
    const alive = setInterval(() => undefined, 1000);
    t.after(() => clearInterval(alive));
    let hints = 0;
    const end = notifier.subscribe("any", () => (hints += 1));
    await until(() => hints > 1);
    end();
  });
});
