import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { MemoryDriver, StoreError } from "gantry";
import { callTools, type ScriptedChunk } from "gantry/testing";
import { createGate, createWaitTool } from "../../helpers/gate.js";
import { parseSseEvents } from "../../helpers/raw-http.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { startApi, type TestApi } from "../../helpers/http-api.js";

const createKeyHeader = (key: string) => ({ "idempotency-key": key });
const readTokenText = (text: string): string =>
  parseSseEvents(text)
    .filter(({ data }) => data.type === "token")
    .map(({ data }) => data.content as string)
    .join("");
const countSessions = async ({ agent }: TestApi): Promise<number> => (await agent.sessions.list()).total;

describe("Idempotency-Key", () => {
  it("runs a request once, returns the same response to repeats, and returns 422 for another body", async (t) => {
    const api = await startApi(t, { steps: ["one", "two"] });
    const sendRequest = () => api.postRun({ message: "hi" }, createKeyHeader("k"));
    const [firstResponse, secondResponse] = await Promise.all([sendRequest(), sendRequest()]);
    const thirdResponse = await sendRequest();
    for (const response of [firstResponse, secondResponse, thirdResponse]) {
      assert.equal(response.status, 200);
      assert.equal(response.text, firstResponse.text);
      for (const name of ["x-run-id", "x-session-id", "x-model"])
        assert.equal(response.headers[name], firstResponse.headers[name]);
    }
    assert.equal(await countSessions(api), 1);
    assert.equal(api.provider.requests.length, 1);
    // A different body is a different request, even if only the order of the fields differs.
    const reorderedResponse = await api.postRun('{"stream":false,"message":"hi"}', createKeyHeader("k"));
    assert.equal(reorderedResponse.status, 422);
    assert.deepEqual((await api.postRun({ message: "ho" }, createKeyHeader("k"))).json(), {
      error: "this key was used for another request",
      code: "key_reused",
    });
    assert.equal((await api.postRun({ message: "ho" }, createKeyHeader("k2"))).status, 200);
  });

  it("sends the whole stream of the active run to a repeat, from the first token", async (t) => {
    const toolGate = createGate();
    const steps = [
      [
        { type: "text", block: "0", text: "Let me " } as ScriptedChunk,
        { type: "text", block: "0", text: "look. " } as ScriptedChunk,
        ...callTools(["wait", {}]),
      ],
      "Found.",
    ];
    const api = await startApi(t, { steps, agent: { tools: [createWaitTool(toolGate)] } });
    const sendRequest = () => api.postRun({ message: "hi", stream: true }, createKeyHeader("k"));
    const firstRequest = sendRequest();
    await toolGate.firstWait;
    const secondRequest = sendRequest();
    toolGate.open();
    const responses = (await Promise.all([firstRequest, secondRequest])).concat(await sendRequest());
    for (const { status, text } of responses) {
      assert.equal(status, 200);
      assert.equal(readTokenText(text), "Let me look. Found.");
      const types = parseSseEvents(text).map(({ event, data }) => `${event} ${data.type as string}`);
      assert.deepEqual(types.slice(-2), ["agent done", "done done"]);
      const toolEvents = parseSseEvents(text).filter(({ data }) => String(data.type).startsWith("tool"));
      assert.deepEqual(
        toolEvents.map(({ data: { type, tool_name, tool_output } }) => [type, tool_name, tool_output]),
        [
          ["tool_call", "wait", undefined],
          ["tool_result", "wait", "waited"],
        ],
      );
      assert.deepEqual(parseSseEvents(text).at(-1), parseSseEvents(responses[0]!.text).at(-1));
    }
    assert.equal(await countSessions(api), 1);
  });

  it("ends the stream of a repeat with its run when the next run of the session starts", async (t) => {
    const toolGate = createGate();
    const steps = [callTools(["wait", {}]), "first", "second", "third"];
    const api = await startApi(t, { steps, agent: { tools: [createWaitTool(toolGate)] } });
    const sendRequest = () => api.postRun({ message: "hi", stream: true }, createKeyHeader("k"));
    const firstRequest = sendRequest();
    await toolGate.firstWait;
    const repeatRequest = sendRequest();
    const [{ sessionId } = assert.fail()] = await api.agent.runs.list();
    const laterRuns = ["and", "then"].map((message) => api.postRun({ message, session_id: sessionId, queue: true }));
    await waitUntil(async () => (await api.agent.runs.list({ states: ["queued"] })).length === 2);
    toolGate.open();
    for (const { text } of await Promise.all([firstRequest, repeatRequest])) assert.equal(readTokenText(text), "first");
    await Promise.all(laterRuns);
  });

  it("continues a run whose client disconnects, and returns its response to a repeat", async (t) => {
    const toolGate = createGate();
    const api = await startApi(t, {
      steps: [callTools(["wait", {}]), "done"],
      agent: { tools: [createWaitTool(toolGate)] },
    });
    const disconnectAbort = new AbortController();
    const init = {
      method: "POST",
      body: JSON.stringify({ message: "hi" }),
      headers: createKeyHeader("k"),
      signal: disconnectAbort.signal,
    };
    const firstRequest = fetch(`${api.url}/api/run`, init);
    await toolGate.firstWait;
    disconnectAbort.abort();
    await assert.rejects(firstRequest);
    toolGate.open();
    const repeatResponse = await api.postRun({ message: "hi" }, createKeyHeader("k"));
    assert.equal((repeatResponse.json() as { output: string }).output, "done");
  });

  it("returns the same failure to a repeat", async (t) => {
    const api = await startApi(t, { steps: [new Error("broken")] });
    const [firstResponse, repeatResponse] = [
      await api.postRun({ message: "hi" }, createKeyHeader("k")),
      await api.postRun({ message: "hi" }, createKeyHeader("k")),
    ];
    assert.equal(firstResponse.status, 500);
    assert.deepEqual([repeatResponse.status, repeatResponse.json()], [500, firstResponse.json()]);
  });

  it("continues a run that a store failure interrupted, in place, on a repeat", async (t) => {
    const driver = new MemoryDriver();
    const originalWrite = driver.write.bind(driver);
    const toolGate = createGate();
    const steps = [callTools(["wait", {}]), "never", "done"];
    const api = await startApi(t, { steps, agent: { driver, tools: [createWaitTool(toolGate)] } });
    const sendRequest = () => api.postRun({ message: "hi" }, createKeyHeader("k"));
    const firstRequest = sendRequest();
    await toolGate.firstWait;
    driver.write = () => {
      driver.write = originalWrite;
      return Promise.reject(new StoreError("the store is away"));
    };
    toolGate.open();
    const failedResponse = await firstRequest;
    assert.notEqual(failedResponse.status, 200);
    const repeatResponse = await sendRequest();
    assert.deepEqual(
      [repeatResponse.status, repeatResponse.headers["x-session-id"]],
      [200, failedResponse.headers["x-session-id"]],
      repeatResponse.text,
    );
    assert.equal(repeatResponse.headers["x-run-id"], failedResponse.headers["x-run-id"]);
    const messages = await driver.messages(String(repeatResponse.headers["x-session-id"]));
    assert.deepEqual(
      messages.map(({ role }) => role),
      ["user", "assistant", "tool", "assistant"],
    );
    const thirdResponse = await sendRequest();
    assert.deepEqual(
      [thirdResponse.text, thirdResponse.headers["x-run-id"]],
      [repeatResponse.text, repeatResponse.headers["x-run-id"]],
    );
  });

  it("returns 400 for an invalid key and starts no run", async (t) => {
    const api = await startApi(t);
    for (const key of ["", "a b", "x".repeat(10_000), "ä"]) {
      const response = await api.postRun({ message: "hi" }, createKeyHeader(key));
      // Node.js may reject the long header itself.
      if (key.length > 9_000 && response.status === 431) continue;
      assert.deepEqual(
        [response.status, response.json()],
        [400, { error: "invalid header: Idempotency-Key", code: "invalid_header" }],
        key.slice(0, 20),
      );
    }
    assert.equal(await countSessions(api), 0);
  });
});

