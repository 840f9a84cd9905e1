import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { availableParallelism } from "node:os";
import { describe, it } from "node:test";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { withWorker, type SandboxedWorker } from "../../../src/untrusted/workers.js";
import { ROOT, SOURCE_FLAGS } from "../../helpers/node.js";

const never = new AbortController().signal;
/** An expression that would run forever on a matching text. */
const FOR_EVER = { pattern: "(a+)+$", flags: "", context: 0, maxKeptLines: 0 };
const line = () => new TextEncoder().encode(`${"a".repeat(60)}!`);
const search = (thread: SandboxedWorker, ms: number) =>
  thread.runJob("search", { ...FOR_EVER, files: [line()] }, { ms });
const words = async (thread: SandboxedWorker) =>
  (
    await thread.runJob(
      "search",
      { ...FOR_EVER, pattern: "two", files: [new TextEncoder().encode("one\ntwo\n")] },
      { ms: 60_000 },
    )
  )[0]?.count;

/** Runs `work` and counts the turns of the event loop until it ends. 0: the event loop was blocked. */
async function beside(work: () => Promise<unknown>): Promise<number> {
  let turns = 0;
  const clock = setInterval(() => turns++, 5);
  await work().finally(() => clearInterval(clock));
  return turns;
}

describe("a thread for foreign input", () => {
  it("is ended when its time is over, and the event loop goes on meanwhile", async () => {
    const turns = await beside(() =>
      assert.rejects(
        withWorker(never, (thread) => search(thread, 300)),
        { code: "work_limit", reason: "time" },
      ),
    );
    assert.ok(turns > 1, `${turns} turns`);
    assert.equal(await withWorker(never, words), 1);
  });

  it("is ended when it needs too much memory, and nobody else is", async () => {
    const turns = await beside(() =>
      assert.rejects(
        withWorker(never, (thread) =>
          thread.runJob(
            "search",
            { ...FOR_EVER, pattern: "^", maxKeptLines: 50_000_000, files: [new Uint8Array(12_000_000).fill(10)] },
            { ms: 60_000 },
          ),
        ),
        { code: "work_limit", reason: "memory" },
      ),
    );
    assert.ok(turns > 1, `${turns} turns`);
    assert.equal(await withWorker(never, words), 1);
  });

  it("is ended with the signal of whoever asked, and not asked again", async () => {
    const abort = new AbortController();
    const reason = new Error("cancelled");
    await assert.rejects(
      withWorker(abort.signal, async (thread) => {
        const searching = search(thread, 60_000);
        setImmediate(() => abort.abort(reason));
        await assert.rejects(searching, reason);
        return words(thread);
      }),
      reason,
    );
    await assert.rejects(withWorker(abort.signal, words), reason);
    await assert.rejects(
      withWorker(never, async (thread) => {
        await assert.rejects(search(thread, 100), { reason: "time" });
        return words(thread);
      }),
      { code: "work_limit", reason: "failed" },
    );
  });

  it("answers in order, also beside a question that is still at work", async () => {
    const answers = await withWorker(never, (thread) => Promise.all([words(thread), words(thread), words(thread)]));
    assert.deepEqual(answers, [1, 1, 1]);
  });

  it("waits its turn when there are many, and its time begins then", async () => {
    const most = Math.max(4, 2 * availableParallelism());
    let now = 0;
    let highest = 0;
    const runJob = () =>
      withWorker(never, async (thread) => {
        highest = Math.max(highest, ++now);
        const count = await words(thread);
        now--;
        return count;
      });
    assert.deepEqual(new Set(await Promise.all(Array.from({ length: most + 3 }, runJob))), new Set([1]));
    assert.ok(highest <= most, `${highest} at a time`);
    // A waiting call that is cancelled does not take a slot.
    const abort = new AbortController();
    let release = (): void => undefined;
    const held = new Promise<void>((resolve) => (release = resolve));
    const holders = Array.from({ length: most }, () => withWorker(never, () => held));
    const late = withWorker(abort.signal, words);
    abort.abort(new Error("no more"));
    await assert.rejects(late, /no more/);
    const later = withWorker(never, words);
    release();
    await Promise.all(holders);
    assert.equal(await later, 1);
  });

  it("keeps no program alive that has used it", async () => {
    const script = `import { withWorker } from ${JSON.stringify(pathToFileURL(path.join(ROOT, "src/untrusted/workers.ts")).href)};
      const { signal } = new AbortController();
      console.log(await withWorker(signal, (thread) => thread.runJob("ready", {}, { ms: 60_000 })));`;
    const { stdout } = await promisify(execFile)(
      process.execPath,
      [...SOURCE_FLAGS, "--input-type=module", "-e", script],
      { cwd: path.join(ROOT, "test/bench") },
    );
    assert.equal(stdout, "null\n");
  });
});
