import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { sseEvents } from "../../helpers/http.js";
import { until } from "../../helpers/lab.js";
import { startApi, type Api } from "../../helpers/http-api.js";

const LONG_ANSWER = "a long answer. ".repeat(200);

/** Creates a session with some thousand tokens and returns its id. */
async function createConversation(api: Api): Promise<string> {
  let sessionId = "";
  for (let turn = 0; turn < 6; turn += 1)
    sessionId = String(
      (await api.run({ message: "go", ...(sessionId && { session_id: sessionId }) })).headers["x-session-id"],
    );
  return sessionId;
}

const messagesOf = async (api: Api, id: string, view = "all") =>
  ((await api.send(`/api/sessions/${id}/messages?view=${view}`)).json() as { messages: { content: string }[] })
    .messages;

describe("POST /api/run with compact", () => {
  it("compacts the session, plain or streamed; the plain request changes no stored message", async (t) => {
    const api = await startApi(t, {
      steps: [...Array<string>(6).fill(LONG_ANSWER), "NOTES", LONG_ANSWER, LONG_ANSWER, "MORE"],
    });
    const id = await createConversation(api);
    const before = await messagesOf(api, id);
    const answer = await api.run({ session_id: id, message: "", compact: true });
    const { output, iterations, finish_reason: reason } = answer.json() as Record<string, unknown>;
    assert.deepEqual([answer.status, output, iterations, reason], [200, "", 0, "stop"]);
    assert.deepEqual(await messagesOf(api, id), before);
    assert.match((await messagesOf(api, id, "model")).map(({ content }) => content).join(), /NOTES/);

    for (let turn = 0; turn < 2; turn += 1) await api.run({ message: "go", session_id: id });
    const streamed = await api.run({ session_id: id, message: "the names", compact: true, stream: true });
    const events = sseEvents(streamed.text).map(({ event, data }) => [event, (data as { type?: string }).type]);
    assert.deepEqual(events.slice(0, 2), [
      ["agent", "compaction"],
      ["agent", "done"],
    ]);
    assert.match(JSON.stringify(api.provider.requests.at(-1)?.system), /keep above all: the names/);
  });

  it("compacts in the background, and returns 409 while a run is active", async (t) => {
    let release = (): void => undefined;
    const released = new Promise<void>((resolve) => (release = resolve));
    const api = await startApi(t, { steps: [...Array<string>(6).fill(LONG_ANSWER), "NOTES", [released]] });
    const id = await createConversation(api);
    const acceptedAnswer = await api.run({ session_id: id, message: "", compact: true, background: true });
    const { run_id: runId } = acceptedAnswer.json() as { run_id: string };
    assert.equal(acceptedAnswer.status, 202);
    await api.agent.runs.ended(runId);
    assert.equal(((await api.send(`/api/runs/${runId}`)).json() as { state: string }).state, "finished");
    const run = api.run({ session_id: id, message: "go" });
    await until(() => api.agent.sessions.isRunning(id));
    assert.equal((await api.run({ session_id: id, message: "", compact: true })).status, 409);
    release();
    await run;
  });

  it("returns 400 and names the field that is missing, invalid or not allowed with compact", async (t) => {
    const api = await startApi(t);
    const session_id = (await api.run({ message: "go" })).headers["x-session-id"];
    const file = { filename: "a.txt", media_type: "text/plain", data: "YQ==" };
    for (const [body, why] of [
      [{ message: "" }, "invalid field: session_id"],
      [{ message: "", session_id, attachments: [file] }, "invalid field: attachments"],
      [{ message: "", session_id, files: ["a.txt"] }, "invalid field: files"],
      [{ message: "", session_id, output_schema: {} }, "invalid field: output_schema: expected none beside compact"],
      [{ message: "", session_id, compact: "yes" }, "message is required"],
      [{ message: "x", session_id, compact: "yes" }, "invalid field: compact"],
      [{ message: "", session_id, compact: false }, "message is required"],
      [{ session_id }, "message is required"],
    ] as const) {
      const answer = await api.run({ compact: true, ...body });
      assert.deepEqual([answer.status, (answer.json() as { error: string }).error], [400, why]);
    }
  });
});
