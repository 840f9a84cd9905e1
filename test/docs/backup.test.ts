import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, it, type TestContext } from "node:test";
import { promisify } from "node:util";
import { LowdbJsonDriver } from "gantry/adapters/lowdb-json-driver";
import { PostgresDriver } from "gantry/adapters/postgres-driver";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import type { SessionDriver } from "gantry/plugin";
import { aMessage, aSession } from "../../src/testing/session-driver/records.js";
import { createPostgresDatabase, NO_POSTGRES } from "../helpers/postgres.js";
import { findPostgres, findProgram } from "../helpers/postgres-binaries.js";
import { gantryCommand, ROOT } from "../helpers/source-paths.js";
import { tempDir, type TempDir } from "../helpers/temp-dir.js";

const PAGE = "docs/operations.md";
const pageText = readFileSync(path.join(ROOT, PAGE), "utf8");
const NO_SHELL = process.platform === "win32" && "needs bash";
const NO_SQLITE = !process.env.CI && findProgram("sqlite3") === undefined && "needs the command sqlite3";

/** The command of a store in the table of the section Backup. */
function findBackupCommand(storeName: string): string {
  const [, command] = new RegExp(`^\\| ${storeName} +\\| \`([^|]+)\` +\\|`, "m").exec(pageText) ?? [];
  assert.ok(command, `${PAGE} has no backup command of ${storeName}`);
  return command;
}

/** The commands of a store in the section Restore. */
function findRestoreCommands(driverName: string): string {
  const pattern = new RegExp(`^- \\*\\*\`${driverName}\`:\\*\\*[^\n]*\n\n {2}\`\`\`sh\n(.*?)^ {2}\`\`\`$`, "ms");
  const [, commands] = pattern.exec(pageText) ?? [];
  assert.ok(commands, `${PAGE} has no commands that restore ${driverName}`);
  return commands;
}

/** Creates the home folder of a user with `.gantry`, the working directory of the commands. */
async function createHome(t: TestContext): Promise<TempDir> {
  const home = await tempDir(t);
  mkdirSync(home.at(".gantry"));
  return home;
}

/** Runs commands with `bash`. Rejects if a command fails. */
async function runCommands(commands: string, home: TempDir, env: Readonly<Record<string, string>> = {}): Promise<void> {
  const searchPath = `${home.path}:${findPostgres() ?? ""}:${process.env["PATH"]}`;
  await promisify(execFile)("bash", ["-euc", commands], {
    cwd: home.path,
    env: { PATH: searchPath, HOME: home.path, TSX_TSCONFIG_PATH: path.join(ROOT, "tsconfig.json"), ...env },
  });
}

/** Opens a store for `use`. */
async function useStore<T>(driver: SessionDriver, use: (driver: SessionDriver) => Promise<T>): Promise<T> {
  await driver.open();
  try {
    return await use(driver);
  } finally {
    await driver.close();
  }
}

async function addSession(driver: SessionDriver, id: string): Promise<void> {
  const session = aSession(id, { lastSeq: 1 });
  const messages = [{ message: aMessage(id, 1), hiddenBy: "" }];
  await driver.load({ sessions: [{ session, hiddenBy: "", view: [], messages }], snapshots: [], runs: [], asks: [] });
}

/** The ids of all sessions, each with the number of its messages. */
async function listSessions(driver: SessionDriver): Promise<string[]> {
  const { sessions } = await driver.list({ limit: 10 });
  return Promise.all(sessions.map(async ({ id }) => `${id} ${(await driver.messages(id)).length}`));
}

/** Checks that the commands of the page restore a deleted session, and remove a session that is newer than the backup. */
async function checkRestore(
  createDriver: () => SessionDriver,
  driverName: string,
  home: TempDir,
  env?: Readonly<Record<string, string>>,
): Promise<void> {
  await useStore(createDriver(), (driver) => addSession(driver, "old"));
  await runCommands(findBackupCommand(`\`${driverName}\``), home, env);
  await useStore(createDriver(), async (driver) => {
    await driver.delete(["old"]);
    await addSession(driver, "new");
  });
  await runCommands(findRestoreCommands(driverName), home, env);
  await useStore(createDriver(), async (driver) => {
    assert.deepEqual(await listSessions(driver), ["old 1"]);
    // The restored store is writable.
    await addSession(driver, "next");
  });
}

describe(`the commands of ${PAGE} for backup and restore`, () => {
  it("restore a store of the driver sqlite", { skip: NO_SHELL || NO_SQLITE }, async (t) => {
    const home = await createHome(t);
    await checkRestore(() => new SqliteDriver({ path: home.at(".gantry", "sessions.db") }), "sqlite", home);
  });

  it("restore a store of the driver json", { skip: NO_SHELL }, async (t) => {
    const home = await createHome(t);
    await checkRestore(() => new LowdbJsonDriver({ path: home.at(".gantry", "sessions") }), "json", home);
  });

  it("restore a store of the driver postgres", { skip: NO_SHELL || NO_POSTGRES }, async (t) => {
    const home = await createHome(t);
    const url = await createPostgresDatabase(t);
    await checkRestore(() => new PostgresDriver({ url }), "postgres", home, { DATABASE_URL: url });
  });

  it("move sessions from sqlite to another store with an export", { skip: NO_SHELL }, async (t) => {
    const home = await createHome(t);
    await home.write({ gantry: `#!/bin/sh\nexec ${[process.execPath, ...gantryCommand()].join(" ")} "$@"\n` });
    await useStore(new SqliteDriver({ path: home.at(".gantry", "sessions.db") }), (driver) =>
      addSession(driver, "old"),
    );
    const [, importCommand = ""] = /^- \*\*An export\*\*, into any store: `([^`]+)`/m.exec(pageText) ?? [];
    const exportCommand = findBackupCommand("`sqlite` and `postgres`, moved");
    await runCommands(
      `chmod +x gantry; ${exportCommand}; ${importCommand.replace("<", "--session-driver json <")}`,
      home,
    );
    await useStore(new LowdbJsonDriver({ path: home.at(".gantry", "sessions") }), async (driver) =>
      assert.deepEqual(await listSessions(driver), ["old 1"]),
    );
  });
});
