import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { describe, it, type TestContext } from "node:test";
import { builtinTools, folderHistory } from "gantry";
import { ApiError, BusyError, GantryClient, NotFoundError } from "gantry/client";
import { callTools, type ScriptedStep } from "gantry/testing";
import { createGate, createWaitTool } from "../../helpers/gate.js";
import { startApi } from "../../helpers/http-api.js";
import { STORES } from "../../helpers/stores.js";
import { tempDir } from "../../helpers/temp-dir.js";

const write = (path: string, content: string): ScriptedStep => callTools(["write", { path, content }]);

interface SetupOptions {
  steps: readonly ScriptedStep[];
  files?: Record<string, string>;
  makeStore?: (typeof STORES)[number][1];
  rewind?: boolean;
}

/** Starts an API with tools and a file history in a new project folder. */
async function createSetup(t: TestContext, { steps, files = {}, makeStore, rewind = true }: SetupOptions) {
  const folder = await tempDir(
    t,
    Object.fromEntries([["home/x", ""], ...Object.entries(files).map(([name, text]) => [`project/${name}`, text])]),
  );
  await mkdir(folder.at("project"), { recursive: true });
  const rules = { deniedPaths: [folder.at("home")] };
  const gate = createGate();
  const api = await startApi(t, {
    steps,
    agent: {
      projectDir: folder.at("project"),
      tools: [...builtinTools({ ...rules, bash: { sandbox: "off" } }), createWaitTool(gate)],
      fileHistory: folderHistory({ folder: folder.at("home/files"), ...rules }),
      rewind,
      ...(makeStore && { driver: (await makeStore(t))() }),
    },
  });
  const client = new GantryClient({ url: api.url });
  const readFile = (name: string): string | null =>
    existsSync(folder.at("project", name)) ? readFileSync(folder.at("project", name), "utf8") : null;
  const run = async (message: string, session_id?: string) =>
    client.run({ message, ...(session_id !== undefined && { session_id }) });
  const readPrompts = async (id: string): Promise<unknown[]> =>
    (await client.sessions.messages(id)).filter(({ role }) => role === "user").map(({ content }) => content);
  return { api, client, folder, gate, readFile, run, readPrompts };
}

async function catchError(promise: Promise<unknown>): Promise<ApiError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof ApiError, String(error));
  return error;
}

const describeError = ({ status, code }: ApiError): string => `${status} ${code}`;

