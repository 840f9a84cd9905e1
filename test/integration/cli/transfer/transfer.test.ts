// Exports and imports that are interrupted, shown on a terminal, or meet existing data.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { readFile, rename, rm, stat, truncate, writeFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { Agent } from "gantry";
import type { ChainData, SessionDriver } from "gantry/plugin";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { ScriptedProvider } from "gantry/testing";
import { waitUntil } from "../../../helpers/server-runs.js";
import { gantryCommand } from "../../../helpers/source-paths.js";
import { runGantry, spawnGantry } from "../../../helpers/server.js";
import { makeTempDir, tempDir, type TempDir } from "../../../helpers/temp-dir.js";

const OUTAGES_DRIVER = fileURLToPath(new URL("../../../helpers/outages.mjs", import.meta.url));
/** A store that delays each call while the file `away` in the home folder contains `slow`. */
const SLOW_CONFIG = { session: { driver: OUTAGES_DRIVER } };
const SESSION_COUNT = 60;
const createDriver = (home: TempDir) => new SqliteDriver({ path: home.at("sessions.db"), durability: "normal" });

async function createSessions(home: TempDir, count = SESSION_COUNT): Promise<void> {
  const provider = new ScriptedProvider([], { fallback: `answer ${"\u0000 \ud800 x".repeat(50)}` });
  const agent = new Agent({ providers: [provider], driver: createDriver(home), projectDir: home.path });
  for (let n = 0; n < count; n++)
    await (
      await agent.run({ message: `message ${n}`, idempotencyKey: `key ${n}` })
    ).result;
  await agent.close();
}

async function runWithDriver<T>(home: TempDir, action: (driver: SessionDriver) => Promise<T>): Promise<T> {
  const driver = createDriver(home);
  await driver.open();
  return action(driver).finally(() => driver.close());
}

/** Returns all stored chains by the id of their session. */
function dumpChains(home: TempDir): Promise<Map<string, ChainData>> {
  return runWithDriver(home, async (driver) => {
    const { sessions } = await driver.list({ limit: 10_000 });
    return new Map(await Promise.all(sessions.map(async ({ id }) => [id, (await driver.dump(id))!] as const)));
  });
}

const sortLines = (text: string): string[] => text.split("\n").sort();

/** Reads the number of imported sessions from the message of an import. */
function readImportedCount(stderr: string): number {
  return Number(/^(\d+) sessions? imported/m.exec(stderr)?.[1]);
}

