import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { availableParallelism } from "node:os";
import { describe, it } from "node:test";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { withWorker, type SandboxedWorker } from "../../../src/untrusted/workers.js";
import { ROOT, SOURCE_FLAGS } from "../../helpers/source-paths.js";

const unabortedSignal = new AbortController().signal;
/** An expression whose search in the text of `createEndlessText` would take forever. */
const ENDLESS_SEARCH = { pattern: "(a+)+$", flags: "", contextLineCount: 0, maxKeptLines: 0 };
const createEndlessText = () => new TextEncoder().encode(`${"a".repeat(60)}!`);
const runEndlessSearch = (thread: SandboxedWorker, limitMs: number) =>
  thread.runJob("search", { ...ENDLESS_SEARCH, files: [createEndlessText()] }, { ms: limitMs });
const countMatches = async (thread: SandboxedWorker) =>
  (
    await thread.runJob(
      "search",
      { ...ENDLESS_SEARCH, pattern: "two", files: [new TextEncoder().encode("one\ntwo\n")] },
      { ms: 60_000 },
    )
  )[0]?.count;

/** Runs `action` and counts the turns of the event loop until it ends. 0: the event loop was blocked. */
async function countTurns(action: () => Promise<unknown>): Promise<number> {
  let turnCount = 0;
  const timer = setInterval(() => turnCount++, 5);
  await action().finally(() => clearInterval(timer));
  return turnCount;
}

describe("a worker thread for untrusted input", () => {
  it("is ended at its time limit while the event loop keeps turning", async () => {
    const eventLoopTurns = await countTurns(() =>
      assert.rejects(
        withWorker(unabortedSignal, (thread) => runEndlessSearch(thread, 300)),
        { code: "work_limit", reason: "time" },
      ),
    );
    assert.ok(eventLoopTurns > 1, `${eventLoopTurns} turns`);
    assert.equal(await withWorker(unabortedSignal, countMatches), 1);
  });

  it("is ended at its memory limit while the event loop keeps turning, and a later worker works", async () => {
    const eventLoopTurns = await countTurns(() =>
      assert.rejects(
        withWorker(unabortedSignal, (thread) =>
          thread.runJob(
            "search",
            { ...ENDLESS_SEARCH, pattern: "^", maxKeptLines: 50_000_000, files: [new Uint8Array(12_000_000).fill(10)] },
            { ms: 60_000 },
          ),
        ),
        { code: "work_limit", reason: "memory" },
      ),
    );
    assert.ok(eventLoopTurns > 1, `${eventLoopTurns} turns`);
    assert.equal(await withWorker(unabortedSignal, countMatches), 1);
  });

  it("is ended by the caller's signal or its time limit, and rejects further jobs", async () => {
    const abortController = new AbortController();
    const reason = new Error("cancelled");
    await assert.rejects(
      withWorker(abortController.signal, async (thread) => {
        const pendingSearch = runEndlessSearch(thread, 60_000);
        setImmediate(() => abortController.abort(reason));
        await assert.rejects(pendingSearch, reason);
        return countMatches(thread);
      }),
      reason,
    );
    await assert.rejects(withWorker(abortController.signal, countMatches), reason);
    await assert.rejects(
      withWorker(unabortedSignal, async (thread) => {
        await assert.rejects(runEndlessSearch(thread, 100), { reason: "time" });
        return countMatches(thread);
      }),
      { code: "work_limit", reason: "failed" },
    );
  });

  it("answers three concurrent jobs of one caller", async () => {
    const answers = await withWorker(unabortedSignal, (thread) =>
      Promise.all([countMatches(thread), countMatches(thread), countMatches(thread)]),
    );
    assert.deepEqual(answers, [1, 1, 1]);
  });

  it("waits for a slot when all slots are in use; a cancelled job takes no slot", async () => {
    const maxThreads = Math.max(4, 2 * availableParallelism());
    let runningJobs = 0;
    let maxRunningJobs = 0;
    const runJob = () =>
      withWorker(unabortedSignal, async (thread) => {
        maxRunningJobs = Math.max(maxRunningJobs, ++runningJobs);
        const count = await countMatches(thread);
        runningJobs--;
        return count;
      });
    assert.deepEqual(new Set(await Promise.all(Array.from({ length: maxThreads + 3 }, runJob))), new Set([1]));
    assert.ok(maxRunningJobs <= maxThreads, `${maxRunningJobs} at a time`);
    // A waiting call that is cancelled does not take a slot.
    const abortController = new AbortController();
    let releaseSlots = (): void => undefined;
    const slotReleased = new Promise<void>((resolve) => (releaseSlots = resolve));
    const slotHolders = Array.from({ length: maxThreads }, () => withWorker(unabortedSignal, () => slotReleased));
    const cancelledJob = withWorker(abortController.signal, countMatches);
    abortController.abort(new Error("no more"));
    await assert.rejects(cancelledJob, /no more/);
    const queuedJob = withWorker(unabortedSignal, countMatches);
    releaseSlots();
    await Promise.all(slotHolders);
    assert.equal(await queuedJob, 1);
  });

  it("does not keep the process alive after use", async () => {
    const { stdout } = await promisify(execFile)(...createProcess(`withWorker(signal, countMatches)`));
    assert.equal(stdout, "1\n");
  });

  it("has its whole time limit after its process was suspended", async (t) => {
    const limitMs = 2_000;
    // The search takes about 0.1 s. The process suspends itself as soon as the job is sent.
    const child = spawn(
      ...createProcess(`withWorker(signal, async (thread) => {
        await countMatches(thread);
        const files = [new TextEncoder().encode("a".repeat(22) + "!")];
        const search = { pattern: "(a+)+$", flags: "", contextLineCount: 0, maxKeptLines: 0, files };
        const answer = thread.runJob("search", search, { ms: ${limitMs} });
        await new Promise(setImmediate);
        writeSync(1, "suspended\\n");
        process.kill(process.pid, "SIGSTOP");
        return (await answer)[0].count;
      })`),
    );
    t.after(() => child.kill("SIGKILL"));
    const output = child.stdout.setEncoding("utf8")[Symbol.asyncIterator]();
    assert.equal((await output.next()).value, "suspended\n");
    // Time: the process is suspended for longer than the limit.
    await sleep(limitMs + 200);
    child.kill("SIGCONT");
    assert.equal((await output.next()).value, "0\n");
  });
});

/** Returns arguments for a process that prints the value of an expression. */
function createProcess(expression: string): [string, string[], { cwd: string }] {
  const script = `import { writeSync } from "node:fs";
    import { withWorker } from ${JSON.stringify(pathToFileURL(path.join(ROOT, "src/untrusted/workers.ts")).href)};
    const { signal } = new AbortController();
    const search = { pattern: "two", flags: "", contextLineCount: 0, maxKeptLines: 0 };
    const countMatches = async (thread) =>
      (await thread.runJob("search", { ...search, files: [new TextEncoder().encode("two\\n")] }, { ms: 60_000 }))[0].count;
    console.log(await ${expression});`;
  return [
    process.execPath,
    [...SOURCE_FLAGS, "--input-type=module", "-e", script],
    { cwd: path.join(ROOT, "test/bench") },
  ];
}
