import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { AcpClient } from "../../bench/acp-client.js";
import { Bench, ROOT, beside, lineOf } from "../../bench/bench.js";
import { HttpClient, textOfChunk, textOfRun } from "../../bench/http-client.js";
import { optionsOf } from "../../bench/options.js";
import { HttpPeerServer, httpPeerOf } from "../../bench/http-peer.js";
import { end, endAll, folder, start } from "../../bench/processes.js";
import { markdown, resultOf, table } from "../../bench/report.js";
import { ROWS, passes, rowOf } from "../../bench/rows.js";
import { SCENARIOS } from "../../bench/scenarios.js";
import { median, quantile, summary } from "../../bench/statistics.js";
import { CountingProxy, Messages, nameOf } from "../../bench/pg-wire.js";
import { BenchDatabase } from "../../bench/postgres-server.js";
import { NO_POSTGRES } from "../../helpers/postgres.js";

let bench: Bench;
let model: HttpClient;
before(async () => {
  bench = await Bench.create(optionsOf(["--quick"]));
  model = new HttpClient(bench.model);
});
after(async () => {
  model.close();
  await bench.close();
  endAll();
});

const tool = (name: string, properties: object) => ({
  type: "function",
  function: { name, parameters: { type: "object", properties, required: Object.keys(properties) } },
});
const expectedBody = (text: string, fields: object = {}) => ({
  stream: true,
  messages: [{ role: "user", content: text }],
  ...fields,
});

