import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "gantry";
import { DriverLifecycle, SeqTakenError, type DriverLifecycleOptions } from "gantry/plugin";

function lifeOf(parts: Partial<DriverLifecycleOptions<number>> = {}): {
  life: DriverLifecycle<number>;
  calls: string[];
} {
  const calls: string[] = [];
  let count = 0;
  const open = async (): Promise<number> => {
    calls.push(`open ${++count}`);
    return count;
  };
  const life = new DriverLifecycle({
    where: "/s",
    open,
    close: (resource) => void calls.push(`close ${resource}`),
    ...parts,
  });
  return { life, calls };
}

const failing = (code: string) => () => Promise.reject(Object.assign(new Error("it failed"), { code }));

describe("DriverLifecycle", () => {
  it("opens once for concurrent calls, closes once, and can be reopened", async () => {
    const { life, calls } = lifeOf();
    await Promise.all([life.open(), life.open()]);
    await life.open();
    await Promise.all([life.close(), life.close()]);
    await life.close();
    await life.open();
    assert.equal(await life.run((resource) => Promise.resolve(resource)), 2);
    const closing = life.close();
    await life.open();
    await closing;
    await life.close();
    assert.deepEqual(calls, ["open 1", "close 1", "open 2", "close 2", "open 3", "close 3"]);
  });

  it("closes after a pending open and active calls, and rejects new calls meanwhile", async () => {
    const { life, calls } = lifeOf();
    const opening = life.open();
    await life.close();
    await opening;
    await life.open();
    let end = (): void => undefined;
    const work = life.run(() => new Promise<void>((resolve) => (end = resolve))).then(() => calls.push("done"));
    const closing = life.close();
    await new Promise((resolve) => setImmediate(resolve));
    await assert.rejects(
      life.run(() => Promise.resolve()),
      /session store \/s: not open/,
    );
    assert.deepEqual(calls, ["open 1", "close 1", "open 2"]);
    end();
    await Promise.all([work, closing]);
    assert.deepEqual(calls.slice(3), ["done", "close 2"]);
  });

  it("can be opened again after a failed open", async () => {
    let full = true;
    const { life } = lifeOf({ open: () => (full ? failing("ENOSPC")() : Promise.resolve(7)) });
    await assert.rejects(life.open(), (error) => hasCode(error, "store") && error.full);
    await assert.rejects(
      life.run(() => Promise.resolve()),
      /not open/,
    );
    full = false;
    await life.open();
    assert.equal(await life.run((resource) => Promise.resolve(resource)), 7);
    await life.close();
  });

  it("adds the store and the reason to each failure, and passes gantry's own errors on", async () => {
    const { life } = lifeOf({
      explain: (error) => ((error as { code?: string }).code === "MINE" ? { reason: "mine", full: true } : undefined),
    });
    await life.open();
    for (const [code, expected, full] of [
      ["ENOSPC", /^session store \/s: no space left.*ENOSPC/, true],
      ["EROFS", /^session store \/s: not writable.*EROFS/, false],
      ["MINE", /^session store \/s: mine$/, true],
      ["OTHER", /^session store \/s: it failed$/, false],
    ] as const) {
      const isExpected = (error: unknown): boolean =>
        hasCode(error, "store") && expected.test(error.message) && error.full === full && error.cause !== undefined;
      await assert.rejects(life.run(failing(code)), isExpected, code);
    }
    await assert.rejects(
      life.run(() => Promise.reject(new SeqTakenError(3))),
      (error) => hasCode(error, "seq_taken"),
    );
    await life.close();
  });
});
