import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseSseEvents } from "../../helpers/raw-http.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { startApi, type TestApi } from "../../helpers/http-api.js";

const LONG_ANSWER = "a long answer. ".repeat(200);

/** Creates a session with some thousand tokens and returns its id. */
async function createConversation(api: TestApi): Promise<string> {
  let sessionId = "";
  for (let turn = 0; turn < 6; turn += 1)
    sessionId = String(
      (await api.postRun({ message: "go", ...(sessionId && { session_id: sessionId }) })).headers["x-session-id"],
    );
  return sessionId;
}

const readMessages = async (api: TestApi, id: string, view = "all") =>
  ((await api.send(`/api/sessions/${id}/messages?view=${view}`)).json() as { messages: { content: string }[] })
    .messages;

describe("POST /api/run with compact", () => {
  it("compacts the session, plain or streamed; the plain request changes no stored message", async (t) => {
    const api = await startApi(t, {
      steps: [...Array<string>(6).fill(LONG_ANSWER), "NOTES", LONG_ANSWER, LONG_ANSWER, "MORE"],
    });
    const id = await createConversation(api);
    const storedMessages = await readMessages(api, id);
    const response = await api.postRun({ session_id: id, message: "", compact: true });
    const { output, iterations, finish_reason: finishReason } = response.json() as Record<string, unknown>;
    assert.deepEqual([response.status, output, iterations, finishReason], [200, "", 0, "stop"]);
    assert.deepEqual(await readMessages(api, id), storedMessages);
    assert.match((await readMessages(api, id, "model")).map(({ content }) => content).join(), /NOTES/);

    for (let turn = 0; turn < 2; turn += 1) await api.postRun({ message: "go", session_id: id });
    const streamedResponse = await api.postRun({ session_id: id, message: "the names", compact: true, stream: true });
    const events = parseSseEvents(streamedResponse.text).map(({ event, data }) => [
      event,
      (data as { type?: string }).type,
    ]);
    assert.deepEqual(events.slice(0, 2), [
      ["agent", "compaction"],
      ["agent", "done"],
    ]);
    assert.match(JSON.stringify(api.provider.requests.at(-1)?.system), /keep above all: the names/);
  });

  it("compacts in the background, and returns 409 while a run is active", async (t) => {
    let releaseStep = (): void => undefined;
    const stepReleased = new Promise<void>((resolve) => (releaseStep = resolve));
    const api = await startApi(t, { steps: [...Array<string>(6).fill(LONG_ANSWER), "NOTES", [stepReleased]] });
    const id = await createConversation(api);
    const backgroundResponse = await api.postRun({ session_id: id, message: "", compact: true, background: true });
    const { run_id: runId } = backgroundResponse.json() as { run_id: string };
    assert.equal(backgroundResponse.status, 202);
    await api.agent.runs.ended(runId);
    assert.equal(((await api.send(`/api/runs/${runId}`)).json() as { state: string }).state, "finished");
    const runResponse = api.postRun({ session_id: id, message: "go" });
    await waitUntil(() => api.agent.sessions.isRunning(id));
    assert.equal((await api.postRun({ session_id: id, message: "", compact: true })).status, 409);
    releaseStep();
    await runResponse;
  });

  it("returns 400 and names the field that is missing, invalid or not allowed with compact", async (t) => {
    const api = await startApi(t);
    const session_id = (await api.postRun({ message: "go" })).headers["x-session-id"];
    const attachment = { filename: "a.txt", media_type: "text/plain", data: "YQ==" };
    for (const [body, expectedError] of [
      [{ message: "" }, "invalid field: session_id"],
      [{ message: "", session_id, attachments: [attachment] }, "invalid field: attachments"],
      [{ message: "", session_id, files: ["a.txt"] }, "invalid field: files"],
      [{ message: "", session_id, output_schema: {} }, "invalid field: output_schema: expected none beside compact"],
      [{ message: "", session_id, compact: "yes" }, "message is required"],
      [{ message: "x", session_id, compact: "yes" }, "invalid field: compact"],
      [{ message: "", session_id, compact: false }, "message is required"],
      [{ session_id }, "message is required"],
    ] as const) {
      const response = await api.postRun({ compact: true, ...body });
      assert.deepEqual([response.status, (response.json() as { error: string }).error], [400, expectedError]);
    }
  });
});
