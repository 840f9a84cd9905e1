// Tests each store once, the end of a process by SIGTERM and SIGKILL, and the sandbox.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { findBubblewrap } from "../../src/tools/shell/sandbox/bubblewrap.js";
import { callStep, textStep } from "../helpers/fake-model-server.js";
import {
  runPrompt,
  startModelServer,
  createServerConfig,
  countProcesses,
  fetchMessages,
  startStreamedRun,
  pickUniqueSeconds,
  waitUntil,
} from "../helpers/server-runs.js";
import { startServer } from "../helpers/server.js";
import { tempDir } from "../helpers/temp-dir.js";

const bubblewrap = await findBubblewrap({ env: { PATH: process.env["PATH"] ?? "" }, network: false });
/** On CI the test fails if bubblewrap is missing. */
const skip = bubblewrap || process.env["CI"] !== undefined ? false : "needs bubblewrap";

describe("smoke: sessions", () => {
  for (const driver of ["sqlite", "json"])
    it(`${driver}: a session continues in another process, and a kill -9 loses no stored text`, async (t) => {
      const modelServer = await startModelServer(t);
      const home = await tempDir(t);
      const config = createServerConfig(modelServer, { session: { driver } });
      const firstServer = await startServer(t, { config, home: home.path });
      modelServer.enqueue(textStep("One."), { say: [{ text: "Half" }, { stall: true }] });
      const { sessionId } = await runPrompt(firstServer, { message: "first" });
      const interruptedRun = await startStreamedRun(firstServer, { message: "second", session_id: sessionId });
      await interruptedRun.waitForCharacters("Half".length);
      await waitUntil(async () => (await fetchMessages(firstServer, sessionId)).at(-1)?.content === "Half");
      await firstServer.stop("SIGKILL");
      const secondServer = await startServer(t, { config, home: home.path });
      modelServer.enqueue(textStep("Three."));
      const thirdRun = await runPrompt(secondServer, { message: "third", session_id: sessionId });
      assert.deepEqual([thirdRun.status, thirdRun.output], [200, "Three."], thirdRun.error);
      const messages = await fetchMessages(secondServer, sessionId);
      assert.deepEqual(
        messages.map(({ content }) => content),
        ["first", "One.", "second", "Half", "third", "Three."],
      );
      assert.equal(messages[3]?.finished, false);
    });

  it("a run of one process can be read and cancelled in another process with the same store", async (t) => {
    const modelServer = await startModelServer(t);
    const home = await tempDir(t);
    const options = { config: createServerConfig(modelServer), home: home.path };
    const [firstServer, secondServer] = [await startServer(t, options), await startServer(t, options)];
    modelServer.enqueue({ say: [{ text: "Half" }, { stall: true }] });
    const runStream = await startStreamedRun(firstServer, { message: "talk" });
    await runStream.waitForCharacters("Half".length);
    await waitUntil(async () => (await fetchMessages(secondServer, runStream.sessionId)).length > 0);
    const response = await secondServer.fetch(`/api/sessions/${runStream.sessionId}/cancel`, { method: "POST" });
    assert.equal(response.status, 200, await response.text());
    await runStream.ended;
    assert.equal(runStream.latestEvent?.data["code"], "run_cancelled");
  });

  it("SIGTERM during a command ends the stream with shutting_down, kills the command and exits with 0", async (t) => {
    const modelServer = await startModelServer(t);
    const sleepSeconds = pickUniqueSeconds();
    modelServer.enqueue(callStep("bash", { command: `echo started > started; exec sleep ${sleepSeconds}` }));
    const project = await tempDir(t);
    const server = await startServer(t, { config: createServerConfig(modelServer), projectDir: project.path });
    const runStream = await startStreamedRun(server, { message: "run it" });
    await project.readWhenWritten("started");
    assert.deepEqual(await server.stop("SIGTERM"), { code: 0, signal: null });
    await runStream.ended;
    assert.equal(runStream.latestEvent?.data["code"], "shutting_down");
    await waitUntil(async () => (await countProcesses(`sleep ${sleepSeconds}`)) === 0);
  });

  it("sandbox: a command cannot write outside the project, nor read the server's secrets", { skip }, async (t) => {
    const modelServer = await startModelServer(t);
    const outside = await tempDir(t);
    const command = `echo x > ${outside.at("escaped")}; echo y > inside; env; cat /proc/$PPID/environ`;
    modelServer.enqueue(callStep("bash", { command }), textStep("Done."));
    const project = await tempDir(t);
    const config = createServerConfig(modelServer, { tools: { bash: { sandbox: "required" } } });
    const server = await startServer(t, { config, projectDir: project.path, env: { CANARY: "canary-7zq3k9" } });
    assert.equal((await runPrompt(server, { message: "try" })).output, "Done.");
    assert.equal(await project.read("inside"), "y\n");
    await assert.rejects(outside.read("escaped"), { code: "ENOENT" });
    assert.doesNotMatch(JSON.stringify(modelServer.requests[1]!.body), /canary-7zq3k9|key-of-the-lab/);
  });
});
