// The stored state after gantry dies while a subagent works.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { call, say, type FakeRequest, type FakeStep } from "../../helpers/fake-model-server.js";
import { ask, lab, labConfig, until } from "../../helpers/lab.js";
import { startServer, type GantryServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp.js";

interface Wire {
  id: string;
  title: string;
  usage: { total_tokens: number };
  spawned_by?: { session_id: string };
}

function isLiving(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) [ZX]/.test(readFileSync(`/proc/${pid}/stat`, "latin1"));
  } catch {
    return false;
  }
}

const isSubagentRequest = ({ body }: FakeRequest): boolean => JSON.stringify(body).includes("You are a subagent");
const read = async <T>(server: GantryServer, path: string): Promise<T> =>
  (await (await server.fetch(path)).json()) as T;

describe(
  "SIGKILL of a server while a subagent works",
  { skip: process.platform === "linux" ? false : "needs /proc" },
  () => {
    it("leaves no process, counts the subagent's usage once, and both sessions accept new prompts", async (t) => {
      const [home, folder] = [await tempDir(t), await tempDir(t)];
      const steps: FakeStep[] = [
        call(
          "bash",
          { command: "echo $$ > back.pid; exec sleep 1000", background: true },
          { usage: { input: 100, output: 10 } },
        ),
        call(
          "bash",
          { command: "sleep 1000 & echo $! > child.pid; echo $$ > own.pid; wait" },
          { usage: { input: 200, output: 10 } },
        ),
      ];
      let requestCount = 0;
      const models = await lab(t, {
        fallback: (request) => {
          if (isSubagentRequest(request)) return steps.shift() ?? say("helped");
          return (requestCount += 1) === 1
            ? call("task", { description: "Look", prompt: "Look there." }, { usage: { input: 50, output: 5 } })
            : say("on", { usage: { input: 60, output: 1 } });
        },
      });
      const config = labConfig(models, { tools: { bash: { sandbox: "off" } } });
      const options = { config, home: home.path, projectDir: folder.path };
      const first = await startServer(t, options);
      const startResponse = await first.fetch("/api/run", {
        method: "POST",
        body: JSON.stringify({ message: "go", background: true }),
      });
      const { run_id: run, session_id: session } = (await startResponse.json()) as {
        run_id: string;
        session_id: string;
      };
      const pids: number[] = [];
      for (const name of ["back", "child", "own"])
        await until(async () => {
          const pid = Number(await folder.read(`${name}.pid`).catch(() => "0"));
          if (pid > 0) pids.push(pid);
          return pid > 0;
        });
      const subagentsOf = async (server: GantryServer): Promise<Wire[]> =>
        (await read<{ sessions: Wire[] }>(server, `/api/sessions?spawned_by=${session}`)).sessions;
      await first.stop("SIGKILL");
      await until(() => Promise.resolve(!pids.some(isLiving)));

      const second = await startServer(t, options);
      const [subagent] = await subagentsOf(second);
      assert.ok(subagent);
      const states = async (id: string): Promise<string[]> =>
        (await read<{ runs: { state: string }[] }>(second, `/api/runs?session_id=${id}`)).runs.map(
          ({ state }) => state,
        );
      assert.deepEqual([await states(session), await states(subagent.id)], [["interrupted"], ["interrupted"]]);
      assert.equal(subagent.usage.total_tokens, 320);
      const parent = await read<Wire>(second, `/api/sessions/${session}`);
      assert.equal(parent.usage.total_tokens, 55 + 320, "once, in who asked");
      assert.equal(
        (await read<{ usage: { total_tokens: number } }>(second, `/api/runs/${run}`)).usage.total_tokens,
        375,
      );

      const nextAnswer = await ask(second, { message: "and now", session_id: session });
      assert.deepEqual([nextAnswer.status, nextAnswer.output], [200, "on"], nextAnswer.error);
      assert.match(JSON.stringify(models.lastOfRun?.body), /\[interrupted: outcome unknown\]/);
      assert.equal((await read<Wire>(second, `/api/sessions/${session}`)).usage.total_tokens, 375 + 61);
      const subagentRun = await ask(second, { message: "you too", session_id: subagent.id });
      assert.deepEqual([subagentRun.status, subagentRun.output], [200, "on"], subagentRun.error);
      assert.equal((await subagentsOf(second)).length, 1);
      assert.deepEqual(models.violations, []);
    });
  },
);
