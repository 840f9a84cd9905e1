// Kills a server with SIGKILL while it rewinds a session or undoes changes, and continues on a new server.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { Agent, builtinTools, folderHistory } from "gantry";
import type { SessionDriver } from "gantry/plugin";
import { LowdbJsonDriver } from "gantry/adapters/lowdb-json-driver";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { GantryClient } from "gantry/client";
import { callTools, ScriptedProvider } from "gantry/testing";
import { createSessionConfig, SERVER_STORES } from "../../helpers/server-stores.js";
import { startServer, type GantryServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp-dir.js";

const FILE_COUNT = 120;
const DRIVERS = [...SERVER_STORES, ...(SERVER_STORES.includes("sqlite") ? ["json"] : [])];

/** Opens the store of a server in this process. */
async function openDriver(session: Readonly<Record<string, unknown>>, home: string): Promise<SessionDriver> {
  if (session["driver"] === "sqlite") return new SqliteDriver({ path: join(home, "sessions.db") });
  if (session["driver"] === "json") return new LowdbJsonDriver({ path: join(home, "sessions") });
  const { PostgresDriver } = await import("gantry/adapters/postgres-driver");
  const { url, schema } = session as { url: string; schema: string };
  return new PostgresDriver({ url, schema, durability: "full" });
}

/** A session whose run changed every third file of a project from nothing, and the others from another text. */
async function createSetup(t: TestContext, driverName: string) {
  const names = Array.from({ length: FILE_COUNT }, (_, i) => `f${String(i).padStart(3, "0")}.txt`);
  const getOldText = (i: number): string => (i % 3 === 0 ? "" : "one\n");
  const oldFiles = names.flatMap((name, i) => (i % 3 === 0 ? [] : [[`project/${name}`, getOldText(i)]]));
  const folder = await tempDir(t, { ...Object.fromEntries(oldFiles), "home/x": "", "project/own.txt": "own\n" });
  const [home, projectDir] = [folder.at("home"), folder.at("project")];
  await mkdir(join(home, "files"), { recursive: true });
  const session = await createSessionConfig(driverName);
  const calls = names.map((path) => ["write", { path, content: "two\n" }] as const);
  const agent = new Agent({
    providers: [new ScriptedProvider(["hello", callTools(...calls), "done"])],
    tools: builtinTools({}),
    projectDir,
    driver: await openDriver(session, home),
    fileHistory: folderHistory({ folder: join(home, "files") }),
  });
  const { sessionId } = await (async () => {
    const run = await agent.run({ message: "first" });
    await run.result;
    return run;
  })();
  await (
    await agent.run({ message: "second", sessionId })
  ).result;
  const messages = await agent.sessions.messages(sessionId);
  await agent.close();
  const provider = {
    name: "lab",
    driver: "openai",
    base_url: "http://127.0.0.1:9",
    api_key: "k",
    models: [{ id: "m" }],
  };
  const config = { session, providers: [provider], log: { level: "error" } };
  const readText = (name: string): string => {
    try {
      return readFileSync(join(projectDir, name), "utf8");
    } catch {
      // An undo removes files that the run created.
      return "";
    }
  };
  const open = async () => {
    const server = await startServer(t, { home, projectDir, config });
    return { server, client: new GantryClient({ url: server.url, personHeaders: () => server.personHeaders }) };
  };
  const assertState = async (client: GantryClient, isUndone: boolean, situation: string): Promise<void> => {
    const texts = names.map(readText);
    assert.deepEqual(
      texts,
      names.map((_, i) => (isUndone ? getOldText(i) : "two\n")),
      situation,
    );
    const visibleIds = (await client.sessions.messages(sessionId)).map(({ id }) => id);
    assert.deepEqual(
      visibleIds,
      messages.slice(0, isUndone ? 2 : undefined).map(({ id }) => id),
      situation,
    );
    assert.deepEqual(
      readdirSync(projectDir).filter((name) => name.endsWith(".tmp")),
      [],
      situation,
    );
    assert.equal(readText("own.txt"), "own\n");
  };
  return { sessionId, messages, names, readText, open, assertState };
}

/** Starts an operation and kills the server when a file has another text. Resolves when the server has ended. */
async function killDuring(server: GantryServer, operation: Promise<unknown>, readText: () => string): Promise<void> {
  const initialText = readText();
  let isDone = false;
  const end = operation.then(
    () => (isDone = true),
    () => (isDone = true),
  );
  await new Promise<void>((resolve) => {
    const poll = () => (isDone || readText() !== initialText ? resolve() : void setImmediate(poll));
    poll();
  });
  server.child.kill("SIGKILL");
  await Promise.all([server.exited, end]);
}

describe("a rewind whose server is killed", () => {
  for (const driverName of DRIVERS)
    it(`is completed by the same request and reverted by redo: ${driverName}`, async (t) => {
      const { sessionId, messages, names, readText, open, assertState } = await createSetup(t, driverName);
      const rewind = { beforeMessageId: messages[2]!.id, files: true };
      let { server, client } = await open();
      await killDuring(server, client.sessions.rewind(sessionId, rewind), () => readText(names[4]!));
      ({ server, client } = await open());
      const isComplete = (await client.sessions.messages(sessionId)).length === 2;
      if (!isComplete) await client.sessions.rewind(sessionId, rewind);
      await assertState(client, true, "after a killed rewind");
      await client.sessions.redo(sessionId);
      await assertState(client, false, "after redo");

      await killDuring(server, client.sessions.undo(sessionId), () => readText(names[FILE_COUNT / 2]!));
      ({ server, client } = await open());
      await client.sessions.redo(sessionId);
      await assertState(client, false, "after redo of a killed undo");

      await killDuring(server, client.sessions.undo(sessionId), () => readText(names[7]!));
      ({ server, client } = await open());
      if ((await client.sessions.messages(sessionId)).length > 2) await client.sessions.undo(sessionId);
      await assertState(client, true, "after a killed undo");
      await client.sessions.redo(sessionId);

      // One file changes completely or not at all, and no other file does.
      const path = names[1]!;
      await killDuring(server, client.sessions.undoChange(sessionId, { path }), () => readText(path));
      ({ client } = await open());
      assert.ok(["one\n", "two\n"].includes(readText(path)));
      assert.deepEqual(
        [readText(names[2]!), (await client.sessions.messages(sessionId)).length],
        ["two\n", messages.length],
      );
      await client.sessions.redo(sessionId);
      await assertState(client, false, "after redo of a killed undo of one file");
      await client.sessions.undoChange(sessionId, { path });
      assert.equal(readText(path), "one\n");
      await client.sessions.undo(sessionId);
      await assertState(client, true, "after the undo of the run");
    });
});