describe("POST /api/run", () => {
  it("returns 202 at once with background, and the run finishes without its client", async (t) => {
    const toolGate = createGate();
    const api = await startApi(t, {
      steps: [callTools(["wait", {}]), "done"],
      agent: { tools: [createWaitTool(toolGate)] },
    });
    const { status, headers, json } = await api.postRun({ message: "hi", background: true });
    const { run_id: id, session_id: sessionId } = json() as { run_id: string; session_id: string };
    assert.deepEqual([status, headers["x-run-id"], headers["x-session-id"]], [202, id, sessionId]);
    assert.equal(((await api.send(`/api/runs/${id}`)).json() as { state: string }).state, "running");
    toolGate.open();
    assert.equal((await api.agent.runs.ended(id)).state, "finished");
  });

  it("sets the session's mode, and continues the run after a disconnect with on_disconnect continue", async (t) => {
    const toolGate = createGate();
    // Mode `ask` requires an answer, but no client can answer.
    const agent = { tools: [createWaitTool(toolGate)], unattended: "allow" } as const;
    const api = await startApi(t, { steps: [callTools(["wait", {}]), "done"], agent });
    const disconnectAbort = new AbortController();
    const body = JSON.stringify({ message: "hi", mode: "ask", on_disconnect: "continue" });
    const runRequest = fetch(`${api.url}/api/run`, { method: "POST", body, signal: disconnectAbort.signal });
    await toolGate.firstWait;
    disconnectAbort.abort();
    await assert.rejects(runRequest);
    toolGate.open();
    const [run] = await api.agent.runs.list();
    assert.equal((await api.agent.runs.ended(run!.id)).state, "finished");
    assert.equal((await api.agent.sessions.get(run!.sessionId))?.mode, "ask");
  });

  it("returns 400 and names an invalid background, on_disconnect or mode field", async (t) => {
    const api = await startApi(t);
    for (const [field, body] of [
      ["background", { background: "yes" }],
      ["background", { background: true, stream: true }],
      ["background", { background: null }],
      ["on_disconnect", { on_disconnect: "stop" }],
      ["mode", { mode: "yolo" }],
      ["mode", { mode: 1 }],
    ] as const) {
      const { status, json } = await api.postRun({ message: "hi", ...body });
      assert.deepEqual([status, json()], [400, { error: `invalid field: ${field}`, code: "invalid_field" }]);
    }
  });
});
