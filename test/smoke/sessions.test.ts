// Tests each store once, and the end of a process by a signal and by SIGKILL.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { findBubblewrap } from "../../src/tools/shell/sandbox/bubblewrap.js";
import { call, say } from "../helpers/fake-model-server.js";
import { ask, lab, labConfig, processes, stored, stream, uniqueSeconds, until } from "../helpers/lab.js";
import { startServer } from "../helpers/server.js";
import { tempDir } from "../helpers/temp.js";

const bubblewrap = await findBubblewrap({ env: { PATH: process.env["PATH"] ?? "" }, network: false });
/** On CI the test fails if bubblewrap is missing. */
const skip = bubblewrap || process.env["CI"] !== undefined ? false : "needs bubblewrap";

describe("smoke: sessions", () => {
  for (const driver of ["sqlite", "json"])
    it(`${driver}: a session continues in another process, and a kill -9 loses no stored text`, async (t) => {
      const models = await lab(t);
      const home = await tempDir(t);
      const config = labConfig(models, { session: { driver } });
      const first = await startServer(t, { config, home: home.path });
      models.enqueue(say("One."), { say: [{ text: "Half" }, { stall: true }] });
      const { sessionId } = await ask(first, { message: "first" });
      const broken = await stream(first, { message: "second", session_id: sessionId });
      await broken.text("Half".length);
      await until(async () => (await stored(first, sessionId)).at(-1)?.content === "Half");
      await first.stop("SIGKILL");
      const second = await startServer(t, { config, home: home.path });
      models.enqueue(say("Three."));
      const next = await ask(second, { message: "third", session_id: sessionId });
      assert.deepEqual([next.status, next.output], [200, "Three."], next.error);
      const messages = await stored(second, sessionId);
      assert.deepEqual(
        messages.map(({ content }) => content),
        ["first", "One.", "second", "Half", "third", "Three."],
      );
      assert.equal(messages[3]?.finished, false);
    });

  it("a run of one process can be read and cancelled in another process with the same store", async (t) => {
    const models = await lab(t);
    const home = await tempDir(t);
    const options = { config: labConfig(models), home: home.path };
    const [firstServer, secondServer] = [await startServer(t, options), await startServer(t, options)];
    models.enqueue({ say: [{ text: "Half" }, { stall: true }] });
    const streamed = await stream(firstServer, { message: "talk" });
    await streamed.text("Half".length);
    await until(async () => (await stored(secondServer, streamed.sessionId)).length > 0);
    const answer = await secondServer.fetch(`/api/sessions/${streamed.sessionId}/cancel`, { method: "POST" });
    assert.equal(answer.status, 200, await answer.text());
    await streamed.ended;
    assert.equal(streamed.last?.data["code"], "run_cancelled");
  });

  it("SIGTERM during a command ends the stream with shutting_down, kills the command and exits with 0", async (t) => {
    const models = await lab(t);
    const seconds = uniqueSeconds();
    models.enqueue(call("bash", { command: `echo started > started; exec sleep ${seconds}` }));
    const project = await tempDir(t);
    const server = await startServer(t, { config: labConfig(models), projectDir: project.path });
    const streamed = await stream(server, { message: "run it" });
    await project.written("started");
    assert.deepEqual(await server.stop("SIGTERM"), { code: 0, signal: null });
    await streamed.ended;
    assert.equal(streamed.last?.data["code"], "shutting_down");
    await until(async () => (await processes(`sleep ${seconds}`)) === 0);
  });

  it("sandbox: a command cannot write outside the project, nor read the server's secrets", { skip }, async (t) => {
    const models = await lab(t);
    const outside = await tempDir(t);
    const command = `echo x > ${outside.at("escaped")}; echo y > inside; env; cat /proc/$PPID/environ`;
    models.enqueue(call("bash", { command }), say("Done."));
    const project = await tempDir(t);
    const config = labConfig(models, { tools: { bash: { sandbox: "required" } } });
    const server = await startServer(t, { config, projectDir: project.path, env: { CANARY: "canary-7zq3k9" } });
    assert.equal((await ask(server, { message: "try" })).output, "Done.");
    assert.equal(await project.read("inside"), "y\n");
    await assert.rejects(outside.read("escaped"), { code: "ENOENT" });
    assert.doesNotMatch(JSON.stringify(models.requests[1]!.body), /canary-7zq3k9|key-of-the-lab/);
  });
});
