import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { MemoryDriver, StoreError } from "gantry";
import { callTools, type ScriptedChunk } from "gantry/testing";
import { gate, waitTool } from "../../helpers/gate.js";
import { sseEvents } from "../../helpers/http.js";
import { until } from "../../helpers/lab.js";
import { startApi, type Api } from "../../helpers/http-api.js";

const withKey = (key: string) => ({ "idempotency-key": key });
const tokens = (text: string): string =>
  sseEvents(text)
    .filter(({ data }) => data.type === "token")
    .map(({ data }) => data.content as string)
    .join("");
const sessionCount = async ({ agent }: Api): Promise<number> => (await agent.sessions.list()).total;

describe("Idempotency-Key", () => {
  it("runs a request once, returns the same answer to repeats, and 422 to another body", async (t) => {
    const api = await startApi(t, { steps: ["one", "two"] });
    const ask = () => api.run({ message: "hi" }, withKey("k"));
    const [first, second] = await Promise.all([ask(), ask()]);
    const third = await ask();
    for (const answer of [first, second, third]) {
      assert.equal(answer.status, 200);
      assert.equal(answer.text, first.text);
      for (const name of ["x-run-id", "x-session-id", "x-model"])
        assert.equal(answer.headers[name], first.headers[name]);
    }
    assert.equal(await sessionCount(api), 1);
    assert.equal(api.provider.requests.length, 1);
    // A different body is a different request, even if only the order of the fields differs.
    const reordered = await api.run('{"stream":false,"message":"hi"}', withKey("k"));
    assert.equal(reordered.status, 422);
    assert.deepEqual((await api.run({ message: "ho" }, withKey("k"))).json(), {
      error: "this key was used for another request",
      code: "key_reused",
    });
    assert.equal((await api.run({ message: "ho" }, withKey("k2"))).status, 200);
  });

  it("joins a repeat to the running stream, from its first token", async (t) => {
    const open = gate();
    const steps = [
      [
        { type: "text", block: "0", text: "Let me " } as ScriptedChunk,
        { type: "text", block: "0", text: "look. " } as ScriptedChunk,
        ...callTools(["wait", {}]),
      ],
      "Found.",
    ];
    const api = await startApi(t, { steps, agent: { tools: [waitTool(open)] } });
    const ask = () => api.run({ message: "hi", stream: true }, withKey("k"));
    const first = ask();
    await open.reached;
    const second = ask();
    open.open();
    const third = (await Promise.all([first, second])).concat(await ask());
    for (const { status, text } of third) {
      assert.equal(status, 200);
      assert.equal(tokens(text), "Let me look. Found.");
      const types = sseEvents(text).map(({ event, data }) => `${event} ${data.type as string}`);
      assert.deepEqual(types.slice(-2), ["agent done", "done done"]);
      const tools = sseEvents(text).filter(({ data }) => String(data.type).startsWith("tool"));
      assert.deepEqual(
        tools.map(({ data: { type, tool_name, tool_output } }) => [type, tool_name, tool_output]),
        [
          ["tool_call", "wait", undefined],
          ["tool_result", "wait", "waited"],
        ],
      );
      assert.deepEqual(sseEvents(text).at(-1), sseEvents(third[0]!.text).at(-1));
    }
    assert.equal(await sessionCount(api), 1);
  });

  it("ends a repeat's stream with its run, when the next run of the session begins", async (t) => {
    const open = gate();
    const steps = [callTools(["wait", {}]), "first", "second", "third"];
    const api = await startApi(t, { steps, agent: { tools: [waitTool(open)] } });
    const ask = () => api.run({ message: "hi", stream: true }, withKey("k"));
    const first = ask();
    await open.reached;
    const joinedAnswer = ask();
    const [{ sessionId } = assert.fail()] = await api.agent.runs.list();
    const laterRuns = ["and", "then"].map((message) => api.run({ message, session_id: sessionId, queue: true }));
    // Waits until both runs are queued.
    await until(async () => (await api.agent.runs.list({ states: ["queued"] })).length === 2);
    open.open();
    for (const { text } of await Promise.all([first, joinedAnswer])) assert.equal(tokens(text), "first");
    await Promise.all(laterRuns);
  });

  it("keeps a run whose client disconnects, and returns its answer to a repeat", async (t) => {
    const open = gate();
    const api = await startApi(t, { steps: [callTools(["wait", {}]), "done"], agent: { tools: [waitTool(open)] } });
    const disconnect = new AbortController();
    const init = {
      method: "POST",
      body: JSON.stringify({ message: "hi" }),
      headers: withKey("k"),
      signal: disconnect.signal,
    };
    const first = fetch(`${api.url}/api/run`, init);
    await open.reached;
    disconnect.abort();
    await assert.rejects(first);
    open.open();
    const repeatedAnswer = await api.run({ message: "hi" }, withKey("k"));
    assert.equal((repeatedAnswer.json() as { output: string }).output, "done");
  });

  it("returns the same failure to a repeat", async (t) => {
    const api = await startApi(t, { steps: [new Error("broken")] });
    const [first, second] = [
      await api.run({ message: "hi" }, withKey("k")),
      await api.run({ message: "hi" }, withKey("k")),
    ];
    assert.equal(first.status, 500);
    assert.deepEqual([second.status, second.json()], [500, first.json()]);
  });

  it("restarts a run that a store failure interrupted, in the same session, on a repeat", async (t) => {
    const driver = new MemoryDriver();
    const write = driver.write.bind(driver);
    const open = gate();
    const steps = [callTools(["wait", {}]), "never", "done"];
    const api = await startApi(t, { steps, agent: { driver, tools: [waitTool(open)] } });
    const ask = () => api.run({ message: "hi" }, withKey("k"));
    const first = ask();
    await open.reached;
    driver.write = () => {
      driver.write = write;
      return Promise.reject(new StoreError("the store is away"));
    };
    open.open();
    const failedAnswer = await first;
    assert.notEqual(failedAnswer.status, 200);
    const repeatedAnswer = await ask();
    assert.deepEqual(
      [repeatedAnswer.status, repeatedAnswer.headers["x-session-id"]],
      [200, failedAnswer.headers["x-session-id"]],
      repeatedAnswer.text,
    );
    assert.notEqual(repeatedAnswer.headers["x-run-id"], failedAnswer.headers["x-run-id"]);
    const third = await ask();
    assert.deepEqual(
      [third.text, third.headers["x-run-id"]],
      [repeatedAnswer.text, repeatedAnswer.headers["x-run-id"]],
    );
  });

  it("returns 400 for an invalid key and starts no run", async (t) => {
    const api = await startApi(t);
    for (const key of ["", "a b", "x".repeat(10_000), "ä"]) {
      const answer = await api.run({ message: "hi" }, withKey(key));
      if (key.length > 9_000 && answer.status === 431) continue;
      assert.deepEqual(
        [answer.status, answer.json()],
        [400, { error: "invalid header: Idempotency-Key", code: "invalid_header" }],
        key.slice(0, 20),
      );
    }
    assert.equal(await sessionCount(api), 0);
  });
});

