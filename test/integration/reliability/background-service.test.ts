import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { killDetached } from "../../helpers/kill-detached.js";
import { eventsOf } from "../../helpers/event-page.js";
import { call, say, type Answer } from "../../helpers/fake-model-server.js";
import { ask, lab, labConfig, until } from "../../helpers/lab.js";
import { startServer, type GantryServer } from "../../helpers/server.js";
import { makeTempDir, tempDir } from "../../helpers/temp.js";

const SERVICE = `
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

const probe = (port: string) =>
  fetch(`http://127.0.0.1:${port}/`).then(
    (response) => response.text(),
    () => "gone",
  );

/** The background processes in the first state that a new watcher receives. */
async function processesOf(server: GantryServer, id: string): Promise<unknown> {
  const over = new AbortController();
  let processes: unknown;
  try {
    for await (const { type, data } of eventsOf(`${server.url}/api/sessions/${id}/events`, {}, over.signal)) {
      if (type !== "state") continue;
      processes = data.processes;
      over.abort();
    }
  } catch (error) {
    if (!over.signal.aborted) throw error;
  }
  return processes;
}

describe("a background service", { skip: process.platform === "linux" ? false : "needs /proc" }, () => {
  it("is started, probed and stopped; after a SIGKILL of gantry only a detached one continues and can be stopped", async (t) => {
    const home = await makeTempDir();
    t.after(async () => {
      killDetached(home.at("kept"));
      await home.remove();
    });
    const folder = await tempDir(t, { "service.cjs": SERVICE });
    const models = await lab(t);
    const config = labConfig(models, { tools: { bash: { sandbox: "off" } } });
    const options = { config, home: home.path, projectDir: folder.path };
    const results: string[] = [];
    const started = (name: string, detached: boolean): Answer =>
      call("bash", { command: `echo $$ > ${name}.pid; exec node service.cjs ${name}`, background: true, detached });
    /** Calls a tool with the last id that the model received. */
    const last = (tool: string, input: object = {}): Answer => {
      return (request) => {
        const text = JSON.stringify(request.body);
        return call(tool, { id: text.match(/bg-[0-9a-f]{6}/g)!.at(-1)!, ...input });
      };
    };
    const run = async (server: GantryServer, session: string | undefined, ...steps: Answer[]): Promise<string> => {
      models.enqueue(...steps, (request) => {
        results.push(JSON.stringify(request.body).slice(-50_000));
        return say("done");
      });
      const sessionFields = session === undefined ? {} : { session_id: session };
      const { status, sessionId } = await ask(server, { message: "go on", ...sessionFields });
      assert.equal(status, 200);
      return sessionId;
    };
    const pidOf = async (name: string) => Number(await folder.read(`${name}.pid`));

    const first = await startServer(t, options);
    const ready = { wait_for: "ready", timeout: 60 };
    const id = await run(first, undefined, started("one", false), last("bash_output", ready));
    assert.equal(await probe(await folder.read("one")), "here");
    await run(first, id, last("bash_stop"));
    assert.ok(results.at(-1)!.includes("was stopped, with all processes that it started"));
    assert.equal(await probe(await folder.read("one")), "gone");

    await run(first, id, started("lost", false), last("bash_output", ready));
    await run(first, id, started("kept", true), last("bash_output", ready));
    const port = await folder.read("kept");
    assert.equal(await probe(port), "here");
    const before = JSON.stringify(await processesOf(first, id));
    assert.match(before, /"detached":true/);
    await first.stop("SIGKILL");
    // A process that is not detached ends with the server. The others continue.
    const lostPid = await pidOf("lost");
    await until(() => !isLiving(lostPid));
    assert.equal(await probe(port), "here");

    const second = await startServer(t, options);
    const [only, ...otherProcesses] = (await processesOf(second, id)) as { detached: boolean; state: string }[];
    assert.deepEqual([only?.detached, only?.state, otherProcesses], [true, "running", []]);
    await run(second, id, last("bash_output"), last("bash_stop"));
    assert.ok(results.at(-1)!.includes("was stopped, with all processes that it started"));
    assert.equal(await probe(port), "gone");
    const keptPid = await pidOf("kept");
    assert.ok(!isLiving(keptPid));
  });
});