describe("the fake model", () => {
  const answer = async (body: object): Promise<string> => (await model.post("/chat/completions", body)).body;

  it("returns as many tokens as the prompt requests", async () => {
    for (const prompt of ["[tokens=5000]", "[tokens=20 every=1]"]) {
      const tokens = Number(/\d+/.exec(prompt)?.[0]);
      const { characters } = await model.stream("/chat/completions", expectedBody(prompt), textOfChunk);
      assert.equal(characters, tokens * 5);
    }
    const text = await answer(expectedBody("[tokens=3]"));
    assert.match(text, /"finish_reason":"stop"/);
    assert.match(text, /"completion_tokens":3/);
    assert.ok(text.endsWith("data: [DONE]\n\n"));
  });

  it("calls the agent's shell or read tool, and answers after the tool result", async () => {
    const tools = [
      tool("run_shell_command", { command: { type: "string" } }),
      tool("read_file", { file_path: { type: "string" } }),
    ];
    const call = (text: string): unknown => {
      const [, json = ""] = /^data: (\{.*tool_calls":.*\})$/m.exec(text) ?? [];
      return JSON.parse(json).choices[0].delta.tool_calls[0].function;
    };
    assert.deepEqual(call(await answer(expectedBody("[tool=shell]", { tools }))), {
      name: "run_shell_command",
      arguments: '{"command":"true"}',
    });
    assert.deepEqual(call(await answer(expectedBody("[tool=read path=/a/b]", { tools }))), {
      name: "read_file",
      arguments: '{"file_path":"/a/b"}',
    });
    const messages = [
      { role: "user", content: "[tool=shell]" },
      { role: "tool", tool_call_id: "call-1", content: "" },
    ];
    assert.match(await answer({ stream: true, tools, messages }), /"content":"hello"/);
  });

  it("returns a title of 5 characters although the prompt requests 5,000 tokens", async () => {
    const messages = [
      { role: "system", content: "Answer with a title." },
      { role: "user", content: "[tokens=5000]" },
    ];
    const { characters } = await model.stream("/chat/completions", { stream: true, messages }, textOfChunk);
    assert.equal(characters, 5);
  });

  it("supports the Responses API and the Google API", async () => {
    const responses = await model.post("/responses", { input: [{ role: "user", content: "[tokens=2]" }] });
    assert.match(responses.body, /event: response\.completed\n/);
    assert.match(responses.body, /"delta":" \w{4}"/);
    const google = new HttpClient(bench.model.replace(/\/v1$/, "/v1beta"));
    const body = { contents: [{ role: "user", parts: [{ text: "[tokens=2]" }] }] };
    assert.match((await google.post("/models/m1:streamGenerateContent?alt=sse", body)).body, /"finishReason":"STOP"/);
    assert.equal(JSON.parse((await google.post("/models/m1:generateContent", body)).body).candidates.length, 1);
    google.close();
  });
});

describe("the reference programs of the benchmark", () => {
  it("include an agent that streams text and runs tools over ACP stdio", async () => {
    const child = start([process.execPath, beside("floor-agent.mjs"), bench.model]);
    try {
      const client = new AcpClient(child);
      const session = await client.open(ROOT);
      assert.deepEqual(
        { ...(await client.turn(session, "[tokens=10]")), ms: 0 },
        { ms: 0, characters: 50, toolCalls: 0, stopReason: "end_turn" },
      );
      for (const prompt of ["[tool=shell]", `[tool=read path=${beside("rows.ts")}]`]) {
        const { toolCalls, characters } = await client.turn(session, prompt);
        assert.deepEqual({ toolCalls, characters }, { toolCalls: 1, characters: 5 });
      }
    } finally {
      await end(child);
    }
  });

  it("include a server that streams a run over POST /api/run", async () => {
    const child = start([process.execPath, beside("floor-server.mjs"), bench.model]);
    try {
      const client = new HttpClient(await lineOf(child, /listening on (\S+)/));
      const { characters } = await client.stream("/api/run", { message: "[tokens=100]" }, textOfRun);
      assert.equal(characters, 500);
      assert.equal((await client.get("/api/health")).status, 200);
      client.close();
    } finally {
      await end(child);
    }
  });
});

describe("the benchmark rows", () => {
  it("each belong to one scenario and have one goal", () => {
    const ids = ROWS.map(({ id }) => id);
    assert.deepEqual(SCENARIOS.flatMap(({ rows }) => rows).sort(), [...ids].sort());
    assert.equal(new Set(ids).size, ids.length);
    for (const { goal } of ROWS)
      assert.equal([goal.atMost, goal.atLeast].filter((bound) => bound !== undefined).length, 1);
  });

  it("pass at their goal and fail beyond it", () => {
    assert.ok(passes(rowOf("warm-turn"), 3));
    assert.ok(!passes(rowOf("warm-turn"), 3.01));
    assert.ok(passes(rowOf("runs-64"), 400));
    assert.ok(!passes(rowOf("runs-64"), 399));
    assert.ok(!passes(rowOf("warm-turn"), NaN));
    assert.throws(() => rowOf("nothing"), /no row is called nothing/);
  });

  it("are reported with peers and notes, in the order of the table", () => {
    const results = [
      resultOf({ row: "sse-20000", judged: 5, gantry: { samples: [50] }, floor: { samples: [10] }, notes: ["slow"] }),
      resultOf({
        row: "warm-turn",
        judged: 2,
        gantry: { samples: [2, 4], cpuMs: 1 },
        peers: { other: { samples: [7] } },
      }),
    ];
    const lines = table(results).split("\n");
    assert.match(lines[1] ?? "", /^warm turn +<= 3x +2.00x +PASS +3.00 \(2.00-4.00\) ms +1.00 +- +- +7.00$/);
    assert.match(lines[2] ?? "", /^20,000 tokens over SSE .* FAIL /);
    assert.match(lines.join("\n"), /20,000 tokens over SSE: slow/);
    assert.match(markdown(results, ["here"]), /^here\n\n\| row \|.*\| other \|\n\| --- \|/);
  });
});

describe("the PostgreSQL traffic counter", () => {
  it("splits client bytes into messages, whatever the size of the pieces", () => {
    const start = Buffer.from([0, 0, 0, 8, 0, 3, 0, 0]);
    const bytes = Buffer.concat([start, Buffer.from("Q\0\0\0\x0bselect\0S\0\0\0\x04", "latin1")]);
    for (const size of [1, 3, bytes.length]) {
      const messages = new Messages(true);
      const types: string[] = [];
      for (let at = 0; at < bytes.length; at += size)
        for (const { type, body } of messages.read(bytes.subarray(at, at + size))) types.push(`${type}${body.length}`);
      assert.deepEqual(types, ["4", "Q7", "S0"]);
    }
  });

  it("names a statement by the function that it calls, otherwise by its first words", () => {
    assert.equal(nameOf("SELECT * FROM gantry.write_1a2b3c4d($1, $2)"), "write");
    assert.equal(nameOf('select "a ""b".forget_keys($1)'), "forget_keys");
    assert.equal(nameOf("SELECT pg_notify($1, x) FROM unnest($2::text[]) x"), "hint");
    assert.equal(nameOf(" LISTEN a"), "LISTEN a");
  });

  it("counts statements, round trips, bytes and notices", { skip: NO_POSTGRES }, async () => {
    const { default: pg } = await import("pg");
    await using database = await BenchDatabase.create();
    const proxy = await CountingProxy.start(database.address);
    const client = new pg.Client({ connectionString: database.session(proxy.port).url });
    try {
      await client.connect();
      assert.deepEqual(proxy.take(), { statements: [], roundTrips: 0, sent: 0, received: 0, notices: 0 });
      const named = { name: "one", text: "SELECT length($1::text)", values: ["x".repeat(100_000)] };
      for (let n = 0; n < 2; n++) assert.deepEqual((await client.query(named)).rows, [{ length: 100_000 }]);
      const { sent, received, ...counts } = proxy.take();
      assert.deepEqual(counts, {
        statements: ["SELECT length($1::text)", "SELECT length($1::text)"],
        roundTrips: 2,
        notices: 0,
      });
      assert.ok(sent > 200_000 && sent < 201_000 && received > 0 && received < 1000, `${sent} ${received}`);
      await client.query("LISTEN a; NOTIFY a");
      assert.equal(proxy.take().notices, 1);
    } finally {
      await client.end();
      await proxy.close();
    }
  });
});

it("median, quantile and summary compute their values without changing the samples", () => {
  const samples = [3, 1, 2, 10];
  assert.equal(median(samples), 2.5);
  assert.equal(median([5, 1, 3]), 3);
  assert.equal(quantile(samples, 0.5), 2);
  assert.equal(
    quantile(
      Array.from({ length: 200 }, (_, index) => index + 1),
      0.99,
    ),
    198,
  );
  assert.deepEqual(summary(samples), { count: 4, median: 2.5, min: 1, max: 10, p99: 10 });
  assert.deepEqual(samples, [3, 1, 2, 10]);
});

it("optionsOf accepts equal signs in a --peer command, and rejects an unknown row or profile", () => {
  const { peers } = optionsOf(["--peer", "a=X=1 b --m={model}"]);
  assert.deepEqual(peers, [{ name: "a", command: "X=1 b --m={model}" }]);
  assert.throws(() => optionsOf(["--rows", "nothing"]), /no row is called nothing/);
  assert.throws(() => optionsOf(["--profile", "all"]), /--profile is one of/);
});

it("HttpPeerServer sends the requests of its peer file", async () => {
  const file = path.join(folder(), "peer.json");
  const command = `${process.execPath} ${beside("floor-server.mjs")} {model} 0`;
  await writeFile(
    file,
    JSON.stringify({
      name: "other",
      command,
      ready: `${bench.model}/models`,
      run: [["/v1/chat/completions", expectedBody("{prompt}")]],
    }),
  );
  const server = await HttpPeerServer.start(bench, httpPeerOf(file), ROOT);
  try {
    const { ms } = await server.run("[tokens=2]", "one that is there");
    assert.ok(ms > 0);
    await assert.rejects(server.run("[tokens=2]"), SyntaxError);
  } finally {
    await server.close();
  }
});
