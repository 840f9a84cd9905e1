import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { describe, it, type TestContext } from "node:test";
import { builtinTools, folderHistory } from "gantry";
import { ApiError, GantryClient } from "gantry/client";
import { callTools, type ScriptedStep } from "gantry/testing";
import { createGate, createWaitTool } from "../../helpers/gate.js";
import { startApi } from "../../helpers/http-api.js";
import { STORES } from "../../helpers/stores.js";
import { tempDir } from "../../helpers/temp-dir.js";

const write = (path: string, content: string): ScriptedStep => callTools(["write", { path, content }]);

async function createSetup(
  t: TestContext,
  steps: readonly ScriptedStep[],
  { makeStore, rewind = true }: { makeStore?: (typeof STORES)[number][1]; rewind?: boolean } = {},
) {
  const folder = await tempDir(t, { "home/x": "", "project/a.txt": "one\n" });
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
  const readTexts = async (id: string) =>
    (await client.sessions.messages(id)).map(({ role, content }) => `${role}:${JSON.stringify(content).slice(1, 30)}`);
  const readFile = (name: string) =>
    existsSync(folder.at("project", name)) ? readFileSync(folder.at("project", name), "utf8") : null;
  return { api, client, folder, gate, readFile, readTexts };
}

async function catchError(promise: Promise<unknown>): Promise<ApiError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof ApiError, String(error));
  return error;
}

describe("a run with rewind", { concurrency: true }, () => {
  for (const [storeName, makeStore] of STORES)
    it(`replaces a prompt and all later messages, once for a key: ${storeName}`, async (t) => {
      const steps = ["a", write("a.txt", "two\n"), "b", "c", "d"];
      const { client, api, readTexts, readFile } = await createSetup(t, steps, { makeStore });
      const { sessionId: session_id } = await client.run({ message: "prompt-1" });
      await client.run({ message: "prompt-2", session_id });
      const [, , secondPrompt] = await client.sessions.messages(session_id);
      const rewind = { before_message_id: secondPrompt!.id, files: true };
      const request = { message: "edited", session_id, rewind };
      const result = await client.run(request, { key: "k1" });
      assert.deepEqual([result.output, readFile("a.txt")], ["c", "one\n"]);
      const texts = ["user:prompt-1", "assistant:a", "user:edited", "assistant:c"];
      assert.deepEqual(
        (await readTexts(session_id)).map((text) => text.replaceAll('"', "")),
        texts,
      );
      // The repeated request finds the run.
      assert.equal((await client.run(request, { key: "k1" })).runId, result.runId);
      assert.equal((await readTexts(session_id)).length, 4);
      // The model received no hidden message.
      assert.equal(JSON.stringify(api.provider.requests.at(-1)).includes("prompt-2"), false);
      // The first prompt, in the background.
      const [firstPrompt] = await client.sessions.messages(session_id);
      const { run_id } = await client.start({
        ...{ message: "again", session_id },
        rewind: { before_message_id: firstPrompt!.id },
      });
      await api.agent.runs.ended(run_id, new AbortController().signal);
      assert.deepEqual((await readTexts(session_id)).length, 2);
      assert.equal(JSON.stringify(api.provider.requests.at(-1)).includes("prompt-1"), false);
    });

  it("hides nothing if it does not start", async (t) => {
    const { client, folder, readTexts, readFile } = await createSetup(t, [write("a.txt", "two\n"), "b", "c"]);
    const { sessionId: session_id } = await client.run({ message: "first" });
    const messages = await client.sessions.messages(session_id);
    const rewind = { before_message_id: messages[0]!.id, files: true };
    // The attachment is read after the lease was taken, the command is expanded after the rewind.
    for (const fields of [{ files: ["none.txt"] }, { commands: true, message: "/compact", project_dir: "" }]) {
      const request = { message: "edited", session_id, rewind, ...fields };
      assert.equal((await catchError(client.run(request))).status, 400);
      assert.deepEqual(await client.sessions.messages(session_id), messages);
      assert.equal(readFile("a.txt"), "two\n");
    }
    writeFileSync(folder.at("project/a.txt"), "mine\n");
    const conflict = await catchError(client.run({ message: "edited", session_id, rewind }));
    assert.deepEqual([conflict.code, (conflict.body as { files: unknown[] }).files.length], ["undo_conflict", 1]);
    assert.deepEqual(await client.sessions.messages(session_id), messages);
    for (const [fields, answer] of [
      [{ rewind: { before_message_id: "none" } }, "404 point_not_found"],
      [{ rewind: { before_message_id: "" } }, "400 invalid_field"],
      [{ rewind, queue: true }, "400 invalid_field"],
      [{ rewind, session_id: "" }, "400 invalid_field"],
    ] as const) {
      const { status, code } = await catchError(client.run({ message: "x", session_id, ...fields }));
      assert.equal(`${status} ${code}`, answer);
    }
    assert.equal((await readTexts(session_id)).length, messages.length);
  });

  it("gets 404 if session.rewind is false", async (t) => {
    const { client } = await createSetup(t, ["a"], { rewind: false });
    const { sessionId: session_id } = await client.run({ message: "first" });
    const [prompt] = await client.sessions.messages(session_id);
    const request = { message: "x", session_id, rewind: { before_message_id: prompt!.id } };
    assert.equal((await catchError(client.run(request))).code, "rewind_disabled");
  });
});

describe("a run with retry", { concurrency: true }, () => {
  it("continues a failed run with the results of its tool calls", async (t) => {
    const steps = [write("a.txt", "two\n"), new Error("broken"), "done"];
    const { client, api, readTexts } = await createSetup(t, steps);
    const error = await catchError(client.run({ message: "first" }));
    assert.equal(error.status, 500);
    const [{ id: session_id } = { id: "" }] = (await client.sessions.list()).sessions;
    const messageCount = (await readTexts(session_id)).length;
    const result = await client.run({ message: "", session_id, retry: true }, { key: "k" });
    assert.equal(result.output, "done");
    assert.equal((await readTexts(session_id)).length, messageCount + 1);
    assert.equal(JSON.stringify(api.provider.requests.at(-1)).includes("two"), true);
    assert.equal((await client.run({ message: "", session_id, retry: true }, { key: "k" })).runId, result.runId);
    const refusal = await catchError(client.run({ message: "", session_id, retry: true }));
    assert.deepEqual([refusal.status, refusal.code], [400, "invalid_field"]);
    assert.match(refusal.message, /^invalid field: retry: expected a session whose last run/);
  });

  it("continues a cancelled run", async (t) => {
    const { client, readTexts, gate } = await createSetup(t, [callTools(["wait", {}]), "done"]);
    const { session_id } = await client.start({ message: "first" });
    await gate.firstWait;
    await client.sessions.cancel(session_id);
    assert.equal((await client.run({ message: "", session_id, retry: true })).output, "done");
    assert.deepEqual(
      (await readTexts(session_id)).map((text) => text.split(":")[0]),
      ["user", "assistant", "tool", "assistant"],
    );
  });

  it("rejects a message, an attachment and a new session", async (t) => {
    const { client } = await createSetup(t, ["a"]);
    const { sessionId: session_id } = await client.run({ message: "first" });
    for (const fields of [{ message: "x" }, { files: ["a.txt"] }, { compact: true }, { session_id: "" }]) {
      const { status, code } = await catchError(client.run({ message: "", session_id, retry: true, ...fields }));
      assert.deepEqual([status, code], [400, "invalid_field"], JSON.stringify(fields));
    }
  });
});
