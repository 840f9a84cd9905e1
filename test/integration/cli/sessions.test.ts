import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent } from "gantry";
import type { ChainData, SessionDriver } from "gantry/plugin";
import { LowdbJsonDriver } from "gantry/adapters/lowdb-json-driver";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { callTools, ScriptedProvider } from "gantry/testing";
import { findNewest } from "../../../src/testing/session-driver/driver-calls.js";
import { runGantry } from "../../helpers/server.js";
import { makeTempDir, tempDir, type TempDir } from "../../helpers/temp-dir.js";

const createSqliteDriver = (home: TempDir) => new SqliteDriver({ path: home.at("sessions.db") });
const createJsonDriver = (home: TempDir) => new LowdbJsonDriver({ path: home.at("sessions") });

async function dumpChains(driver: SessionDriver): Promise<(ChainData | undefined)[]> {
  await driver.open();
  const { sessions } = await driver.list({ limit: 100 });
  const chains = await Promise.all(sessions.map(({ id }) => driver.dump(id)));
  await driver.close();
  return chains;
}

/** Creates a compacted chain with a fork and a revert, and a session with an alias. Returns the first ids of both. */
async function createSessions(driver: SessionDriver, projectDir: string): Promise<string[]> {
  const provider = new ScriptedProvider([callTools(["none", { a: "\u2028 Ü" }]), "It is done."]);
  const agent = new Agent({ providers: [provider], driver, projectDir, compaction: { contextWindow: 4_000 } });
  const sendMessage = async (message: string, sessionId?: string) => {
    const run = await agent.run({ message, ...(sessionId === undefined ? {} : { sessionId }) });
    await run.result;
    return run.sessionId;
  };
  const chainId = await sendMessage("First 👩‍💻");
  // These messages exceed the context window, so that the chain is compacted.
  for (let n = 0; n < 6; n++) await sendMessage("long ".repeat(800) + n, chainId);
  assert.ok((await findNewest(driver, chainId))?.chain.index, "the chain was compacted");
  const messages = await agent.sessions.messages(chainId);
  await agent.sessions.fork(chainId, messages[3]!.id);
  await agent.sessions.revert(chainId, messages.at(-3)!.id);
  const otherSession = await agent.sessions.create({ alias: "other-name" });
  await sendMessage("Second", otherSession.id);
  await agent.close();
  return [chainId, otherSession.id];
}

function parseLines(text: string): Record<string, unknown>[] {
  const lines = text.trimEnd().split("\n");
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}

