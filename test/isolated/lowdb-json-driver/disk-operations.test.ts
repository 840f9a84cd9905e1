import assert from "node:assert/strict";
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { basename } from "node:path";
import { before, describe, it } from "node:test";
import { Agent } from "gantry";
import type { SessionDriver } from "gantry/plugin";
import { say, ScriptedProvider } from "gantry/testing";
import { acquireLease, releaseLease } from "../../../src/testing/session-driver/driver-calls.js";
import { aMessage, aSession, change } from "../../../src/testing/session-driver/records.js";
import { mockTime } from "../../helpers/fake-time.js";
import { tempDir } from "../../helpers/temp-dir.js";

// Disk operations of a turn, independent of time. A change that needs more operations gives its reason here.

/** File operations since the last reset. */
let recordedCalls: string[] = [];
/** Number of bytes written to the log since the last reset. */
let logBytes = 0;

/** Records file calls. Must run before the driver is loaded, because the driver copies some of the functions. */
function recordFileCalls(): void {
  const paths = new Map<unknown, string>();
  const wrap = (name: keyof typeof fs, record: (args: readonly unknown[], result: unknown) => void): void => {
    const original = fs[name] as (...args: unknown[]) => unknown;
    const recordingFunction = (...args: unknown[]): unknown => {
      const result = original(...args);
      record(args, result);
      return result;
    };
    Object.assign(fs, { [name]: recordingFunction });
  };
  const recordWrite = (file: unknown, length: number): void => {
    const path = String(paths.get(file) ?? file);
    const isLog = basename(path) === "log.jsonl";
    recordedCalls.push(isLog ? "write the log" : "write a file");
    if (isLog) logBytes += length;
  };
  const recordSync = ([file]: readonly unknown[]): void => {
    const path = paths.get(file) ?? "";
    recordedCalls.push(basename(path) === "log.jsonl" ? "sync the log" : "sync a file");
  };
  wrap("openSync", ([path], file) => paths.set(file, String(path)));
  wrap("writeSync", ([file], length) => recordWrite(file, Number(length)));
  const { writeFile } = fs.promises;
  fs.promises.writeFile = (...args: Parameters<typeof writeFile>) => {
    recordWrite(args[0], Buffer.byteLength(String(args[1])));
    return writeFile(...args);
  };
  for (const name of ["fdatasync", "fdatasyncSync", "fsync", "fsyncSync"] as const) wrap(name, recordSync);
  syncBuiltinESMExports();
}

/** Returns the shortest list of operations of three runs, because a background write of a file may add operations. */
async function measureCalls(action: () => Promise<unknown>): Promise<string[]> {
  const callsByRound: string[][] = [];
  for (let i = 0; i < 3; i++) {
    recordedCalls = [];
    await action();
    callsByRound.push(recordedCalls);
  }
  return callsByRound.sort((a, b) => a.length - b.length)[0] ?? [];
}

const LOG_WRITE = ["write the log"];
const SYNCED_LOG_WRITE = [...LOG_WRITE, "sync the log"];

describe("disk operations of LowdbJsonDriver", () => {
  let createDriver: (path: string) => SessionDriver;
  before(async () => {
    recordFileCalls();
    const { LowdbJsonDriver } = await import("gantry/adapters/lowdb-json-driver");
    createDriver = (path) => new LowdbJsonDriver({ path });
  });

  it("a turn writes a line for its lease, and a synced line each for its prompt and its answer", async (t) => {
    // Timers write chain files, which could fall into a turn on a busy machine.
    mockTime(t);
    const folder = await tempDir(t);
    const pendingTitle = new Promise<string>(() => undefined);
    const provider = new ScriptedProvider(
      Array.from({ length: 8 }, () => say("x")),
      { title: () => pendingTitle },
    );
    const projectDir = folder.at("project");
    await fs.promises.mkdir(projectDir);
    const agent = new Agent({ providers: [provider], driver: createDriver(folder.at("sessions")), projectDir });
    t.after(() => agent.close());
    const prompt = async (sessionId?: string): Promise<string> => {
      const run = await agent.run({ message: "x", ...(sessionId === undefined ? {} : { sessionId }) });
      await run.result;
      return run.sessionId;
    };
    const id = await prompt();
    assert.deepEqual(await measureCalls(() => prompt()), [...LOG_WRITE, ...SYNCED_LOG_WRITE, ...SYNCED_LOG_WRITE]);
    assert.deepEqual(await measureCalls(() => prompt(id)), [...LOG_WRITE, ...SYNCED_LOG_WRITE, ...SYNCED_LOG_WRITE]);
  });

  it("20 concurrent creates share one write and one sync", async (t) => {
    const folder = await tempDir(t);
    const driver = createDriver(folder.at("sessions"));
    await driver.open();
    t.after(() => driver.close());
    let round = 0;
    const operations = await measureCalls(() => {
      round++;
      return Promise.all(Array.from({ length: 20 }, (_, n) => driver.create({ session: aSession(`s${round}-${n}`) })));
    });
    assert.deepEqual(operations, SYNCED_LOG_WRITE);
  });

  it("the bytes of a turn grow by less than 20 % within 400 turns", async (t) => {
    const folder = await tempDir(t);
    const driver = createDriver(folder.at("sessions"));
    await driver.open();
    t.after(() => driver.close());
    await driver.create({ session: aSession("a") });
    const text = "x".repeat(1000);
    const writeTurn = async (seq: number): Promise<void> => {
      const { fence, ...leaseFields } = await acquireLease(driver, "a", "h");
      const addMessage = (messageSeq: number) =>
        change({ fence, sync: true, add: [aMessage("a", messageSeq, { parts: [{ type: "text", text }] })] });
      await driver.write("a", addMessage(seq));
      await driver.write("a", addMessage(seq + 1));
      await releaseLease(driver, { fence, ...leaseFields });
    };
    logBytes = 0;
    const bytesByTurn: number[] = [];
    for (let seq = 101; seq < 901; seq += 2) {
      const initialBytes = logBytes;
      await writeTurn(seq);
      bytesByTurn.push(logBytes - initialBytes);
    }
    // A turn also writes the last segment of its chain, which is full at times. The test therefore compares many turns.
    const computeMean = (turns: readonly number[]): number =>
      turns.reduce((sum, turnBytes) => sum + turnBytes, 0) / turns.length;
    const [firstMean, lastMean] = [computeMean(bytesByTurn.slice(0, 100)), computeMean(bytesByTurn.slice(-100))];
    // Allows a longer list of segments, a few more digits, and a line that records a written file.
    assert.ok(lastMean < 1.2 * firstMean, `${firstMean} bytes a turn, then ${lastMean}`);
  });
});
