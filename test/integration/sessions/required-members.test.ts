// A driver with the required members of the port only: tests the kernel's replacements for the optional members.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, MemoryDriver, type WatchEvent } from "gantry";
import { MemoryDocuments, type SessionDriver } from "gantry/plugin";
import { ScriptedProvider, sessionDriverChecks } from "gantry/testing";
import { notifierOf } from "../../../src/sessions/polling-notifier.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";

const REQUIRED_METHODS = [
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

function createRequiredDriver(documents: MemoryDocuments): SessionDriver {
  const fullDriver = new MemoryDriver(documents);
  const methods = Object.fromEntries(REQUIRED_METHODS.map((name) => [name, fullDriver[name].bind(fullDriver)]));
  return { name: "required", ...(methods as Pick<SessionDriver, (typeof REQUIRED_METHODS)[number]>) };
}

describe("a driver with only the required members", () => {
  let documents = new MemoryDocuments();
  const openDriver = async (): Promise<SessionDriver> => {
    const driver = createRequiredDriver(documents);
    await driver.open();
    return driver;
  };
  const create = (): Promise<SessionDriver> => {
    documents = new MemoryDocuments();
    return openDriver();
  };
  const checks = sessionDriverChecks({
    create,
    second: openDriver,
    reopen: openDriver,
    clean: () => Promise.resolve(),
  });
  for (const check of checks) it(check.name, () => check.run());
});

describe("drivers with only the required members", () => {
  const createAgents = async (t: Hooks, script: ConstructorParameters<typeof ScriptedProvider>[0]) => {
    const { path: projectDir } = await tempDir(t);
    const documents = new MemoryDocuments();
    const provider = new ScriptedProvider(script);
    const [localAgent, remoteAgent] = [0, 1].map(
      () => new Agent({ driver: createRequiredDriver(documents), providers: [provider], tools: [], projectDir }),
    ) as [Agent, Agent];
    // The timers of a notifier do not keep the process alive.
    const keepAliveTimer = setInterval(() => undefined, 1000);
    t.after(async () => {
      clearInterval(keepAliveTimer);
      await Promise.all([localAgent.close(), remoteAgent.close()]);
    });
    return { localAgent, remoteAgent, provider };
  };

  it("let an agent watch and cancel a run of another agent", async (t) => {
    const { localAgent, remoteAgent, provider } = await createAgents(t, [{ hang: true }]);
    const run = await localAgent.run({ message: "hi" });
    const runResult = run.result.catch((error: unknown) => error);
    const events: WatchEvent[] = [];
    const watchController = new AbortController();
    const watchPromise = (async () => {
      for await (const event of remoteAgent.sessions.watch(run.sessionId, { signal: watchController.signal }))
        events.push(event);
    })().catch(() => undefined);
    await waitUntil(() => provider.requests.length === 1);
    await waitUntil(() => events.some(({ type }) => type === "message"));
    assert.equal((await remoteAgent.runs.cancel(run.id)).state, "cancelled");
    await waitUntil(() => events.some((event) => event.type === "state" && event.state.run?.state === "cancelled"));
    watchController.abort();
    await Promise.all([watchPromise, runResult]);
  });

  it("have one notifier each, which notifies its subscribers periodically", async (t) => {
    const driver = createRequiredDriver(new MemoryDocuments());
    const notifier = notifierOf(driver);
    assert.equal(notifierOf(driver), notifier);
    const keepAliveTimer = setInterval(() => undefined, 1000);
    t.after(() => clearInterval(keepAliveTimer));
    let notificationCount = 0;
    const unsubscribe = notifier.subscribe("any", () => (notificationCount += 1));
    await waitUntil(() => notificationCount > 1);
    unsubscribe();
  });
});
