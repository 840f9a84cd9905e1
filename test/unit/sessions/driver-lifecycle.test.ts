import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "gantry";
import { DriverLifecycle, SeqTakenError, type DriverLifecycleOptions } from "gantry/plugin";

function createLifecycle(overrides: Partial<DriverLifecycleOptions<number>> = {}): {
  lifecycle: DriverLifecycle<number>;
  calls: string[];
} {
  const calls: string[] = [];
  let openCount = 0;
  const open = async (): Promise<number> => {
    calls.push(`open ${++openCount}`);
    return openCount;
  };
  const lifecycle = new DriverLifecycle({
    location: "/s",
    open,
    close: (resource) => void calls.push(`close ${resource}`),
    ...overrides,
  });
  return { lifecycle, calls };
}

const createFailingCall = (code: string) => () => Promise.reject(Object.assign(new Error("it failed"), { code }));

describe("DriverLifecycle", () => {
  it("opens once for concurrent calls, closes once, and can be reopened", async () => {
    const { lifecycle, calls } = createLifecycle();
    await Promise.all([lifecycle.open(), lifecycle.open()]);
    await lifecycle.open();
    await Promise.all([lifecycle.close(), lifecycle.close()]);
    await lifecycle.close();
    await lifecycle.open();
    assert.equal(await lifecycle.run((resource) => Promise.resolve(resource)), 2);
    const closePromise = lifecycle.close();
    await lifecycle.open();
    await closePromise;
    await lifecycle.close();
    assert.deepEqual(calls, ["open 1", "close 1", "open 2", "close 2", "open 3", "close 3"]);
  });

  it("closes after a pending open and active calls, and rejects new calls meanwhile", async () => {
    const { lifecycle, calls } = createLifecycle();
    const openPromise = lifecycle.open();
    await lifecycle.close();
    await openPromise;
    await lifecycle.open();
    let endWork = (): void => undefined;
    const workPromise = lifecycle
      .run(() => new Promise<void>((resolve) => (endWork = resolve)))
      .then(() => calls.push("done"));
    const closePromise = lifecycle.close();
    await new Promise((resolve) => setImmediate(resolve));
    await assert.rejects(
      lifecycle.run(() => Promise.resolve()),
      /session store \/s: not open/,
    );
    assert.deepEqual(calls, ["open 1", "close 1", "open 2"]);
    endWork();
    await Promise.all([workPromise, closePromise]);
    assert.deepEqual(calls.slice(3), ["done", "close 2"]);
  });

  it("can be opened again after a failed open", async () => {
    let isFull = true;
    const { lifecycle } = createLifecycle({
      open: () => (isFull ? createFailingCall("ENOSPC")() : Promise.resolve(7)),
    });
    await assert.rejects(lifecycle.open(), (error) => hasCode(error, "store") && error.isFull);
    await assert.rejects(
      lifecycle.run(() => Promise.resolve()),
      /not open/,
    );
    isFull = false;
    await lifecycle.open();
    assert.equal(await lifecycle.run((resource) => Promise.resolve(resource)), 7);
    await lifecycle.close();
  });

  it("adds the store and the reason to each failure, and passes gantry's own errors on", async () => {
    const { lifecycle } = createLifecycle({
      explain: (error) => ((error as { code?: string }).code === "MINE" ? { reason: "mine", isFull: true } : undefined),
    });
    await lifecycle.open();
    for (const [code, pattern, isFull] of [
      ["ENOSPC", /^session store \/s: no space left.*ENOSPC/, true],
      ["EROFS", /^session store \/s: not writable.*EROFS/, false],
      ["MINE", /^session store \/s: mine$/, true],
      ["OTHER", /^session store \/s: it failed$/, false],
    ] as const) {
      const hasExpectedFields = (error: unknown): boolean =>
        hasCode(error, "store") && pattern.test(error.message) && error.isFull === isFull && error.cause !== undefined;
      await assert.rejects(lifecycle.run(createFailingCall(code)), hasExpectedFields, code);
    }
    await assert.rejects(
      lifecycle.run(() => Promise.reject(new SeqTakenError(3))),
      (error) => hasCode(error, "seq_taken"),
    );
    await lifecycle.close();
  });
});