describe("sessions export and import", () => {
  it("an export interrupted by SIGINT reports its .part file, and --resume completes it", async (t) => {
    const home = await tempDir(t);
    await createSessions(home);
    const exportedText = (await runGantry(t, ["sessions", "export"], { home: home.path })).stdout;
    const path = home.at("out.jsonl");
    await writeFile(home.at("away"), "slow");
    const args = ["sessions", "export", "--output", path];
    const interruptedExport = await spawnGantry(t, { args, home: home.path, config: SLOW_CONFIG });
    await waitUntil(async () => (await stat(`${path}.part`).catch(() => ({ size: 0 }))).size > 5_000);
    assert.deepEqual(await interruptedExport.stop("SIGINT"), { code: 130, signal: null }, interruptedExport.stderr);
    assert.match(interruptedExport.stderr, /^\d+ sessions? in .*out\.jsonl\.part; continue with --resume\n$/);
    await rm(home.at("away"));
    // Simulates a crash during a write: the last line is incomplete.
    const { size } = await stat(`${path}.part`);
    await truncate(`${path}.part`, size - 100);

    const conflictRun = await runGantry(t, args, { home: home.path });
    assert.equal(conflictRun.code, 1);
    assert.match(
      conflictRun.stderr,
      /^gantry: .*out\.jsonl\.part: an interrupted export exists; continue it with --resume\n$/,
    );
    const resumedRun = await runGantry(t, [...args, "--resume"], { home: home.path });
    assert.deepEqual([resumedRun.code, resumedRun.stderr], [0, `${SESSION_COUNT} sessions in ${path}\n`]);
    const resumedText = await readFile(path, "utf8");
    assert.deepEqual(sortLines(resumedText), sortLines(exportedText));
    const completedRun = await runGantry(t, [...args, "--resume"], { home: home.path });
    assert.equal(completedRun.code, 1);
    assert.match(completedRun.stderr, /out\.jsonl: already exists/);
    assert.equal(await readFile(path, "utf8"), resumedText);
  });

  it("import turns system messages into user messages and rejects a project folder that links to the root", async (t) => {
    const [home, target] = [await tempDir(t), await tempDir(t)];
    await createSessions(home, 1);
    const { stdout } = await runGantry(t, ["sessions", "export"], { home: home.path });
    const craftedExport = stdout.replaceAll('"role":"user"', '"role":"system"');
    assert.notEqual(craftedExport, stdout);
    const craftedImport = await runGantry(t, ["sessions", "import"], { home: target.path, input: craftedExport });
    assert.deepEqual([craftedImport.code, readImportedCount(craftedImport.stderr)], [0, 1], craftedImport.stderr);
    const [chain] = (await dumpChains(target)).values();
    const chainMessages = chain!.sessions.flatMap(({ view, messages }) => [
      ...view,
      ...messages.map(({ message }) => message),
    ]);
    assert.deepEqual(new Set(chainMessages.map(({ role }) => role)), new Set(["user", "assistant"]));

    if (process.platform !== "linux") return;
    const otherHome = await tempDir(t);
    const linkedExport = stdout.replaceAll(JSON.stringify(home.path), '"/proc/self/root"');
    assert.notEqual(linkedExport, stdout);
    const linkedImport = await runGantry(t, ["sessions", "import"], { home: otherHome.path, input: linkedExport });
    assert.equal(linkedImport.code, 1);
    assert.match(linkedImport.stderr, /session\.projectDir: expected a folder below the root of a disk/);
    assert.equal((await dumpChains(otherHome)).size, 0);
  });

  for (const signal of ["SIGINT", "SIGKILL"] as const)
    it(`an import interrupted by ${signal} leaves only complete sessions, and the same import continues`, async (t) => {
      const [home, target] = [await tempDir(t), await tempDir(t)];
      await createSessions(home);
      const originalChains = await dumpChains(home);
      const exportedText = (await runGantry(t, ["sessions", "export"], { home: home.path })).stdout;
      await writeFile(target.at("away"), "slow");
      const interruptedImport = await spawnGantry(t, {
        args: ["sessions", "import"],
        home: target.path,
        config: SLOW_CONFIG,
      });
      // The last 500 characters are not sent.
      interruptedImport.child.stdin.write(exportedText.slice(0, -500));
      const countStoredSessions = () =>
        runWithDriver(target, async (driver) => (await driver.list({ limit: 1 })).total);
      await waitUntil(async () => (await stat(target.at("sessions.db")).catch(() => undefined)) !== undefined);
      await waitUntil(async () => (await countStoredSessions()) >= 5);
      await interruptedImport.stop(signal);
      const importedChains = await dumpChains(target);
      if (signal === "SIGINT") {
        assert.deepEqual(await interruptedImport.exited, { code: 130, signal: null });
        assert.match(
          interruptedImport.stderr,
          /^\d+ sessions? imported; interrupted: run the same import again to continue\n$/,
        );
        assert.equal(readImportedCount(interruptedImport.stderr), importedChains.size);
      }
      for (const [id, chain] of importedChains) assert.deepEqual(chain, originalChains.get(id));
      const secondImport = await runGantry(t, ["sessions", "import"], {
        home: target.path,
        config: {},
        input: exportedText,
      });
      assert.equal(secondImport.code, 0, secondImport.stderr);
      assert.equal(readImportedCount(secondImport.stderr), SESSION_COUNT - importedChains.size);
      assert.match(
        secondImport.stderr,
        new RegExp(`, ${importedChains.size} sessions? skipped \\(already stored\\)\n$`),
      );
      assert.deepEqual(await dumpChains(target), originalChains);
    });

  it("import reports the line and id of a session whose idempotency key exists, and imports the other sessions", async (t) => {
    const [home, target] = [await tempDir(t), await tempDir(t)];
    await createSessions(home, 4);
    await createSessions(target, 1);
    const { stdout } = await runGantry(t, ["sessions", "export"], { home: home.path });
    const { code, stderr } = await runGantry(t, ["sessions", "import"], { home: target.path, input: stdout });
    assert.equal(code, 1);
    // The id that follows the first "root" in the export.
    const [firstId = ""] = [...(await dumpChains(home)).keys()].filter(
      (id) => stdout.indexOf(id) === stdout.indexOf('"root":"') + '"root":"'.length,
    );
    assert.deepEqual(stderr.split("\n"), [
      `line 7: session ${firstId}: another run has this key`,
      "3 sessions imported, 1 session rejected",
      "gantry: 1 session could not be imported",
      "",
    ]);
    assert.equal((await dumpChains(target)).size, 4);
  });

  it("import skips stored sessions even if their data is invalid, but rejects a truncated export", async (t) => {
    const home = await tempDir(t);
    await createSessions(home, 2);
    const { stdout } = await runGantry(t, ["sessions", "export"], { home: home.path });
    const invalidExport = stdout.replace('"role":"user"', '"role":"nobody"');
    const { code, stderr } = await runGantry(t, ["sessions", "import"], { home: home.path, input: invalidExport });
    assert.deepEqual([code, stderr], [0, "0 sessions imported, 2 sessions skipped (already stored)\n"]);
    const truncatedImport = await runGantry(t, ["sessions", "import"], {
      home: home.path,
      input: stdout.split("\n").slice(0, -2).join("\n"),
    });
    assert.equal(truncatedImport.code, 1);
    assert.match(truncatedImport.stderr, /line 13: expected more of session .*: the export was cut off/);
  });

  it("export rejects --resume without --output, and import rejects --output", async (t) => {
    await using home = await makeTempDir();
    for (const [args, message] of [
      [["sessions", "export", "--resume"], "--resume needs --output FILE"],
      [
        ["sessions", "import", "--output", "x"],
        "unknown flag --output of gantry sessions import: it belongs to gantry sessions export (see gantry sessions import --help)",
      ],
    ] as const) {
      const { code, stderr } = await runGantry(t, args, { home: home.path });
      assert.deepEqual([code, stderr], [1, `gantry: ${message}\n`]);
    }
  });
});

