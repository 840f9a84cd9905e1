import assert from "node:assert/strict";
import { basename } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { Agent, builtinTools } from "gantry";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { callTools, say, ScriptedProvider } from "gantry/testing";
import { knownFiles } from "../../../src/files/known-file.js";
import { aMessage, aSession, change, leaseOf } from "../../../src/testing/session-driver/rule.js";
import { Counted } from "../../helpers/counted.js";
import { fakeTime } from "../../helpers/fake-time.js";
import { tempDir } from "../../helpers/temp.js";

// What a turn asks of the disk, whatever the clock says. A line is a transaction, or a statement outside of one, or a sync
// of the disk. Who needs one more says why, here.

const counted = new Counted();

const LEASE = "[SELECT sessions, SELECT leases, UPDATE fence, INSERT leases]";
const PROMPT = "[SELECT sessions, UPDATE sessions, INSERT messages, SELECT runs, INSERT runs]";
const ANSWER = "[SELECT sessions, UPDATE sessions, INSERT messages, SELECT runs, UPDATE runs]";
/** That with the end: the lease goes back, and what came too late for the run is told. */
const END = ANSWER.replace("]", ", UPDATE leases, SELECT instructions]");
const RESULT = "[SELECT sessions, UPDATE sessions, INSERT messages]";
const SYNC = "sync";
/** The session as it is, then with the lease what changed of it; what was said is at hand. */
const GO_ON = ["SELECT sessions", LEASE.replace("]", ", SELECT sessions, SELECT runs]")];

interface Made {
  /** Resolves with the session's id. */
  prompt(message: string, sessionId?: string): Promise<string>;
  driver(): SqliteDriver;
  /** Have the model give its titles. */
  giveTitles(): Promise<void>;
}

/** An agent that has done all that is done once, and what it is to do then. */
async function warm(t: TestContext, steps: ConstructorParameters<typeof ScriptedProvider>[0]): Promise<Made> {
  // A store is looked at by timers too, which a turn of a busy machine would meet.
  fakeTime(t);
  const folder = await tempDir(t, { "project/a.txt": "one\ntwo\n", "home/x": "" });
  let give = (): void => undefined;
  const titles = new Promise<void>((resolve) => (give = resolve));
  const provider = new ScriptedProvider([say("warm"), say("warm"), ...(steps ?? [])], {
    title: async () => {
      await titles;
      return "A title";
    },
  });
  const denied = { deniedPaths: [folder.at("home")] };
  const open = (): SqliteDriver => new SqliteDriver({ path: folder.at("sessions.db") });
  const projectDir = folder.at("project");
  const agent = new Agent({
    providers: [provider],
    driver: open(),
    tools: builtinTools(denied),
    projectDir,
    ...denied,
  });
  t.after(() => agent.close());
  const prompt = async (message: string, sessionId?: string): Promise<string> => {
    const run = await agent.run({ message, ...(sessionId === undefined ? {} : { sessionId }) });
    await run.result;
    return run.sessionId;
  };
  let titled = 0;
  let runs = 0;
  let told = (): void => undefined;
  agent.on("session.created", () => (runs += 1));
  agent.on("session.updated", () => {
    titled += 1;
    told();
  });
  const giveTitles = async (): Promise<void> => {
    give();
    while (titled < runs) await new Promise<void>((resolve) => (told = resolve));
  };
  const id = await prompt("warm");
  await prompt("warm", id);
  return { prompt, driver: open, giveTitles };
}

/** By the last name of each path. */
function names(calls: readonly string[]): string[] {
  const told = calls.map((call) => {
    const [what = "", ...rest] = call.split(" ");
    const path = rest.join(" ");
    return `${what} ${/^(\/proc\/self\/fd\/|\d+$)/.test(path) ? "what is open" : basename(path)}`;
  });
  // Random bytes are had for many identifiers at once: whose turn that is in says nothing of a turn.
  for (let at = told.indexOf("openSync urandom"); at !== -1; at = told.indexOf("openSync urandom"))
    assert.deepEqual(told.splice(at, 3).slice(1), ["readSync what is open", "closeSync what is open"]);
  return told;
}

/** What each run looks at of a project that says nothing of itself: one look at each name. */
const LOOKS = ["stat project", "lstat AGENTS.md", "lstat skills", "lstat skills", "lstat CLAUDE.md"];

describe("what a turn asks of the disk", () => {
  it("a fresh run: its lease, its session with the prompt, its answer with its end", async (t) => {
    const { prompt, giveTitles } = await warm(t, []);
    const { store, files } = await counted.of(() => prompt("x"));
    const recent = "[SELECT totals, SELECT sessions]";
    const begin = "[SELECT sessions, SELECT leases, INSERT sessions, INSERT messages, SELECT runs, INSERT runs]";
    assert.deepEqual(store, [recent, LEASE, begin, SYNC, END, SYNC]);
    assert.deepEqual(names(files), LOOKS);
    await giveTitles();
  });

  it("a title: one look and one change, not waited for", async (t) => {
    const { giveTitles } = await warm(t, []);
    const { store, files } = await counted.of(giveTitles);
    assert.deepEqual(store, ["SELECT sessions", "[SELECT sessions, UPDATE sessions]"]);
    assert.deepEqual(names(files), []);
  });

  it("a turn on a stored session: nothing of what was said is read again", async (t) => {
    const { prompt, giveTitles } = await warm(t, []);
    const id = await prompt("x");
    await giveTitles();
    const { store, files } = await counted.of(() => prompt("y", id));
    assert.deepEqual(store, [...GO_ON, PROMPT, SYNC, END, SYNC]);
    assert.deepEqual(names(files), LOOKS);
  });

  it("a tool turn: the call before it runs, its result, the answer; and the file, once", async (t) => {
    const read = callTools(["read", { path: "a.txt" }]);
    const { prompt, giveTitles } = await warm(t, [read, say("x"), read, say("done")]);
    const id = await prompt("x");
    await giveTitles();
    const { store, files } = await counted.of(() => prompt("y", id));
    // Somebody may have put the session in another mode since the run began.
    const mode = "SELECT sessions";
    assert.deepEqual(store, [...GO_ON, PROMPT, SYNC, ANSWER, SYNC, mode, RESULT, SYNC, END, SYNC]);
    if (process.platform !== "linux") return;
    const opened = ["fstatSync", "readlinkSync", "open", "closeSync"].map((call) => `${call} what is open`);
    assert.deepEqual(names(files), [...LOOKS, "realpathSync home", "open a.txt", ...opened]);
  });

  it("changes that nobody waited for: one transaction and one sync for all, a refused one among them", async (t) => {
    const { driver: open } = await warm(t, []);
    const driver = open();
    await driver.open();
    t.after(() => driver.close());
    await driver.create({ session: aSession("a") });
    await driver.create({ session: aSession("b") });
    const { fence } = await leaseOf(driver, "a", "h");
    const { store } = await counted.of(async () => {
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
    const one = "SELECT sessions, UPDATE sessions, INSERT messages";
    assert.deepEqual(store, [`[${one}, SELECT sessions, ROLLBACK, ${one}]`, SYNC]);
  });

  it("a file that every run wants: one look at its name, when it is the one that was read", async (t) => {
    const folder = await tempDir(t, { "AGENTS.md": "Use tabs." });
    const file = knownFiles(100, [], -Infinity);
    const place = { path: folder.at("AGENTS.md"), root: folder.path };
    await file.read(place);
    const { files } = await counted.of(() => file.read(place));
    assert.deepEqual(names(files), ["lstat AGENTS.md"]);
  });
});
