import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Message, RunRecord } from "gantry";
import { currentDocument, currentGrants, currentMessage, currentRun } from "gantry/plugin";
import { currentLine } from "../../../src/sessions/stored-names.js";

const oldGrant = { tool: "bash", what: "w", title: "t", by: "http", at: "2026-01-01T00:00:00.000Z" };
const grant = { tool: "bash", scope: "w", title: "t", grantedBy: "http", grantedAt: "2026-01-01T00:00:00.000Z" };
const oldRun = { id: "r", key: "k", line: { holder: null, until: "later" }, retry: { attempt: 1, at: "soon" } };
const run = {
  id: "r",
  idempotencyKey: "k",
  queueLease: { holder: null, expiresAt: "later" },
  retry: { attempt: 1, nextAttemptAt: "soon" },
};
const oldMessage = { id: "m", parts: [{ type: "text", text: "Review.", typed: "/review" }] };
const message = { id: "m", parts: [{ type: "text", text: "Review.", originalText: "/review" }] };
const oldSession = { id: "s", titled: true, leave: [oldGrant], cuts: [3] };
const session = { id: "s", hasFinalTitle: true, permissionGrants: [grant], rewinds: [3] };

describe("stored values", () => {
  it("from before 0.1.0 get the current field names when they are read", () => {
    assert.deepEqual(currentGrants([oldGrant] as never), [grant]);
    assert.deepEqual(currentRun(oldRun as never), run);
    assert.deepEqual(currentMessage(oldMessage as never), message);
    assert.deepEqual(currentDocument("session/s", oldSession), session);
    assert.deepEqual(currentDocument("run/s/r", { run: oldRun, fence: 1 }), { run, fence: 1 });
    assert.deepEqual(currentDocument("segment/s/1", [oldMessage]), [message]);
    const line = { type: "session", cut: "x", session: oldSession };
    assert.deepEqual(currentLine(line), { type: "session", hiddenBy: "x", session });
  });

  it("with current field names are returned as the same objects", () => {
    assert.equal(currentRun(run as unknown as RunRecord), run);
    assert.equal(currentMessage(message as unknown as Message), message);
    assert.equal(currentDocument("session/s", session), session);
  });
});
