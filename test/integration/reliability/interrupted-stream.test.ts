// The view of clients when the connection to the model breaks.
import assert from "node:assert/strict";
import { it } from "node:test";
import { errorStep } from "../../helpers/fake-model-server.js";
import {
  runPrompt,
  startModelServer,
  createServerConfig,
  fetchMessages,
  startStreamedRun,
} from "../../helpers/server-runs.js";
import { startServer } from "../../helpers/server.js";

it("a stream continues after a connection reset, the log records it, and the partial message is unfinished", async (t) => {
  const modelServer = await startModelServer(t);
  const server = await startServer(t, { config: createServerConfig(modelServer) });
  modelServer.enqueue({ say: [{ text: ["Half ", "an "] }, { reset: true }] }, { say: [{ text: "answer." }] });
  const runStream = await startStreamedRun(server, { message: "x" });
  await runStream.ended;
  assert.equal(runStream.pieces.map(({ text }) => text).join(""), "Half an answer.");
  assert.equal(runStream.latestEvent?.event, "done");
  const messages = await fetchMessages(server, runStream.sessionId);
  assert.deepEqual(
    messages.map(({ role, content, finished }) => [role, content, finished]),
    [
      ["user", "x", undefined],
      ["assistant", "Half an ", false],
      ["assistant", "answer.", undefined],
    ],
  );
  assert.match(server.stderr, /answer interrupted; continuing it .*"attempt":1/);
  assert.deepEqual(modelServer.violations, []);
});

it("a run that fails permanently returns 500 with the reason", async (t) => {
  const modelServer = await startModelServer(t);
  const server = await startServer(t, { config: createServerConfig(modelServer) });
  modelServer.fallback = { say: [] };
  const emptyAnswerRun = await runPrompt(server, { message: "x" });
  assert.equal(emptyAnswerRun.status, 500);
  assert.match(emptyAnswerRun.error, /^lab: malformed_answer: .*empty/);
  modelServer.fallback = errorStep(429, "Slow down.", { "retry-after": "3600" });
  const longWaitRun = await runPrompt(server, { message: "x" });
  assert.deepEqual(
    [longWaitRun.status, longWaitRun.error],
    [500, "lab: 429: requested wait of 3600 s exceeds max_wait (60 s): Slow down."],
  );
  modelServer.fallback = { say: [{ call: { name: "glob", arguments: { pattern: "*" } } }] };
  const stuckRun = await runPrompt(server, { message: "x" });
  assert.deepEqual(
    [stuckRun.status, stuckRun.error],
    [500, "the model called glob 16 times without getting anything new; the run was ended"],
  );
});