describe("gantry sessions export and import", () => {
  it("copy equal sessions from SQLite to JSON and back", async (t) => {
    const [source, target, restoredHome] = [await tempDir(t), await tempDir(t), await tempDir(t)];
    const project = await tempDir(t);
    await createSessions(createSqliteDriver(source), project.path);
    const originalChains = await dumpChains(createSqliteDriver(source));
    assert.equal(originalChains.length, 3);
    const exportRun = await runGantry(t, ["sessions", "export"], { home: source.path });
    assert.equal(exportRun.code, 0, exportRun.stderr);
    assert.equal(exportRun.stderr, "");

    const importRun = await runGantry(t, ["sessions", "import", "--session-driver", "json"], {
      home: target.path,
      input: exportRun.stdout,
    });
    assert.equal(importRun.code, 0, importRun.stderr);
    assert.equal(importRun.stderr, "3 sessions imported\n");
    assert.deepEqual(await dumpChains(createJsonDriver(target)), originalChains);

    const secondExport = await runGantry(t, ["sessions", "export", "--session-driver", "json"], { home: target.path });
    assert.deepEqual(parseLines(secondExport.stdout), parseLines(exportRun.stdout));
    await runGantry(t, ["sessions", "import"], { home: restoredHome.path, input: secondExport.stdout });
    assert.deepEqual(await dumpChains(createSqliteDriver(restoredHome)), originalChains);
  });

  it("export one session by its alias, and skip stored sessions on import", async (t) => {
    const home = await tempDir(t);
    const [, otherId] = await createSessions(createSqliteDriver(home), home.path);
    const exportRun = await runGantry(t, ["sessions", "export", "other-name"], { home: home.path });
    const lines = parseLines(exportRun.stdout);
    assert.deepEqual(lines[0], { gantry: "sessions", version: 1 });
    assert.equal(lines[1]?.["root"], otherId);
    assert.deepEqual(
      lines.map(({ type }) => type),
      [undefined, "chain", "session", "message", "message", "run", "end"],
    );
    const repeatedImport = await runGantry(t, ["sessions", "import"], { home: home.path, input: exportRun.stdout });
    assert.equal(repeatedImport.code, 0);
    assert.equal(repeatedImport.stderr, "0 sessions imported, 1 session skipped (already stored)\n");
    const unknownSessionRun = await runGantry(t, ["sessions", "export", "nothing"], { home: home.path });
    assert.deepEqual([unknownSessionRun.code, unknownSessionRun.stderr], [1, "gantry: session not found: nothing\n"]);
  });

  it("import no permission grants, and no mode with more permissions than the config", async (t) => {
    const source = await tempDir(t);
    const agent = new Agent({ driver: createSqliteDriver(source), providers: [new ScriptedProvider([])] });
    const ids: string[] = [];
    for (const mode of ["auto", "plan"] as const) {
      const { id } = await agent.sessions.create({ projectDir: source.path });
      await agent.sessions.update(id, { mode });
      ids.push(id);
    }
    await agent.close();
    const driver = createSqliteDriver(source);
    await driver.open();
    const grant = { tool: "bash", scope: "x", title: "x", grantedBy: "x", grantedAt: new Date().toISOString() };
    await driver.write(ids[0]!, { fence: null, sync: true, set: { permissionGrants: [grant] } });
    await driver.close();
    const exportRun = await runGantry(t, ["sessions", "export"], { home: source.path });
    assert.match(exportRun.stdout, /"tool":"bash"/);
    for (const [config, expectedModes] of [
      [{}, ["auto", "plan"]],
      [{ permissions: { mode: "ask" } }, ["ask", "plan"]],
    ] as const) {
      const home = await tempDir(t);
      const { code, stderr } = await runGantry(t, ["sessions", "import"], {
        home: home.path,
        config,
        input: exportRun.stdout,
      });
      assert.equal(code, 0, stderr);
      const importDriver = createSqliteDriver(home);
      await importDriver.open();
      const sessions = await Promise.all(ids.map((id) => importDriver.get(id)));
      await importDriver.close();
      assert.deepEqual(
        sessions.map((session) => [session?.mode, session?.permissionGrants]),
        expectedModes.map((mode) => [mode, []]),
      );
    }
  });

  it("reject an invalid export with the number of the invalid line, and store no incomplete session", async (t) => {
    await using source = await makeTempDir();
    await createSessions(createSqliteDriver(source), source.path);
    const exportedLines = (await runGantry(t, ["sessions", "export"], { home: source.path })).stdout.split("\n");
    const assertRejected = async (lines: string[], message: RegExp, storedCount: number) => {
      const home = await tempDir(t);
      const run = await runGantry(t, ["sessions", "import"], { home: home.path, input: lines.join("\n") });
      assert.equal(run.code, 1, run.stderr);
      assert.match(run.stderr, message);
      assert.equal((await dumpChains(createSqliteDriver(home))).length, storedCount);
    };
    const firstEndIndex = exportedLines.findIndex((line) => line.startsWith('{"type":"end"'));
    await assertRejected([""], /line 1: expected \{"gantry":"sessions","version":1\}/, 0);
    await assertRejected(["hello"], /line 1: expected JSON/, 0);
    await assertRejected(['{"a":1}'], /line 1: .*no export of sessions/, 0);
    await assertRejected(['{"gantry":"sessions","version":2}'], /line 1: expected \{"gantry"/, 0);
    for (const folder of ["/", "/x/..", "relative", "C:\\"]) {
      const lines = exportedLines.map((line) =>
        line.replace(/"projectDir":"[^"]*"/, `"projectDir":${JSON.stringify(folder)}`),
      );
      await assertRejected(
        lines,
        /line 3: expected session\.projectDir to be the absolute path of a folder below the root/,
        0,
      );
    }
    await assertRejected(
      exportedLines.slice(0, firstEndIndex),
      /expected more of session .*: the export was cut off/,
      0,
    );
    // The first session is complete, and the second one is cut off.
    await assertRejected(exportedLines.slice(0, firstEndIndex + 3), /the export was cut off/, 1);
    await assertRejected(
      [...exportedLines.slice(0, 3), '{"type":"message","hiddenBy":"","message":{"id":5}}'],
      /line 4: expected .*id/,
      0,
    );
    await assertRejected(
      exportedLines.filter((_line, i) => i !== 3),
      /line \d+: expected \d+ messages of session/,
      0,
    );
  });

  it("reject a file argument of import and unknown subcommands", async (t) => {
    const fileArgumentRun = await runGantry(t, ["sessions", "import", "backup.jsonl"]);
    assert.equal(fileArgumentRun.code, 1);
    assert.match(
      fileArgumentRun.stderr,
      /^gantry: sessions import: reads standard input, got backup\.jsonl: .* < FILE\n$/,
    );
    for (const args of [["sessions"], ["sessions", "sell"]]) {
      const run = await runGantry(t, args);
      assert.deepEqual([run.code, run.stdout], [1, ""]);
      assert.match(run.stderr, /expected one of list, show, archive, unarchive, undo, apply, delete, export, import/);
    }
  });
});
