import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { LowdbJsonDriver } from "gantry/adapters/lowdb-json-driver";
import { aMessage, change } from "../../../src/testing/session-driver/records.js";
import { Child } from "../../helpers/child.js";
import { readFileMessages } from "../../helpers/json-file-messages.js";
import { runPrompt, startModelServer, createServerConfig } from "../../helpers/server-runs.js";
import { createRandom, readSeed } from "../../helpers/random.js";
import { runGantry, startServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp-dir.js";

const TRIAL_COUNT = Number(process.env["TRIALS"] ?? 2);
const SEED = readSeed();
/** Maximum number of acknowledged writes between the first write and the kill. */
const MAX_WRITES = 200;

const startChild = (path: string, ...args: string[]): Child =>
  new Child("./session-process.ts", ["json", path, ...args]);

async function openDriver(path: string): Promise<LowdbJsonDriver> {
  const driver = new LowdbJsonDriver({ path });
  await driver.open();
  return driver;
}

/** Opens the store in six processes at once. Returns the successful process, which the errors of the others name. */
async function openConcurrently(path: string): Promise<Child> {
  const children = Array.from({ length: 6 }, () => startChild(path, "hold"));
  await Promise.all(children.map((child) => child.waitForMessage()));
  const pendingReplies = children.map((child) => child.waitForMessage());
  for (const child of children) child.send("go");
  const replies = (await Promise.all(pendingReplies)) as string[];
  const openChildren = children.filter((_, n) => replies[n] === "open");
  assert.equal(openChildren.length, 1, replies.join("\n"));
  const [openChild] = openChildren as [Child];
  for (const [n, child] of children.entries()) {
    if (child === openChild) continue;
    assert.ok(replies[n]?.startsWith(`session store ${path}: the process ${openChild.process.pid} on `), replies[n]);
    assert.match(replies[n] ?? "", /session\.driver to "sqlite"/);
    await child.waitForEnd();
  }
  return openChild;
}

it("one of six processes that open a store at the same time succeeds, also after the previous owner was killed", async (t) => {
  const path = (await tempDir(t)).at("sessions");
  await (await openConcurrently(path)).kill();
  const openChild = await openConcurrently(path);
  openChild.send("close");
  await openChild.waitForEnd();
  assert.deepEqual(await readdir(join(`${path}.d`, "lock")), ["free"]);
});

it(`SIGKILL at random moments loses no acknowledged write (SEED=${SEED})`, async (t) => {
  const random = createRandom(SEED);
  const path = (await tempDir(t)).at("sessions");
  for (let trial = 0; trial < TRIAL_COUNT; trial++) {
    const id = `s${trial}`;
    const child = startChild(path, "append", id);
    await child.waitForLines(1 + Math.floor(random() * MAX_WRITES));
    await child.kill();
    const acknowledgedCount = child.stdout.split("\n").length - 1;
    const driver = await openDriver(path);
    const messages = await driver.messages(id);
    const messageTexts = messages.flatMap((message) => message.parts.map((part) => ("text" in part ? part.text : "")));
    const storedNumbers = messageTexts.join("").split(";").slice(0, -1);
    assert.deepEqual(
      storedNumbers,
      storedNumbers.map((_, n) => `${n}`),
      `trial ${trial}: the writes are stored in order, each once`,
    );
    assert.ok(
      storedNumbers.length >= acknowledgedCount,
      `trial ${trial}: ${acknowledgedCount} acknowledged, ${storedNumbers.length} found`,
    );
    assert.ok(storedNumbers.length <= acknowledgedCount + 1, `trial ${trial}: only sent writes are stored`);
    assert.equal((await driver.get(id))?.lastSeq, messages.at(-1)?.seq, "the index has the last message");
    await driver.write(id, change({ add: [aMessage(id, 1000)] }));
    await driver.close();
    assert.equal(
      (await readFileMessages(join(path, `${id}.json`))).length,
      messages.length + 1,
      "the file has all messages",
    );
  }
});

it("run and sessions list fail with a hint to sqlite while a server has the store open; the list works after a SIGKILL", async (t) => {
  const modelServer = await startModelServer(t);
  const home = await tempDir(t);
  const config = createServerConfig(modelServer, { session: { driver: "json" } });
  const server = await startServer(t, { config, home: home.path });
  const { sessionId, status } = await runPrompt(server, { message: "first" });
  assert.equal(status, 200);
  for (const args of [
    ["run", "second"],
    ["sessions", "list"],
  ]) {
    const { code, stdout, stderr } = await runGantry(t, args, { config, home: home.path });
    assert.deepEqual([code, stdout], [1, ""], stderr);
    assert.match(
      stderr,
      /^gantry: session store \S+: the process \d+ on \S+ has it open.* session\.driver to "sqlite" .*\n$/,
    );
  }
  await server.stop("SIGKILL");
  const { code, stdout, stderr } = await runGantry(t, ["sessions", "list"], { config, home: home.path });
  assert.equal(code, 0, stderr);
  assert.ok(stdout.includes(sessionId.slice(0, 8)), stdout);
});
