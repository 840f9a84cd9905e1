import assert from "node:assert/strict";
import { basename } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { Agent, builtinTools } from "gantry";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { callTools, say, ScriptedProvider } from "gantry/testing";
import { createTextCache } from "../../../src/files/path-cache.js";
import { acquireLease } from "../../../src/testing/session-driver/driver-calls.js";
import { aMessage, aSession, change } from "../../../src/testing/session-driver/records.js";
import { OperationRecorder } from "../../helpers/operation-recorder.js";
import { mockTime } from "../../helpers/fake-time.js";
import { tempDir } from "../../helpers/temp-dir.js";

// Disk operations of a turn, independent of time. A line is a transaction, a single statement, or a disk sync. A
// change that needs more lines gives its reason here.

const recorder = new OperationRecorder();

const LEASE = "[SELECT sessions, SELECT leases, UPDATE fence, INSERT leases]";
const PROMPT = "[SELECT sessions, UPDATE sessions, INSERT messages, SELECT runs, INSERT runs]";
const ANSWER = "[SELECT sessions, UPDATE sessions, INSERT messages, SELECT runs, UPDATE runs]";
/** The final answer: also releases the lease, and reads late instructions. */
const FINAL_ANSWER = ANSWER.replace("]", ", UPDATE leases, SELECT instructions]");
const RESULT = "[SELECT sessions, UPDATE sessions, INSERT messages]";
const SYNC = "sync";
/** Reads the session, takes the lease, and reads the changes since the first read. The messages are cached. */
const STORED_SESSION = ["SELECT sessions", LEASE.replace("]", ", SELECT sessions, SELECT runs]")];

interface TestAgent {
  /** Runs a prompt. Resolves with the session's id. */
  prompt(message: string, sessionId?: string): Promise<string>;
  createDriver(): SqliteDriver;
  /** Lets the model answer the title requests. Resolves when all titles are stored. */
  answerTitleRequests(): Promise<void>;
}

/** Creates an agent that has completed all one-time work. */
async function createWarmAgent(
  t: TestContext,
  steps: ConstructorParameters<typeof ScriptedProvider>[0],
): Promise<TestAgent> {
  // Timers also poll the store, which could fall into a turn on a busy machine.
  mockTime(t);
  const folder = await tempDir(t, { "project/a.txt": "one\ntwo\n", "home/x": "" });
  let resolveTitles = (): void => undefined;
  const titles = new Promise<void>((resolve) => (resolveTitles = resolve));
  const provider = new ScriptedProvider([say("warm"), say("warm"), ...(steps ?? [])], {
    title: async () => {
      await titles;
      return "A title";
    },
  });
  const deniedOptions = { deniedPaths: [folder.at("home")] };
  const createDriver = (): SqliteDriver => new SqliteDriver({ path: folder.at("sessions.db") });
  const projectDir = folder.at("project");
  const agent = new Agent({
    providers: [provider],
    driver: createDriver(),
    tools: builtinTools(deniedOptions),
    projectDir,
    ...deniedOptions,
  });
  t.after(() => agent.close());
  const prompt = async (message: string, sessionId?: string): Promise<string> => {
    const run = await agent.run({ message, ...(sessionId === undefined ? {} : { sessionId }) });
    await run.result;
    return run.sessionId;
  };
  let titleCount = 0;
  let runCount = 0;
  let onTitle = (): void => undefined;
  agent.on("session.created", () => (runCount += 1));
  agent.on("session.updated", () => {
    titleCount += 1;
    onTitle();
  });
  const answerTitleRequests = async (): Promise<void> => {
    resolveTitles();
    while (titleCount < runCount) await new Promise<void>((resolve) => (onTitle = resolve));
  };
  const id = await prompt("warm");
  await prompt("warm", id);
  return { prompt, createDriver, answerTitleRequests };
}

/** Returns the calls with the base name of each path, without reads of random bytes. */
function shortenPaths(calls: readonly string[]): string[] {
  const shortCalls = calls.map((call) => {
    const [operation = "", ...pathWords] = call.split(" ");
    const path = pathWords.join(" ");
    return `${operation} ${/^(\/proc\/self\/fd\/|\d+$)/.test(path) ? "an open file" : basename(path)}`;
  });
  // Random bytes are fetched for many identifiers at a time, so their reads belong to no particular turn.
  for (let index = shortCalls.indexOf("openSync urandom"); index !== -1; index = shortCalls.indexOf("openSync urandom"))
    assert.deepEqual(shortCalls.splice(index, 3).slice(1), ["readSync an open file", "closeSync an open file"]);
  return shortCalls;
}