/** Whether `script` of util-linux can create a terminal. */
function canCreateTerminal(): boolean {
  try {
    return execFileSync("script", ["-qec", "stty cols 70; stty size", "/dev/null"], {
      stdio: ["ignore", "pipe", "ignore"],
    })
      .toString()
      .includes(" 70");
  } catch {
    return false;
  }
}

it(
  "export and import on a terminal draw progress within the terminal's width and erase the progress at the end",
  { skip: !canCreateTerminal() && "needs script(1)" },
  async (t) => {
    const home = await tempDir(t);
    await createSessions(home, 30);
    await home.write({ "config.json": JSON.stringify(SLOW_CONFIG), away: "slow" });
    const gantryWords = [process.execPath, ...gantryCommand()];
    const runOnTerminal = async (command: string): Promise<{ screen: string; code: number | null }> => {
      const child = spawn("script", ["-qec", `stty cols 70; ${command}`, "/dev/null"], {
        env: {
          ...process.env,
          GANTRY_HOME: home.path,
          TSX_TSCONFIG_PATH: fileURLToPath(new URL("../../../../tsconfig.json", import.meta.url)),
        },
        stdio: ["ignore", "pipe", "inherit"],
      });
      let screen = "";
      child.stdout.setEncoding("utf8").on("data", (text: string) => (screen += text));
      const code = await new Promise<number | null>((resolve) => child.on("close", resolve));
      return { screen, code };
    };
    const quotedGantry = gantryWords.map((word) => `'${word}'`).join(" ");
    const path = home.at("out.jsonl");
    const exportRun = await runOnTerminal(`${quotedGantry} sessions export --output '${path}'`);
    assert.equal(exportRun.code, 0, exportRun.screen);
    const drawnLines = exportRun.screen
      .split("\u001b[K")
      .slice(0, -1)
      .map((text) => text.slice(text.lastIndexOf("\r") + 1));
    assert.ok(drawnLines.length > 2, exportRun.screen);
    assert.ok(
      drawnLines.every((line) => line.length < 70),
      exportRun.screen,
    );
    assert.match(drawnLines[0] ?? "", /\d+\/30 sessions/);
    assert.equal(drawnLines.at(-1), "", "the progress is erased at the end");
    assert.ok(exportRun.screen.endsWith(`\u001b[K30 sessions in ${path}\r\n`), exportRun.screen);

    await rm(home.at("away"));
    // The import reads a file, whose total size is known. The size of a pipe would be unknown.
    await rename(home.at("sessions.db"), home.at("old.db"));
    const importRun = await runOnTerminal(`${quotedGantry} sessions import < '${path}'`);
    assert.equal(importRun.code, 0, importRun.screen);
    assert.match(importRun.screen, /\r\[=* *\] {2}\d+ sessions/);
    assert.ok(importRun.screen.endsWith("\u001b[K30 sessions imported\r\n"), importRun.screen);

    // Progress is not written between sessions that are printed to the terminal.
    const printedExport = await runOnTerminal(`${quotedGantry} sessions export`);
    assert.ok(!printedExport.screen.includes("\u001b[K"));
  },
);
