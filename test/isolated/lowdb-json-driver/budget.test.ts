import assert from "node:assert/strict";
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { basename } from "node:path";
import { before, describe, it } from "node:test";
import { Agent } from "gantry";
import type { SessionDriver } from "gantry/plugin";
import { say, ScriptedProvider } from "gantry/testing";
import { aMessage, aSession, change, acquireLease, releaseLease } from "../../../src/testing/session-driver/rule.js";
import { fakeTime } from "../../helpers/fake-time.js";
import { tempDir } from "../../helpers/temp.js";

// Disk operations of a turn, independent of time. A change that needs more gives its reason here.

/** Operations on files, and bytes written to the log. */
let calls: string[] = [];
let bytes = 0;

/** Runs before the driver is loaded, because the driver copies some of these functions. */
function count(): void {
  const paths = new Map<unknown, string>();
  const wrap = (name: keyof typeof fs, note: (args: readonly unknown[], result: unknown) => void): void => {
    const call = fs[name] as (...args: unknown[]) => unknown;
    const counting = (...args: unknown[]): unknown => {
      const result = call(...args);
      note(args, result);
      return result;
    };
    Object.assign(fs, { [name]: counting });
  };
  const write = (file: unknown, length: number): void => {
    const path = String(paths.get(file) ?? file);
    const isLog = basename(path) === "log.jsonl";
    calls.push(isLog ? "write the log" : "write a file");
    if (isLog) bytes += length;
  };
  const sync = ([file]: readonly unknown[]): void => {
    const path = paths.get(file) ?? "";
    calls.push(basename(path) === "log.jsonl" ? "sync the log" : "sync a file");
  };
  wrap("openSync", ([path], file) => paths.set(file, String(path)));
  wrap("writeSync", ([file], length) => write(file, Number(length)));
  const { writeFile } = fs.promises;
  fs.promises.writeFile = (...args: Parameters<typeof writeFile>) => {
    write(args[0], Buffer.byteLength(String(args[1])));
    return writeFile(...args);
  };
  for (const name of ["fdatasync", "fdatasyncSync", "fsync", "fsyncSync"] as const) wrap(name, sync);
  syncBuiltinESMExports();
}

/** Operations of `work`: the minimum of several runs, because a background write of a file may add some. */
async function callsOf(work: () => Promise<unknown>): Promise<string[]> {
  const each: string[][] = [];
  for (let time = 0; time < 3; time++) {
    calls = [];
    await work();
    each.push(calls);
  }
  return each.sort((a, b) => a.length - b.length)[0] ?? [];
}

const LINE = ["write the log"];
const SYNCED = [...LINE, "sync the log"];

describe("disk operations of LowdbJsonDriver", () => {
  let open: (path: string) => SessionDriver;
  before(async () => {
    count();
    const { LowdbJsonDriver } = await import("gantry/adapters/lowdb-json-driver");
    open = (path) => new LowdbJsonDriver({ path });
  });

  it("a turn writes a line for its lease, and a synced line each for its prompt and its answer", async (t) => {
    // Timers write chain files, which could fall into a turn on a busy machine.
    fakeTime(t);
    const folder = await tempDir(t);
    const never = new Promise<string>(() => undefined);
    const provider = new ScriptedProvider(
      Array.from({ length: 8 }, () => say("x")),
      { title: () => never },
    );
    const projectDir = folder.at("project");
    await fs.promises.mkdir(projectDir);
    const agent = new Agent({ providers: [provider], driver: open(folder.at("sessions")), projectDir });
    t.after(() => agent.close());
    const prompt = async (sessionId?: string): Promise<string> => {
      const run = await agent.run({ message: "x", ...(sessionId === undefined ? {} : { sessionId }) });
      await run.result;
      return run.sessionId;
    };
    const id = await prompt();
    assert.deepEqual(await callsOf(() => prompt()), [...LINE, ...SYNCED, ...SYNCED]);
    assert.deepEqual(await callsOf(() => prompt(id)), [...LINE, ...SYNCED, ...SYNCED]);
  });

  it("20 concurrent creates share one write and one sync", async (t) => {
    const folder = await tempDir(t);
    const driver = open(folder.at("sessions"));
    await driver.open();
    t.after(() => driver.close());
    let round = 0;
    const operations = await callsOf(() => {
      round++;
      return Promise.all(Array.from({ length: 20 }, (_, n) => driver.create({ session: aSession(`s${round}-${n}`) })));
    });
    assert.deepEqual(operations, SYNCED);
  });

  it("the bytes of a turn grow by less than 20 % within 400 turns", async (t) => {
    const folder = await tempDir(t);
    const driver = open(folder.at("sessions"));
    await driver.open();
    t.after(() => driver.close());
    await driver.create({ session: aSession("a") });
    const text = "x".repeat(1000);
    const turn = async (seq: number): Promise<void> => {
      const { fence, ...leaseFields } = await acquireLease(driver, "a", "h");
      const addMessage = (at: number) =>
        change({ fence, sync: true, add: [aMessage("a", at, { parts: [{ type: "text", text }] })] });
      await driver.write("a", addMessage(seq));
      await driver.write("a", addMessage(seq + 1));
      await releaseLease(driver, { fence, ...leaseFields });
    };
    bytes = 0;
    const bytesOfTurns: number[] = [];
    for (let seq = 101; seq < 901; seq += 2) {
      const before = bytes;
      await turn(seq);
      bytesOfTurns.push(bytes - before);
    }
    // A turn also writes the last segment of its chain, which is full at times. The test therefore compares many turns.
    const mean = (turns: readonly number[]): number =>
      turns.reduce((sum, turnBytes) => sum + turnBytes, 0) / turns.length;
    const [first, last] = [mean(bytesOfTurns.slice(0, 100)), mean(bytesOfTurns.slice(-100))];
    // Allows a longer list of segments, a few more digits, and a line that records a written file.
    assert.ok(last < 1.2 * first, `${first} bytes a turn, then ${last}`);
  });
});