describe("rewind, undo, redo, restore and fork over HTTP", { concurrency: true }, () => {
  for (const [storeName, makeStore] of STORES)
    it(`hide and restore messages and files: ${storeName}`, async (t) => {
      const steps = [write("a.txt", "two\n"), "done", write("b.txt", "new\n"), "done"];
      const setup = await createSetup(t, { steps, files: { "a.txt": "one\n" }, makeStore });
      const { client, run, readFile, readPrompts, api } = setup;
      const { sessionId: id } = await run("first");
      await run("second", id);
      const messages = await client.sessions.messages(id);
      const secondPrompt = messages.findLast(({ role }) => role === "user")!;

      // Without files.
      const hidden = await client.sessions.rewind(id, { beforeMessageId: secondPrompt.id });
      assert.deepEqual([hidden.files, await readPrompts(id), readFile("b.txt")], [[], ["first"], "new\n"]);
      assert.equal((await client.sessions.redo(id)).last_message_id, messages.at(-1)!.id);
      assert.deepEqual(await client.sessions.messages(id), messages);

      // A dry run changes nothing.
      const dryRun = { beforeMessageId: messages[0]!.id, files: true, dryRun: true };
      const plan = await client.sessions.rewind(id, dryRun);
      assert.deepEqual([plan.files.map(({ outcome }) => outcome), plan.snapshot_id], [["restored", "removed"], ""]);
      assert.deepEqual(await client.sessions.messages(id), messages);
      assert.equal(readFile("b.txt"), "new\n");

      // With files, of all messages.
      const paths: string[] = [];
      api.agent.on("session.files_restored", (event) => paths.push(...event.paths));
      const { files, snapshot_id, last_message_id } = await client.sessions.rewind(id, {
        beforeMessageId: messages[0]!.id,
        files: true,
      });
      assert.deepEqual(
        files.map(({ outcome }) => outcome),
        ["restored", "removed"],
      );
      assert.deepEqual(paths, [setup.folder.at("project/a.txt"), setup.folder.at("project/b.txt")]);
      assert.deepEqual([await client.sessions.messages(id), last_message_id], [[], ""]);
      assert.deepEqual([readFile("a.txt"), readFile("b.txt")], ["one\n", null]);
      assert.ok((await client.sessions.snapshots(id)).some((snapshot) => snapshot.id === snapshot_id));
      assert.equal(await client.sessions.restore(id, snapshot_id), "");
      assert.deepEqual(await client.sessions.messages(id), messages);

      // The last message that stays; then the last run.
      await client.sessions.rewind(id, { messageId: messages[1]!.id });
      assert.equal((await client.sessions.messages(id)).length, 2);
      const copy = await client.sessions.fork(id);
      assert.equal((await client.sessions.messages(copy.id)).length, 2);
      assert.equal(copy.parent_id, id);
      const shortCopy = await client.sessions.fork(id, { messageId: messages[0]!.id });
      assert.deepEqual(await readPrompts(shortCopy.id), ["first"]);
    });

  it("undo and redo the last run, also as a dry run", async (t) => {
    const setup = await createSetup(t, { steps: [write("a.txt", "two\n"), "done"], files: { "a.txt": "one\n" } });
    const { client, run, readFile } = setup;
    const { sessionId: id } = await run("first");
    const planned = await client.sessions.undo(id, { dryRun: true });
    assert.deepEqual([planned.files.length, planned.snapshot_id, readFile("a.txt")], [1, "", "two\n"]);
    const undone = await client.sessions.undo(id);
    assert.deepEqual([undone.files, readFile("a.txt")], [planned.files, "one\n"]);
    assert.deepEqual(describeError(await catchError(client.sessions.undo(id))), "409 nothing_to_undo");
    assert.equal((await client.sessions.redo(id, { dryRun: true })).files.length, 1);
    await client.sessions.redo(id);
    assert.equal(readFile("a.txt"), "two\n");
    assert.deepEqual(describeError(await catchError(client.sessions.redo(id))), "409 nothing_to_undo");
    assert.equal((await client.sessions.undo(id, { filesOnly: true })).snapshot_id, "");
  });

  it("answer 409 with the files in conflict, and change nothing without force", async (t) => {
    const setup = await createSetup(t, { steps: [write("a.txt", "two\n"), "done"], files: { "a.txt": "one\n" } });
    const { client, run, readFile, folder } = setup;
    const { sessionId: id } = await run("first");
    writeFileSync(folder.at("project/a.txt"), "mine\n");
    const [prompt] = await client.sessions.messages(id);
    for (const request of [
      () => client.sessions.undo(id),
      () => client.sessions.rewind(id, { beforeMessageId: prompt!.id, files: true }),
      () => client.sessions.undoChange(id, { path: "a.txt" }),
    ]) {
      const error = await catchError(request());
      assert.equal(describeError(error), "409 undo_conflict");
      const { files } = error.body as { files: { path: string; outcome: string }[] };
      assert.deepEqual(
        files.map(({ path, outcome }) => [path, outcome]),
        [[folder.at("project/a.txt"), "conflict"]],
      );
    }
    assert.equal(readFile("a.txt"), "mine\n");
    await client.sessions.undo(id, { force: true });
    assert.equal(readFile("a.txt"), "one\n");
    await client.sessions.redo(id);
    assert.equal(readFile("a.txt"), "mine\n");
  });

  it("answer 404, 409 and 400", async (t) => {
    const setup = await createSetup(t, { steps: ["done", callTools(["wait", {}]), "done"] });
    const { client, run, gate, api } = setup;
    const { sessionId: id } = await run("first");
    for (const request of [
      () => client.sessions.undo("none"),
      () => client.sessions.fork("none"),
      () => client.sessions.changes("none"),
      () => client.git({ sessionId: "none" }),
    ])
      assert.equal(describeError(await catchError(request())), "404 session_not_found");
    for (const request of [
      () => client.sessions.rewind(id, { messageId: "none" }),
      () => client.sessions.rewind(id, { beforeMessageId: "none" }),
      () => client.sessions.fork(id, { messageId: "none" }),
      () => client.sessions.restore(id, "none"),
    ])
      assert.equal(describeError(await catchError(request())), "404 point_not_found");
    assert.equal(describeError(await catchError(client.sessions.changes(id, { runId: "none" }))), "404 run_not_found");
    for (const [action, body, field] of [
      ["rewind", {}, "message_id"],
      ["rewind", { message_id: "a", before_message_id: "b" }, "before_message_id"],
      ["rewind", { message_id: "a", files: "yes" }, "files"],
      ["undo", { files_only: true, messages_only: true }, "messages_only"],
      ["restore", { snapshot_id: "" }, "snapshot_id"],
      ["changes/undo", { path: "" }, "path"],
      ["changes/undo", { path: "a", hunk: { old_start: 1, old_lines: 1, new_start: 1, new_lines: 1 } }, "version"],
      ["changes/undo", { path: "a", version: "x", hunk: { old_start: 0 } }, "hunk"],
    ] as const) {
      const response = await fetch(`${api.url}/api/sessions/${id}/${action}`, {
        method: "POST",
        body: JSON.stringify(body),
      });
      const answer = { error: `invalid field: ${field}`, code: "invalid_field" };
      assert.deepEqual([response.status, await response.json()], [400, answer]);
    }
    const waitingRun = run("wait", id);
    await gate.firstWait;
    for (const request of [
      () => client.sessions.undo(id),
      () => client.sessions.fork(id),
      () => client.sessions.redo(id),
    ]) {
      const error = await catchError(request());
      assert.ok(error instanceof BusyError && error.retryAfter !== undefined);
    }
    gate.open();
    await waitingRun;
  });

  it("answer 404 if session.rewind is false, except for the changed files and the Git state", async (t) => {
    const setup = await createSetup(t, { steps: [write("a.txt", "x"), "done"], rewind: false });
    const { client, run } = setup;
    const { sessionId: id } = await run("first");
    for (const request of [
      () => client.sessions.fork(id),
      () => client.sessions.rewind(id, { messageId: "x" }),
      () => client.sessions.undo(id),
      () => client.sessions.redo(id),
      () => client.sessions.restore(id, "x"),
      () => client.sessions.snapshots(id),
      () => client.sessions.undoChange(id, { path: "a.txt" }),
    ]) {
      const error = await catchError(request());
      assert.ok(error instanceof NotFoundError);
      assert.equal(error.code, "rewind_disabled");
    }
    const { total, can_undo } = await client.sessions.changes(id);
    assert.deepEqual([total, can_undo], [1, false]);
    assert.equal((await client.git()).branch, null);
  });
});
