import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseSseEvents } from "../../helpers/raw-http.js";
import { startApi } from "../../helpers/http-api.js";

const SCHEMA = { type: "object", properties: { age: { type: "integer" } }, required: ["age"] };

describe("POST /api/run with output_schema", () => {
  it("returns the structured value in a plain response, in a stream and for a repeat with the same key", async (t) => {
    const api = await startApi(t, { steps: ["I think 36.", '{"age":36}', '{"age":37}'] });
    const key = { "Idempotency-Key": "k" };
    const firstResponse = await api.postRun({ message: "x", output_schema: SCHEMA }, key);
    const { output, structured, iterations } = firstResponse.json() as Record<string, unknown>;
    assert.deepEqual([firstResponse.status, output, structured, iterations], [200, '{"age":36}', { age: 36 }, 2]);
    const repeatResponse = await api.postRun({ message: "x", output_schema: SCHEMA }, key);
    assert.deepEqual((repeatResponse.json() as Record<string, unknown>)["structured"], { age: 36 });
    const streamedResponse = await api.postRun({ message: "x", output_schema: SCHEMA, stream: true });
    const doneEvent = parseSseEvents(streamedResponse.text).at(-1);
    assert.deepEqual(
      [doneEvent?.event, (doneEvent?.data as Record<string, unknown>)["structured"]],
      ["done", { age: 37 }],
    );
  });

  it("stores the structured value in the record of a background run", async (t) => {
    const api = await startApi(t, { steps: ['{"age":36}', "no form"] });
    const readRunRecord = async (body: object) => {
      const { run_id: id } = (await api.postRun({ message: "x", background: true, ...body })).json() as {
        run_id: string;
      };
      await api.agent.runs.ended(id);
      return (await api.send(`/api/runs/${id}`)).json() as Record<string, unknown>;
    };
    const run = await readRunRecord({ output_schema: SCHEMA });
    assert.deepEqual([run["state"], run["structured"]], ["finished", { age: 36 }]);
    assert.equal("structured" in (await readRunRecord({})), false);
  });

  it("returns 500 with the reason if no answer fits the schema", async (t) => {
    const api = await startApi(t);
    const response = await api.postRun({ message: "x", output_schema: { not: {} } });
    const { error, code } = response.json() as Record<string, string>;
    assert.deepEqual([response.status, code], [500, "output_schema"]);
    assert.match(error ?? "", /^the answer does not fit the output schema: /);
  });

  it("returns 400 with the reason for an invalid schema, and starts no run", async (t) => {
    const api = await startApi(t);
    for (const [schema, errorPattern] of [
      [{ type: "objekt" }, /^invalid field: output_schema: expected a valid schema/],
      [{ $ref: "http://127.0.0.1:9/x.json" }, /^invalid field: output_schema: .*resolve reference/],
      [{ $ref: "#/$defs/a", $defs: { a: { $ref: "#/$defs/a" } } }, /^invalid field: output_schema/],
      ["x", /^invalid field: output_schema/],
    ] as const) {
      const response = await api.postRun({ message: "x", output_schema: schema });
      const { error, code } = response.json() as Record<string, string>;
      assert.deepEqual([response.status, code], [400, "invalid_field"]);
      assert.match(error ?? "", errorPattern);
    }
    assert.deepEqual((await api.agent.runs.list()).length, 0);
  });
});

describe("POST /api/run with budget", () => {
  it("limits the run and reports ended_by budget", async (t) => {
    const api = await startApi(t);
    const response = await api.postRun({ message: "x", budget: { tokens: 20 } });
    const { finish_reason: finishReason, ended_by: endedBy, output } = response.json() as Record<string, unknown>;
    assert.deepEqual([response.status, finishReason, endedBy, output], [200, "length", "budget", ""]);
    const streamedResponse = await api.postRun({ message: "x", budget: { tokens: 20 }, stream: true });
    const doneData = parseSseEvents(streamedResponse.text).at(-1)?.data as Record<string, unknown>;
    assert.deepEqual([doneData["finish_reason"], doneData["ended_by"]], ["length", "budget"]);
    const key = { "Idempotency-Key": "k" };
    const sendRequest = () => api.postRun({ message: "x", budget: { tokens: 20 } }, key);
    assert.equal((await sendRequest()).text, (await sendRequest()).text);
    const rejection = await api.postRun({ message: "x", budget: { usd: 1 } });
    assert.deepEqual(rejection.status, 400);
    assert.match((rejection.json() as { error: string }).error, /limits\.unknown_price/);
  });

  it("returns 400 and names the invalid field of the budget", async (t) => {
    const api = await startApi(t);
    for (const [budget, field] of [
      [{ usd: 0 }, "budget.usd"],
      [{ usd: -1 }, "budget.usd"],
      [{ usd: "1" }, "budget.usd"],
      [{ usd: 1e308 }, "budget.usd"],
      [{ tokens: 1.5 }, "budget.tokens"],
      [{ seconds: 0 }, "budget.seconds"],
      [{ usb: 1 }, "budget.usb"],
      [5, "budget"],
    ] as const) {
      const response = await api.postRun({ message: "x", budget });
      const expectedBody = { error: `invalid field: ${field}`, code: "invalid_field" };
      assert.deepEqual([response.status, response.json()], [400, expectedBody]);
    }
  });
});
