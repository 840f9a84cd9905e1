import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { Agent, MemoryDriver, type SessionMode } from "gantry";
import { SESSION_MODES } from "gantry/plugin";
import { KoaHttpTransport } from "gantry/adapters/koa-http-api";
import { openHttpHost } from "gantry/http";
import { ScriptedProvider } from "gantry/testing";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";

/** Starts an agent that creates sessions in `mode`, behind an HTTP host with a person token. */
async function serveInMode(t: Hooks, mode: SessionMode) {
  const folder = await tempDir(t);
  const agent = new Agent({
    mode,
    driver: new MemoryDriver(),
    providers: [new ScriptedProvider(Array.from({ length: 20 }, () => "done"))],
  });
  const host = openHttpHost({ port: 0, tokenFolder: folder.path });
  t.after(async () => {
    await host.close(AbortSignal.abort());
    await agent.close();
  });
  const { address } = await new KoaHttpTransport({}, host).start(agent);
  const sendRequest = async (method: string, path: string, body: object, token?: string) => {
    const headers = token === undefined ? undefined : { authorization: `bearer ${token}` };
    const response = await fetch(`${address}${path}`, {
      method,
      body: JSON.stringify(body),
      ...(headers && { headers }),
    });
    const { code = "" } = (await response.json()) as { code?: string };
    return `${response.status} ${code}`.trim();
  };
  return { agent, sendRequest, tokenFile: folder.at("token") };
}

/** Whether a mode allows more than another mode. `SESSION_MODES` begins with the mode that allows most. */
const allowsMore = (mode: SessionMode, otherMode: SessionMode): boolean =>
  SESSION_MODES.indexOf(mode) < SESSION_MODES.indexOf(otherMode);

describe("requests that set a session mode", { concurrency: true }, () => {
  for (const currentMode of SESSION_MODES)
    it(`need the token to allow more than ${currentMode}, but not to set ${currentMode} or a stricter mode`, async (t) => {
      const { agent, sendRequest, tokenFile } = await serveInMode(t, currentMode);
      const token = readFileSync(tokenFile, "utf8");
      for (const mode of SESSION_MODES) {
        const expectedResult = allowsMore(mode, currentMode) ? "403 person_required" : "200";
        const { id } = await agent.sessions.create();
        assert.equal(
          await sendRequest("POST", "/api/run", { message: "x", mode }),
          expectedResult,
          `a new session in ${mode}`,
        );
        assert.equal(
          await sendRequest("POST", "/api/run", { message: "x", session_id: id, mode }),
          expectedResult,
          mode,
        );
        assert.equal(await sendRequest("POST", "/api/run", { message: "x", mode }, token), "200", mode);
        await agent.sessions.update(id, { mode: currentMode });
        assert.equal(await sendRequest("PATCH", `/api/sessions/${id}`, { mode }), expectedResult, mode);
        assert.equal(await sendRequest("PATCH", `/api/sessions/${id}`, { mode }, `${token}x`), expectedResult, mode);
        assert.equal((await agent.sessions.get(id))?.mode, allowsMore(mode, currentMode) ? currentMode : mode);
        assert.equal(await sendRequest("PATCH", `/api/sessions/${id}`, { mode: "auto" }, token), "200");
        assert.equal((await agent.sessions.get(id))?.mode, "auto");
      }
    });
});

it("requests that rewind or undo need the token, and a fork needs none", async (t) => {
  const { agent, sendRequest, tokenFile } = await serveInMode(t, "auto");
  const token = readFileSync(tokenFile, "utf8");
  const run = await agent.run({ message: "x" });
  await run.result;
  const [prompt] = await agent.sessions.messages(run.sessionId);
  const path = `/api/sessions/${run.sessionId}`;
  const rewind = { before_message_id: prompt!.id };
  const runRequest = { message: "y", session_id: run.sessionId, rewind };
  for (const [action, body, expectedAnswer] of [
    ["undo", { dry_run: true }, "200"],
    ["redo", {}, "409 nothing_to_undo"],
    ["restore", { snapshot_id: "x" }, "404 point_not_found"],
    ["changes/undo", { path: "a" }, "409 nothing_to_undo"],
  ] as const) {
    assert.equal(await sendRequest("POST", `${path}/${action}`, body), "403 person_required", action);
    assert.equal(await sendRequest("POST", `${path}/${action}`, body, token), expectedAnswer, action);
  }
  assert.equal(await sendRequest("POST", `${path}/fork`, {}), "200");
  assert.equal(await sendRequest("POST", `${path}/rewind`, rewind), "403 person_required");
  assert.equal(await sendRequest("POST", "/api/run", runRequest), "403 person_required");
  assert.equal((await agent.sessions.messages(run.sessionId)).length, 2);
  assert.equal(await sendRequest("POST", "/api/run", runRequest, token), "200");
});

it("openHttpHost replaces an empty token file with a new token", async (t) => {
  const folder = await tempDir(t);
  writeFileSync(folder.at("token"), "\n");
  const host = openHttpHost({ port: 0, tokenFolder: folder.path });
  t.after(() => host.close(AbortSignal.abort()));
  await host.mount({
    ...{ prefix: "/", fallback: true, authenticated: false },
    handler: () => undefined,
    refuse: () => undefined,
  });
  // 32 bytes in base64url.
  assert.match(readFileSync(folder.at("token"), "utf8"), /^[\w-]{43}$/);
});