describe("POST /api/run", () => {
  it("with background returns 202 at once, and the run finishes without its client", async (t) => {
    const open = gate();
    const api = await startApi(t, { steps: [callTools(["wait", {}]), "done"], agent: { tools: [waitTool(open)] } });
    const { status, headers, json } = await api.run({ message: "hi", background: true });
    const { run_id: id, session_id: sessionId } = json() as { run_id: string; session_id: string };
    assert.deepEqual([status, headers["x-run-id"], headers["x-session-id"]], [202, id, sessionId]);
    assert.equal(((await api.send(`/api/runs/${id}`)).json() as { state: string }).state, "running");
    open.open();
    assert.equal((await api.agent.runs.ended(id)).state, "finished");
  });

  it("sets the session's mode, and with on_disconnect continue the run survives its client", async (t) => {
    const open = gate();
    // No client is available to answer the request that the mode requires.
    const agent = { tools: [waitTool(open)], unattended: "allow" } as const;
    const api = await startApi(t, { steps: [callTools(["wait", {}]), "done"], agent });
    const disconnect = new AbortController();
    const body = JSON.stringify({ message: "hi", mode: "ask", on_disconnect: "continue" });
    const first = fetch(`${api.url}/api/run`, { method: "POST", body, signal: disconnect.signal });
    await open.reached;
    disconnect.abort();
    await assert.rejects(first);
    open.open();
    const [run] = await api.agent.runs.list();
    assert.equal((await api.agent.runs.ended(run!.id)).state, "finished");
    assert.equal((await api.agent.sessions.get(run!.sessionId))?.mode, "ask");
  });

  it("names the invalid field: background, on_disconnect or mode", async (t) => {
    const api = await startApi(t);
    for (const [field, body] of [
      ["background", { background: "yes" }],
      ["background", { background: true, stream: true }],
      ["background", { background: null }],
      ["on_disconnect", { on_disconnect: "stop" }],
      ["mode", { mode: "yolo" }],
      ["mode", { mode: 1 }],
    ] as const) {
      const { status, json } = await api.run({ message: "hi", ...body });
      assert.deepEqual([status, json()], [400, { error: `invalid field: ${field}`, code: "invalid_field" }]);
    }
  });
});