/** Lookups of each run in a project without instructions: one for each name of a file or folder. */
const FILE_LOOKUPS = ["stat project", "lstat AGENTS.md", "lstat skills", "lstat skills", "lstat CLAUDE.md"];

describe("disk operations of a turn with SqliteDriver", () => {
  it("a run in a new session takes a lease, and syncs the prompt and the final answer", async (t) => {
    const { prompt, answerTitleRequests } = await createWarmAgent(t, []);
    const { store, files } = await recorder.recordOperations(() => prompt("x"));
    const recentSessions = "[SELECT totals, SELECT sessions]";
    const sessionStart = "[SELECT sessions, SELECT leases, INSERT sessions, INSERT messages, SELECT runs, INSERT runs]";
    assert.deepEqual(store, [recentSessions, LEASE, sessionStart, SYNC, FINAL_ANSWER, SYNC]);
    assert.deepEqual(shortenPaths(files), FILE_LOOKUPS);
    await answerTitleRequests();
  });

  it("a title takes one read and one write without a sync", async (t) => {
    const { answerTitleRequests } = await createWarmAgent(t, []);
    const { store, files } = await recorder.recordOperations(answerTitleRequests);
    assert.deepEqual(store, ["SELECT sessions", "[SELECT sessions, UPDATE sessions]"]);
    assert.deepEqual(shortenPaths(files), []);
  });

  it("a turn of a stored session reads no messages, and syncs the prompt and the final answer", async (t) => {
    const { prompt, answerTitleRequests } = await createWarmAgent(t, []);
    const id = await prompt("x");
    await answerTitleRequests();
    const { store, files } = await recorder.recordOperations(() => prompt("y", id));
    assert.deepEqual(store, [...STORED_SESSION, PROMPT, SYNC, FINAL_ANSWER, SYNC]);
    assert.deepEqual(shortenPaths(files), FILE_LOOKUPS);
  });

  it("a turn with a tool call syncs the prompt, the call, the result and the answer, and opens the file once", async (t) => {
    const readCall = callTools(["read", { path: "a.txt" }]);
    const { prompt, answerTitleRequests } = await createWarmAgent(t, [readCall, say("x"), readCall, say("done")]);
    const id = await prompt("x");
    await answerTitleRequests();
    const { store, files } = await recorder.recordOperations(() => prompt("y", id));
    // A client may have changed the session's mode since the run started.
    const modeRead = "SELECT sessions";
    assert.deepEqual(store, [
      ...STORED_SESSION,
      PROMPT,
      SYNC,
      ANSWER,
      SYNC,
      modeRead,
      RESULT,
      SYNC,
      FINAL_ANSWER,
      SYNC,
    ]);
    if (process.platform !== "linux") return;
    const fileOperations = ["fstatSync", "readlinkSync", "open", "closeSync"].map((call) => `${call} an open file`);
    assert.deepEqual(shortenPaths(files), [...FILE_LOOKUPS, "realpathSync home", "open a.txt", ...fileOperations]);
  });

  it("concurrent writes share one transaction and one sync, with a rejected write among them", async (t) => {
    const { createDriver } = await createWarmAgent(t, []);
    const driver = createDriver();
    await driver.open();
    t.after(() => driver.close());
    await driver.create({ session: aSession("a") });
    await driver.create({ session: aSession("b") });
    const { fence } = await acquireLease(driver, "a", "h");
    const { store } = await recorder.recordOperations(async () => {
      const writes = [
        driver.write("a", change({ fence, sync: true, add: [aMessage("a", 1)] })),
        driver.write("b", change({ fence: 7, sync: true, add: [aMessage("b", 1)] })),
        driver.write("a", change({ fence, add: [aMessage("a", 2)] })),
      ];
      const outcomes = await Promise.allSettled(writes);
      assert.deepEqual(
        outcomes.map(({ status }) => status),
        ["fulfilled", "rejected", "fulfilled"],
      );
    });
    const messageWrite = "SELECT sessions, UPDATE sessions, INSERT messages";
    assert.deepEqual(store, [`[${messageWrite}, SELECT sessions, ROLLBACK, ${messageWrite}]`, SYNC]);
  });

  it("a read of an unchanged cached file takes one lstat", async (t) => {
    const folder = await tempDir(t, { "AGENTS.md": "Use tabs." });
    const cache = createTextCache(100, [], -Infinity);
    const location = { path: folder.at("AGENTS.md"), root: folder.path };
    await cache.read(location);
    const { files } = await recorder.recordOperations(() => cache.read(location));
    assert.deepEqual(shortenPaths(files), ["lstat AGENTS.md"]);
  });
});
