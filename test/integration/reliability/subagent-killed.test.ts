// The stored state after gantry dies while a subagent works.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { callStep, textStep, type FakeRequest, type FakeStep } from "../../helpers/fake-model-server.js";
import { runPrompt, startModelServer, createServerConfig, waitUntil } from "../../helpers/server-runs.js";
import { startServer, type GantryServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp-dir.js";

interface WireSession {
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
const readJson = async <T>(server: GantryServer, path: string): Promise<T> =>
  (await (await server.fetch(path)).json()) as T;

describe(
  "SIGKILL of a server while a subagent works",
  { skip: process.platform === "linux" ? false : "needs /proc" },
  () => {
    it("leaves no process, counts the subagent's usage once, and both sessions accept new prompts", async (t) => {
      const [home, folder] = [await tempDir(t), await tempDir(t)];
      const steps: FakeStep[] = [
        callStep(
          "bash",
          { command: "echo $$ > back.pid; exec sleep 1000", background: true },
          { usage: { input: 100, output: 10 } },
        ),
        callStep(
          "bash",
          { command: "sleep 1000 & echo $! > child.pid; echo $$ > own.pid; wait" },
          { usage: { input: 200, output: 10 } },
        ),
      ];
      let parentRequestCount = 0;
      const modelServer = await startModelServer(t, {
        fallback: (request) => {
          if (isSubagentRequest(request)) return steps.shift() ?? textStep("helped");
          return (parentRequestCount += 1) === 1
            ? callStep("task", { description: "Look", prompt: "Look there." }, { usage: { input: 50, output: 5 } })
            : textStep("on", { usage: { input: 60, output: 1 } });
        },
      });
      const config = createServerConfig(modelServer, { tools: { bash: { sandbox: "off" } } });
      const options = { config, home: home.path, projectDir: folder.path };
      const firstServer = await startServer(t, options);
      const startResponse = await firstServer.fetch("/api/run", {
        method: "POST",
        body: JSON.stringify({ message: "go", background: true }),
      });
      const { run_id: runId, session_id: sessionId } = (await startResponse.json()) as {
        run_id: string;
        session_id: string;
      };
      const pids: number[] = [];
      for (const name of ["back", "child", "own"])
        await waitUntil(async () => {
          const pid = Number(await folder.read(`${name}.pid`).catch(() => "0"));
          if (pid > 0) pids.push(pid);
          return pid > 0;
        });
      const readSubagents = async (server: GantryServer): Promise<WireSession[]> =>
        (await readJson<{ sessions: WireSession[] }>(server, `/api/sessions?spawned_by=${sessionId}`)).sessions;
      await firstServer.stop("SIGKILL");
      await waitUntil(() => Promise.resolve(!pids.some(isLiving)));

      const secondServer = await startServer(t, options);
      const [subagent] = await readSubagents(secondServer);
      assert.ok(subagent);
      const readStates = async (id: string): Promise<string[]> =>
        (await readJson<{ runs: { state: string }[] }>(secondServer, `/api/runs?session_id=${id}`)).runs.map(
          ({ state }) => state,
        );
      assert.deepEqual(
        [await readStates(sessionId), await readStates(subagent.id)],
        [["interrupted"], ["interrupted"]],
      );
      // The subagent has used 100 + 10 + 200 + 10 tokens, its parent 50 + 5.
      assert.equal(subagent.usage.total_tokens, 320);
      const parent = await readJson<WireSession>(secondServer, `/api/sessions/${sessionId}`);
      assert.equal(parent.usage.total_tokens, 55 + 320, "the parent's usage includes the subagent's usage once");
      assert.equal(
        (await readJson<{ usage: { total_tokens: number } }>(secondServer, `/api/runs/${runId}`)).usage.total_tokens,
        375,
      );

      const nextAnswer = await runPrompt(secondServer, { message: "and now", session_id: sessionId });
      assert.deepEqual([nextAnswer.status, nextAnswer.output], [200, "on"], nextAnswer.error);
      assert.match(JSON.stringify(modelServer.lastRunRequest?.body), /\[interrupted: outcome unknown\]/);
      assert.equal(
        (await readJson<WireSession>(secondServer, `/api/sessions/${sessionId}`)).usage.total_tokens,
        375 + 61,
      );
      const subagentRun = await runPrompt(secondServer, { message: "you too", session_id: subagent.id });
      assert.deepEqual([subagentRun.status, subagentRun.output], [200, "on"], subagentRun.error);
      assert.equal((await readSubagents(secondServer)).length, 1);
      assert.deepEqual(modelServer.violations, []);
    });
  },
);
