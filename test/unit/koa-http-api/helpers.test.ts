import assert from "node:assert/strict";
import { it } from "node:test";
import { builtinTools } from "gantry";
import { callTools } from "gantry/testing";
import { startApi } from "../../helpers/http-api.js";

interface Wire {
  id: string;
  title: string;
  spawned_by?: { session_id: string; run_id: string; call_id: string };
}

it("GET /api/sessions?spawned_by lists a session's subagents, which other lists omit; DELETE removes them too", async (t) => {
  const tools = builtinTools().filter(({ name }) => name === "task");
  const { run, send: ask } = await startApi(t, {
    steps: [callTools(["task", { description: "Look", prompt: "Look there." }, "c1"]), "helped", "done"],
    agent: { tools },
  });
  const id = String((await run({ message: "go" })).headers["x-session-id"]);
  const list = async (query: string) =>
    (await ask(`/api/sessions?${query}`)).json() as { sessions: Wire[]; total: number };
  const all = await list("");
  assert.deepEqual([all.sessions.map((listedSession) => listedSession.id), all.total], [[id], 1]);
  assert.ok(!("spawned_by" in all.sessions[0]!), "of others nothing is said of it");
  const subagents = await list(`spawned_by=${id}`);
  const [subagent] = subagents.sessions;
  assert.ok(subagent);
  const { runs } = (await ask(`/api/runs?session_id=${id}`)).json() as { runs: { id: string }[] };
  assert.deepEqual(subagent.spawned_by, { session_id: id, run_id: runs[0]!.id, call_id: "c1" });
  assert.deepEqual([subagents.total, subagent.title], [1, "Look"]);
  const fetchedSession = (await ask(`/api/sessions/${subagent.id}`)).json() as Wire;
  assert.deepEqual(fetchedSession.spawned_by, subagent.spawned_by);
  assert.deepEqual(await list("spawned_by=nobody"), { sessions: [], total: 0, page: 1, size: 20 });
  assert.equal((await ask("/api/sessions?spawned_by=a&spawned_by=b")).status, 400);
  assert.equal((await ask(`/api/sessions/${id}`, { method: "DELETE" })).status, 200);
  assert.equal((await ask(`/api/sessions/${subagent.id}`)).status, 404);
});
