// The view of clients when the connection to the model breaks.
import assert from "node:assert/strict";
import { it } from "node:test";
import { fail } from "../../helpers/fake-model-server.js";
import { ask, lab, labConfig, stored, stream } from "../../helpers/lab.js";
import { startServer } from "../../helpers/server.js";

it("a stream continues after a connection reset, the log records it, and the partial message is unfinished", async (t) => {
  const models = await lab(t);
  const server = await startServer(t, { config: labConfig(models) });
  models.enqueue({ say: [{ text: ["Half ", "an "] }, { reset: true }] }, { say: [{ text: "answer." }] });
  const streamed = await stream(server, { message: "x" });
  await streamed.ended;
  assert.equal(streamed.pieces.map(({ text }) => text).join(""), "Half an answer.");
  assert.equal(streamed.last?.event, "done");
  const messages = await stored(server, streamed.sessionId);
  assert.deepEqual(
    messages.map(({ role, content, finished }) => [role, content, finished]),
    [
      ["user", "x", undefined],
      ["assistant", "Half an ", false],
      ["assistant", "answer.", undefined],
    ],
  );
  assert.match(server.stderr, /answer interrupted; continuing it .*"attempt":1/);
  assert.deepEqual(models.violations, []);
});

it("a run that fails permanently returns 500 with the reason", async (t) => {
  const models = await lab(t);
  const server = await startServer(t, { config: labConfig(models) });
  models.fallback = { say: [] };
  const empty = await ask(server, { message: "x" });
  assert.equal(empty.status, 500);
  assert.match(empty.error, /^lab: malformed_answer: .*empty/);
  models.fallback = fail(429, "Slow down.", { "retry-after": "3600" });
  const long = await ask(server, { message: "x" });
  assert.deepEqual(
    [long.status, long.error],
    [500, "lab: 429: requested wait of 3600 s exceeds max_wait (60 s): Slow down."],
  );
  models.fallback = { say: [{ call: { name: "glob", arguments: { pattern: "*" } } }] };
  const stuck = await ask(server, { message: "x" });
  assert.deepEqual(
    [stuck.status, stuck.error],
    [500, "the model called glob 16 times without getting anything new; the run was ended"],
  );
});
