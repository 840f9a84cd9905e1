import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, it, type TestContext } from "node:test";
import { callStep, textStep } from "../../helpers/fake-model-server.js";
import { startModelServer, createServerConfig } from "../../helpers/server-runs.js";
import { runGantry, spawnGantry, startServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp-dir.js";

/** A title with control characters that clear a terminal, reverse its text direction and begin a new line. */
const UNSAFE_TITLE = "evil \u001b[2J\u202e\u0007 title\nnext";

async function createFixture(t: TestContext) {
  // The model never returns a title, so the title is taken from the prompt.
  const modelServer = await startModelServer(t, { toolFreeAnswer: { say: [{ stall: true }] } });
  const home = await tempDir(t);
  const project = await tempDir(t);
  const options = { home: home.path, projectDir: project.path, config: createServerConfig(modelServer) };
  const gantry = (...args: string[]) => runGantry(t, args, options);
  const listSessions = async (...args: string[]) =>
    JSON.parse((await gantry("sessions", "list", "--json", ...args)).stdout) as { id: string; title: string }[];
  return { modelServer, options, gantry, listSessions };
}

describe("gantry sessions list", () => {
  it("prints a table or JSON, last used first, filtered by --search, --folder and --limit", async (t) => {
    const { gantry, listSessions, options } = await createFixture(t);
    const emptyListRun = await gantry("sessions", "list");
    assert.deepEqual([emptyListRun.code, emptyListRun.stdout, emptyListRun.stderr], [0, "", "no sessions\n"]);
    assert.deepEqual(await listSessions(), []);
    for (const prompt of ["first thing", "second thing", "third"]) await gantry("run", "--quiet", prompt);
    const sessions = await listSessions();
    assert.deepEqual(
      sessions.map(({ title }) => title),
      ["third", "second thing", "first thing"],
    );
    assert.ok(sessions.every((session) => !("permissionGrants" in session)));
    const table = await gantry("sessions", "list");
    const [headerRow, ...rows] = table.stdout.trimEnd().split("\n");
    assert.match(headerRow ?? "", /^ID +LAST USED +TOKENS +COST +MODEL +TITLE$/);
    assert.deepEqual(
      rows.map((row) => row.split(/ {2,}/)[0]),
      sessions.map(({ id }) => id),
    );
    assert.match(rows[0] ?? "", / {2}\d{4}-\d\d-\d\d \d\d:\d\d .* no price known +m1 +third$/);
    assert.deepEqual((await listSessions("--search", "THING")).length, 2);
    const firstPage = await gantry("sessions", "list", "--limit", "1");
    assert.equal(firstPage.stdout.trimEnd().split("\n").length, 2);
    assert.equal(firstPage.stderr, "1 of 3 sessions; --limit 0 lists all\n");
    assert.equal((await listSessions("--limit", "0")).length, 3);
    assert.equal((await listSessions("--folder", ".")).length, 3);
    assert.equal((await listSessions("--folder", options.home)).length, 0);
    assert.match((await gantry("sessions", "list", "--limit", "1.5")).stderr, /--limit: expected a whole number/);
  });

  it("omits archived sessions, which --archived lists; archive and unarchive change nothing for an unknown id", async (t) => {
    const { gantry, listSessions } = await createFixture(t);
    for (const prompt of ["first", "second"]) await gantry("run", "--quiet", prompt);
    const listTitles = async (...args: string[]) => (await listSessions(...args)).map(({ title }) => title);
    const [second, first] = await listSessions();
    const failedRun = await gantry("sessions", "archive", first!.id, "nope");
    assert.deepEqual([failedRun.code, failedRun.stderr], [1, "gantry: session not found: nope\n"]);
    assert.equal((await listTitles()).length, 2);
    const archiveRun = await gantry("sessions", "archive", first!.id);
    assert.deepEqual([archiveRun.code, archiveRun.stderr], [0, "1 session archived\n"]);
    assert.deepEqual([await listTitles(), await listTitles("--archived")], [["second"], ["first"]]);
    const { stdout: exportedLines } = await gantry("sessions", "export", first!.id);
    assert.match(exportedLines, /"archived":true/);
    const unarchiveRun = await gantry("sessions", "unarchive", first!.id, second!.id);
    assert.deepEqual([unarchiveRun.code, unarchiveRun.stderr], [0, "2 sessions unarchived\n"]);
    assert.deepEqual([await listTitles(), await listTitles("--archived")], [["second", "first"], []]);
  });

  it("lists 206 sessions, more than one page", async (t) => {
    const { listSessions, options, gantry } = await createFixture(t);
    await gantry("run", "--quiet", "x");
    const { stdout } = await gantry("sessions", "export");
    const chainCopies = Array.from({ length: 205 }, (_, i) => {
      const lines = stdout.trimEnd().split("\n").slice(1).join("\n");
      const ids = new Set(lines.match(/[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g));
      // Each copy gets its own ids: the last four digits of each id are replaced.
      return [...ids].reduce(
        (text, id) => text.replaceAll(id, id.slice(0, -4) + (i + 0x1000).toString(16).padStart(4, "0")),
        lines,
      );
    });
    const header = stdout.split("\n")[0] ?? "";
    const importRun = await runGantry(t, ["sessions", "import"], {
      ...options,
      input: [header, ...chainCopies, ""].join("\n"),
    });
    assert.equal(importRun.code, 0, importRun.stderr);
    const allSessions = await listSessions("--limit", "0");
    assert.equal(new Set(allSessions.map(({ id }) => id)).size, 206);
    assert.equal((await listSessions("--limit", "203")).length, 203);
  });
});

describe("gantry sessions show", () => {
  it("prints the messages with control characters escaped, JSON with --json, and only the last messages with --last", async (t) => {
    const { modelServer, gantry, listSessions } = await createFixture(t);
    modelServer.enqueue(callStep("list", {}), textStep("It is \u001b[31mempty."));
    await gantry("run", "--quiet", UNSAFE_TITLE);
    const [session] = await listSessions();
    assert.ok(session);
    assert.equal(session.title, "evil \u001b[2J\u202e\u0007 title next");
    const { stdout: table } = await gantry("sessions", "list");
    const showRun = await gantry("sessions", "show", session.id);
    assert.equal(showRun.code, 0);
    for (const text of [table, showRun.stdout]) {
      assert.ok(![..."\u001b\u0007\u202e"].some((character) => text.includes(character)), JSON.stringify(text));
      assert.ok(text.includes("evil \\u001b[2J\\u202e\\u0007 title next"), text);
    }
    assert.match(showRun.stdout, /^Session +\S+\nTitle .*\nFolder .*\nModel +lab\/m1\nMode +auto\nUsage /);
    assert.match(showRun.stdout, /--- User, .*\nevil .*\nnext\n\n--- Assistant, .*\n> list \{\}\n\n--- Tool list, /);
    assert.match(showRun.stdout, /--- Assistant, .*\nIt is \\u001b\[31mempty\.\n$/);
    const jsonOutput = JSON.parse((await gantry("sessions", "show", session.id, "--json")).stdout) as {
      session: { id: string };
      messages: { role: string; seq: number }[];
    };
    assert.equal(jsonOutput.session.id, session.id);
    assert.deepEqual(
      jsonOutput.messages.map(({ role }) => role),
      ["user", "assistant", "tool", "assistant"],
    );
    const lastMessageRun = await gantry("sessions", "show", session.id, "--last", "1");
    assert.equal(lastMessageRun.stdout.match(/^---/gm)?.length, 1);
    const missingSessionRun = await gantry("sessions", "show", "nowhere");
    assert.deepEqual(
      [missingSessionRun.code, missingSessionRun.stdout, missingSessionRun.stderr],
      [1, "", "gantry: session not found: nowhere\n"],
    );
    assert.match((await gantry("sessions", "show")).stderr, /expected the id of one session/);
  });
});

describe("gantry sessions undo", () => {
  it("reverts files and messages of the last run, reports conflicts, and restores them with --redo", async (t) => {
    const { modelServer, gantry, listSessions, options } = await createFixture(t);
    const file = path.join(options.projectDir, "a.txt");
    await writeFile(file, "one\n");
    modelServer.enqueue(
      callStep("write", { path: "a.txt", content: "two\n" }),
      callStep("write", { path: "new/b.txt", content: "b\n" }),
    );
    modelServer.enqueue(textStep("Done."));
    await gantry("run", "--quiet", "change it");
    assert.equal(await readFile(file, "utf8"), "two\n");
    const id = (await listSessions())[0]?.id ?? "";
    const dryRun = await gantry("sessions", "undo", id, "--dry-run");
    assert.deepEqual(
      [dryRun.code, dryRun.stdout, dryRun.stderr],
      [0, "restored   a.txt\nremoved    new/b.txt\n", "would be undone: 2 paths\n"],
    );
    await writeFile(file, "mine\n");
    const conflictRun = await gantry("sessions", "undo", id);
    assert.equal(conflictRun.code, 1);
    assert.match(conflictRun.stdout, /^conflict {3}a\.txt: another program changed it since\n/);
    assert.match(conflictRun.stderr, /nothing was undone; --force overwrites\n$/);
    assert.equal(await readFile(file, "utf8"), "mine\n");
    const forcedRun = await gantry("sessions", "undo", id, "--force", "--json");
    assert.equal(forcedRun.code, 0, forcedRun.stderr);
    const undoResult = JSON.parse(forcedRun.stdout) as { done: boolean; files: { outcome: string }[] };
    assert.deepEqual(
      [undoResult.done, undoResult.files.map(({ outcome }) => outcome)],
      [true, ["restored", "removed"]],
    );
    assert.equal(await readFile(file, "utf8"), "one\n");
    assert.equal(existsSync(path.join(options.projectDir, "new")), false);
    assert.doesNotMatch((await gantry("sessions", "show", id)).stdout, /--- User/);
    const secondUndoRun = await gantry("sessions", "undo", id);
    assert.deepEqual([secondUndoRun.code, secondUndoRun.stderr], [1, "there is no run to undo\n"]);
    const redoRun = await gantry("sessions", "undo", id, "--redo");
    assert.equal(redoRun.code, 0, redoRun.stderr);
    assert.equal(await readFile(file, "utf8"), "mine\n");
    assert.match((await gantry("sessions", "show", id)).stdout, /--- User/);
    assert.equal((await gantry("sessions", "undo", "nowhere")).code, 1);
    const config = { ...options.config, session: { rewind: false } };
    const disabledRun = await runGantry(t, ["sessions", "undo", id], { ...options, config });
    assert.deepEqual(
      [disabledRun.code, disabledRun.stderr],
      [1, "gantry: sessions undo: disabled by session.rewind in the config\n"],
    );
    assert.equal(await readFile(file, "utf8"), "mine\n");
    await gantry("sessions", "list");
    assert.match(
      (await gantry("sessions", "undo", id, "--redo", "--to", "x")).stderr,
      /it cannot be combined with --to, --files-only or --messages-only/,
    );
  });
});

describe("gantry sessions undo --force", () => {
  it("reports paths that could not be changed separately from changed paths", async (t) => {
    const { modelServer, gantry, listSessions, options } = await createFixture(t);
    await mkdir(path.join(options.projectDir, "d"));
    for (const name of ["d/a.txt", "d/b.txt"]) await writeFile(path.join(options.projectDir, name), "old\n");
    modelServer.enqueue(
      ...["d/a.txt", "d/b.txt", "c.txt"].map((name) => callStep("write", { path: name, content: "new\n" })),
    );
    modelServer.enqueue(textStep("Done."));
    await gantry("run", "--quiet", "change it");
    const id = (await listSessions())[0]?.id ?? "";
    const otherFolder = await tempDir(t, { "a.txt": "not of the project", "b.txt": "nor this" });
    await rm(path.join(options.projectDir, "d"), { recursive: true });
    await symlink(otherFolder.path, path.join(options.projectDir, "d"));
    const partialRun = await gantry("sessions", "undo", id, "--force");
    assert.deepEqual([partialRun.code, partialRun.stderr], [1, "undone: 1 path; 2 paths could not be changed\n"]);
    assert.match(partialRun.stdout, /^removed +c\.txt\nfailed +d\/a\.txt: .*\nfailed +d\/b\.txt: .*\n$/);
  });
});

describe("gantry sessions delete", () => {
  it("requires --yes without a terminal, and deletes no session if one id is unknown", async (t) => {
    const { gantry, listSessions } = await createFixture(t);
    for (const prompt of ["one", "two"]) await gantry("run", "--quiet", prompt);
    const ids = (await listSessions()).map(({ id }) => id);
    const unconfirmedRun = await gantry("sessions", "delete", ...ids);
    assert.deepEqual([unconfirmedRun.code, unconfirmedRun.stdout], [1, ""]);
    assert.match(unconfirmedRun.stderr, /no terminal for the confirmation; use --yes to delete without it/);
    const unknownIdRun = await gantry("sessions", "delete", "--yes", ...ids, "nowhere");
    assert.deepEqual([unknownIdRun.code, unknownIdRun.stderr], [1, "gantry: session not found: nowhere\n"]);
    assert.equal((await listSessions()).length, 2);
    const deleteRun = await gantry("sessions", "delete", "--yes", ...ids);
    assert.equal(deleteRun.code, 0, deleteRun.stderr);
    assert.match(deleteRun.stderr, /^\S+ {2}two\n\S+ {2}one\n2 sessions deleted\n$/);
    assert.deepEqual(await listSessions(), []);
    assert.match((await gantry("sessions", "delete", "--yes")).stderr, /expected the ids of sessions/);
  });

  it(
    "asks for confirmation on a terminal",
    { skip: !canCreateTerminal() && "there is no script of util-linux" },
    async (t) => {
      const { gantry, listSessions, options } = await createFixture(t);
      await gantry("run", "--quiet", "keep or not");
      const [session] = await listSessions();
      for (const [answer, code, remainingCount] of [
        ["\n", 1, 1],
        ["no\n", 1, 1],
        ["\u0003", 130, 1],
        ["y\n", 0, 0],
      ] as const) {
        const deleteProcess = await spawnGantry(t, {
          ...options,
          args: ["sessions", "delete", session?.id ?? ""],
          commandPrefix: ["sh", "-c", 'exec script -qec "$(printf "\'%s\' " "$@")" /dev/null', "script"],
        });
        await deleteProcess.waitForOutput(/keep or not\r\nDelete this session for good\? \[y\/N\] $/);
        deleteProcess.child.stdin.write(answer);
        assert.equal((await deleteProcess.exited).code, code, deleteProcess.stdout);
        assert.equal((await listSessions()).length, remainingCount);
      }
    },
  );

  it("deletes a session whose run is in progress in a server", async (t) => {
    const { modelServer, options, gantry, listSessions } = await createFixture(t);
    const server = await startServer(t, options);
    modelServer.enqueue({ say: [{ text: "On and on" }, { stall: true }] });
    const startResponse = await server.fetch("/api/run", { method: "POST", body: '{"message":"x","background":true}' });
    assert.equal(startResponse.status, 202);
    await modelServer.waitForRequest(1);
    const [session] = await listSessions();
    assert.equal((await gantry("sessions", "delete", "--yes", session?.id ?? "")).code, 0);
    assert.deepEqual(await listSessions(), []);
    assert.equal((await server.fetch(`/api/sessions/${session?.id}`)).status, 404);
  });
});

describe("gantry models", () => {
  it("lists the models of all providers with limits and prices, and warns about an unreachable provider", async (t) => {
    const modelServer = await startModelServer(t, { models: ["m1", "maker/m2", "evil\u001b[2J"] });
    const [providerConfig] = createServerConfig(modelServer)["providers"] as [Record<string, unknown>];
    const models = [{ id: "m1", context_window: 200_000, max_output: 8_000, cost: { input: 1.5, output: 2 } }];
    const config = {
      providers: [
        { ...providerConfig, models },
        { name: "away", driver: "openai", base_url: "http://127.0.0.1:9/v1", api_key: "x" },
      ],
    };
    const gantry = (...args: string[]) => runGantry(t, ["models", ...args], { config });
    const listRun = await gantry();
    assert.equal(listRun.code, 0, listRun.stderr);
    assert.match(listRun.stdout, /^MODEL +WINDOW +OUTPUT +\$ IN +\$ OUT +CAN\n/);
    assert.match(listRun.stdout, /^lab\/m1 +200,000 +8,000 +1\.5 +2$/m);
    assert.match(listRun.stdout, /^lab\/maker\/m2/m);
    assert.ok(!listRun.stdout.includes("\u001b"), listRun.stdout);
    assert.match(listRun.stderr, /warn .*away/, "an unreachable provider is reported");
    const searchRun = await gantry("MAKER", "--json");
    assert.deepEqual(
      (JSON.parse(searchRun.stdout) as { provider: string; model: { id: string } }[]).map(({ provider, model }) => [
        provider,
        model.id,
      ]),
      [["lab", "maker/m2"]],
    );
    const noMatchRun = await gantry("nothing");
    assert.deepEqual([noMatchRun.code, noMatchRun.stdout], [1, ""]);
    assert.match(noMatchRun.stderr, /^none of 2 models has "nothing" in its name$/m);
  });
});

/** Whether `script` of util-linux can create a terminal. */
function canCreateTerminal(): boolean {
  try {
    return execFileSync("script", ["-qec", "tty", "/dev/null"], { stdio: ["ignore", "pipe", "ignore"] })
      .toString()
      .startsWith("/dev/");
  } catch {
    return false;
  }
}
