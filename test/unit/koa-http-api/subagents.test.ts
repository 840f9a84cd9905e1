import assert from "node:assert/strict";
import { it } from "node:test";
import { builtinTools } from "gantry";
import { callTools } from "gantry/testing";
import { startApi } from "../../helpers/http-api.js";

interface WireSession {
  id: string;
  title: string;
  spawned_by?: { session_id: string; run_id: string; call_id: string };
}

it("GET /api/sessions?spawned_by lists a session's subagents, which other lists omit; DELETE of the session removes its subagents", async (t) => {
  const tools = builtinTools().filter(({ name }) => name === "task");
  const { postRun, send: sendRequest } = await startApi(t, {
    steps: [callTools(["task", { description: "Look", prompt: "Look there." }, "c1"]), "helped", "done"],
    agent: { tools },
  });
  const id = String((await postRun({ message: "go" })).headers["x-session-id"]);
  const listSessions = async (query: string) =>
    (await sendRequest(`/api/sessions?${query}`)).json() as { sessions: WireSession[]; total: number };
  const rootSessions = await listSessions("");
  assert.deepEqual([rootSessions.sessions.map((listedSession) => listedSession.id), rootSessions.total], [[id], 1]);
  assert.ok(!("spawned_by" in rootSessions.sessions[0]!), "a root session has no spawned_by");
  const subagents = await listSessions(`spawned_by=${id}`);
  const [subagent] = subagents.sessions;
  assert.ok(subagent);
  const { runs } = (await sendRequest(`/api/runs?session_id=${id}`)).json() as { runs: { id: string }[] };
  assert.deepEqual(subagent.spawned_by, { session_id: id, run_id: runs[0]!.id, call_id: "c1" });
  assert.deepEqual([subagents.total, subagent.title], [1, "Look"]);
  const fetchedSession = (await sendRequest(`/api/sessions/${subagent.id}`)).json() as WireSession;
  assert.deepEqual(fetchedSession.spawned_by, subagent.spawned_by);
  assert.deepEqual(await listSessions("spawned_by=nobody"), { sessions: [], total: 0, page: 1, size: 20 });
  assert.equal((await sendRequest("/api/sessions?spawned_by=a&spawned_by=b")).status, 400);
  assert.equal((await sendRequest(`/api/sessions/${id}`, { method: "DELETE" })).status, 200);
  assert.equal((await sendRequest(`/api/sessions/${subagent.id}`)).status, 404);
});
