import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { killDetached } from "../../helpers/kill-detached.js";
import { readSessionEvents } from "../../helpers/event-page.js";
import { callStep, textStep, type ScriptedAnswer } from "../../helpers/fake-model-server.js";
import { runPrompt, startModelServer, createServerConfig, waitUntil } from "../../helpers/server-runs.js";
import { startServer, type GantryServer } from "../../helpers/server.js";
import { makeTempDir, tempDir } from "../../helpers/temp-dir.js";

const SERVICE_CODE = `
const server = require("node:http").createServer((_, response) => response.end("here"));
server.listen(0, "127.0.0.1", () => {
  require("node:fs").writeFileSync(process.argv[2], String(server.address().port));
  console.log("ready, " + process.argv[2]);
});`;

function isLiving(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) [ZX]/.test(readFileSync(`/proc/${pid}/stat`, "latin1"));
  } catch {
    return false;
  }
}

/** Returns the response text of the service, which is `here`, or `gone` if the service is not reachable. */
const fetchServiceText = (port: string) =>
  fetch(`http://127.0.0.1:${port}/`).then(
    (response) => response.text(),
    () => "gone",
  );

/** Returns the background processes in the first state that a new watcher receives. */
async function readProcesses(server: GantryServer, id: string): Promise<unknown> {
  const abortController = new AbortController();
  let processes: unknown;
  try {
    for await (const { type, data } of readSessionEvents(
      `${server.url}/api/sessions/${id}/events`,
      {},
      abortController.signal,
    )) {
      if (type !== "state") continue;
      processes = data.processes;
      abortController.abort();
    }
  } catch (error) {
    if (!abortController.signal.aborted) throw error;
  }
  return processes;
}

describe("a background service", { skip: process.platform === "linux" ? false : "needs /proc" }, () => {
  it("is started, probed and stopped; after a SIGKILL of gantry only a detached service continues and can be stopped", async (t) => {
    const home = await makeTempDir();
    t.after(async () => {
      killDetached(home.at("kept"));
      await home.remove();
    });
    const folder = await tempDir(t, { "service.cjs": SERVICE_CODE });
    const modelServer = await startModelServer(t);
    const config = createServerConfig(modelServer, { tools: { bash: { sandbox: "off" } } });
    const options = { config, home: home.path, projectDir: folder.path };
    const requestTexts: string[] = [];
    const createServiceStep = (name: string, detached: boolean): ScriptedAnswer =>
      callStep("bash", { command: `echo $$ > ${name}.pid; exec node service.cjs ${name}`, background: true, detached });
    /** Calls a tool with the last id that the model received. */
    const createStepWithLastId = (tool: string, input: object = {}): ScriptedAnswer => {
      return (request) => {
        const text = JSON.stringify(request.body);
        return callStep(tool, { id: text.match(/bg-[0-9a-f]{6}/g)!.at(-1)!, ...input });
      };
    };
    const runSteps = async (
      server: GantryServer,
      session: string | undefined,
      ...steps: ScriptedAnswer[]
    ): Promise<string> => {
      modelServer.enqueue(...steps, (request) => {
        requestTexts.push(JSON.stringify(request.body).slice(-50_000));
        return textStep("done");
      });
      const sessionFields = session === undefined ? {} : { session_id: session };
      const { status, sessionId } = await runPrompt(server, { message: "go on", ...sessionFields });
      assert.equal(status, 200);
      return sessionId;
    };
    const readPid = async (name: string) => Number(await folder.read(`${name}.pid`));

    const firstServer = await startServer(t, options);
    const readyOptions = { wait_for: "ready", timeout: 60 };
    const serviceSessionId = await runSteps(
      firstServer,
      undefined,
      createServiceStep("one", false),
      createStepWithLastId("bash_output", readyOptions),
    );
    assert.equal(await fetchServiceText(await folder.read("one")), "here");
    await runSteps(firstServer, serviceSessionId, createStepWithLastId("bash_stop"));
    assert.ok(requestTexts.at(-1)!.includes("was stopped, with all processes that it started"));
    assert.equal(await fetchServiceText(await folder.read("one")), "gone");

    await runSteps(
      firstServer,
      serviceSessionId,
      createServiceStep("lost", false),
      createStepWithLastId("bash_output", readyOptions),
    );
    await runSteps(
      firstServer,
      serviceSessionId,
      createServiceStep("kept", true),
      createStepWithLastId("bash_output", readyOptions),
    );
    const port = await folder.read("kept");
    assert.equal(await fetchServiceText(port), "here");
    const processesText = JSON.stringify(await readProcesses(firstServer, serviceSessionId));
    assert.match(processesText, /"detached":true/);
    await firstServer.stop("SIGKILL");
    // A process that is not detached ends with the server. A detached process continues.
    const lostPid = await readPid("lost");
    await waitUntil(() => !isLiving(lostPid));
    assert.equal(await fetchServiceText(port), "here");

    const secondServer = await startServer(t, options);
    const [onlyProcess, ...otherProcesses] = (await readProcesses(secondServer, serviceSessionId)) as {
      detached: boolean;
      state: string;
    }[];
    assert.deepEqual([onlyProcess?.detached, onlyProcess?.state, otherProcesses], [true, "running", []]);
    await runSteps(
      secondServer,
      serviceSessionId,
      createStepWithLastId("bash_output"),
      createStepWithLastId("bash_stop"),
    );
    assert.ok(requestTexts.at(-1)!.includes("was stopped, with all processes that it started"));
    assert.equal(await fetchServiceText(port), "gone");
    const keptPid = await readPid("kept");
    assert.ok(!isLiving(keptPid));
  });
});
