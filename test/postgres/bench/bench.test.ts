import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { AcpClient } from "../../bench/acp-client.js";
import { Bench, ROOT, resolveBenchFile, waitForMatch } from "../../bench/bench.js";
import { HttpClient, readChunkText, readRunText } from "../../bench/http-client.js";
import { parseOptions } from "../../bench/options.js";
import { HttpPeerServer, readHttpPeer } from "../../bench/http-peer.js";
import { endProcess, endAllProcesses, createTempFolder, startProcess } from "../../bench/processes.js";
import { formatMarkdown, createResult, formatTable } from "../../bench/report.js";
import { ROWS, meetsGoal, getRow } from "../../bench/rows.js";
import { SCENARIOS } from "../../bench/scenarios.js";
import { median, quantile, summarize } from "../../bench/statistics.js";
import { CountingProxy, MessageParser, getStatementName } from "../../bench/pg-wire.js";
import { BenchDatabase } from "../../bench/postgres-server.js";
import { NO_POSTGRES } from "../../helpers/postgres.js";

let bench: Bench;
let model: HttpClient;
before(async () => {
  bench = await Bench.create(parseOptions(["--quick"]));
  model = new HttpClient(bench.modelUrl);
});
after(async () => {
  model.close();
  await bench.close();
  endAllProcesses();
});

const createTool = (name: string, properties: object) => ({
  type: "function",
  function: { name, parameters: { type: "object", properties, required: Object.keys(properties) } },
});
const createRequestBody = (text: string, fields: object = {}) => ({
  stream: true,
  messages: [{ role: "user", content: text }],
  ...fields,
});

describe("the fake model", () => {
  const requestAnswer = async (body: object): Promise<string> => (await model.post("/chat/completions", body)).body;

  it("returns as many tokens as the prompt requests", async () => {
    for (const prompt of ["[tokens=5000]", "[tokens=20 every=1]"]) {
      const tokens = Number(/\d+/.exec(prompt)?.[0]);
      const { characters } = await model.stream("/chat/completions", createRequestBody(prompt), readChunkText);
      assert.equal(characters, tokens * 5);
    }
    const text = await requestAnswer(createRequestBody("[tokens=3]"));
    assert.match(text, /"finish_reason":"stop"/);
    assert.match(text, /"completion_tokens":3/);
    assert.ok(text.endsWith("data: [DONE]\n\n"));
  });

  it("calls the agent's shell, read or search tool, and answers after the tool result", async () => {
    const tools = [
      createTool("run_shell_command", { command: { type: "string" } }),
      createTool("read_file", { file_path: { type: "string" } }),
    ];
    const parseToolCall = (text: string): unknown => {
      const [, json = ""] = /^data: (\{.*tool_calls":.*\})$/m.exec(text) ?? [];
      return JSON.parse(json).choices[0].delta.tool_calls[0].function;
    };
    assert.deepEqual(parseToolCall(await requestAnswer(createRequestBody("[tool=shell]", { tools }))), {
      name: "run_shell_command",
      arguments: '{"command":"true"}',
    });
    assert.deepEqual(parseToolCall(await requestAnswer(createRequestBody("[tool=read path=/a/b]", { tools }))), {
      name: "read_file",
      arguments: '{"file_path":"/a/b"}',
    });
    const searchTools = [
      createTool("grep", { pattern: { type: "string" } }),
      createTool("glob", { pattern: { type: "string" } }),
    ];
    assert.deepEqual(
      parseToolCall(await requestAnswer(createRequestBody("[tool=glob pattern=**/*.md]", { tools: searchTools }))),
      { name: "glob", arguments: '{"pattern":"**/*.md"}' },
    );
    const messages = [
      { role: "user", content: "[tool=shell]" },
      { role: "tool", tool_call_id: "call-1", content: "" },
    ];
    assert.match(await requestAnswer({ stream: true, tools, messages }), /"content":"hello"/);
  });

  it("returns a title of 5 characters although the prompt requests 5,000 tokens", async () => {
    const messages = [
      { role: "system", content: "Answer with a title." },
      { role: "user", content: "[tokens=5000]" },
    ];
    const { characters } = await model.stream("/chat/completions", { stream: true, messages }, readChunkText);
    assert.equal(characters, 5);
  });

  it("returns the first request bodies", async () => {
    const requests = JSON.parse((await model.get("/first-requests")).body) as string[];
    assert.equal(requests[0], JSON.stringify(createRequestBody("[tokens=5000]")));
    assert.equal(requests.length, 4);
  });

  it("supports the Responses API and the Google API", async () => {
    const responses = await model.post("/responses", { input: [{ role: "user", content: "[tokens=2]" }] });
    assert.match(responses.body, /event: response\.completed\n/);
    assert.match(responses.body, /"delta":" \w{4}"/);
    const google = new HttpClient(bench.modelUrl.replace(/\/v1$/, "/v1beta"));
    const body = { contents: [{ role: "user", parts: [{ text: "[tokens=2]" }] }] };
    assert.match((await google.post("/models/m1:streamGenerateContent?alt=sse", body)).body, /"finishReason":"STOP"/);
    assert.equal(JSON.parse((await google.post("/models/m1:generateContent", body)).body).candidates.length, 1);
    google.close();
  });
});

describe("the reference programs of the benchmark", () => {
  it("include an agent that streams text and runs tools over ACP stdio", async () => {
    const child = startProcess([process.execPath, resolveBenchFile("floor-agent.mjs"), bench.modelUrl]);
    try {
      const client = new AcpClient(child);
      const session = await client.openSession(ROOT);
      assert.deepEqual(
        { ...(await client.runTurn(session, "[tokens=10]")), ms: 0 },
        { ms: 0, characters: 50, toolCalls: 0, stopReason: "end_turn" },
      );
      for (const prompt of ["[tool=shell]", `[tool=read path=${resolveBenchFile("rows.ts")}]`]) {
        const { toolCalls, characters } = await client.runTurn(session, prompt);
        assert.deepEqual({ toolCalls, characters }, { toolCalls: 1, characters: 5 });
      }
    } finally {
      await endProcess(child);
    }
  });

  it("include a server that streams a run over POST /api/run", async () => {
    const child = startProcess([process.execPath, resolveBenchFile("floor-server.mjs"), bench.modelUrl]);
    try {
      const client = new HttpClient(await waitForMatch(child, /listening on (\S+)/));
      const { characters } = await client.stream("/api/run", { message: "[tokens=100]" }, readRunText);
      assert.equal(characters, 500);
      assert.equal((await client.get("/api/health")).status, 200);
      client.close();
    } finally {
      await endProcess(child);
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
    assert.ok(meetsGoal(getRow("warm-turn"), 3));
    assert.ok(!meetsGoal(getRow("warm-turn"), 3.01));
    assert.ok(meetsGoal(getRow("runs-64"), 400));
    assert.ok(!meetsGoal(getRow("runs-64"), 399));
    assert.ok(!meetsGoal(getRow("warm-turn"), NaN));
    assert.throws(() => getRow("nothing"), /no row is called nothing/);
  });

  it("are reported with peers and notes, in the order of the table", () => {
    const results = [
      createResult({
        row: "sse-20000",
        comparedValue: 5,
        gantry: { samples: [50] },
        floor: { samples: [10] },
        notes: ["slow"],
      }),
      createResult({
        row: "warm-turn",
        comparedValue: 2,
        gantry: { samples: [2, 4], cpuMs: 1 },
        peers: { other: { samples: [7] } },
      }),
    ];
    const lines = formatTable(results).split("\n");
    assert.match(lines[1] ?? "", /^warm turn +<= 3x +2.00x +PASS +3.00 \(2.00-4.00\) ms +1.00 +- +- +7.00$/);
    assert.match(lines[2] ?? "", /^20,000 tokens over SSE .* FAIL /);
    assert.match(lines.join("\n"), /20,000 tokens over SSE: slow/);
    const markdown = formatMarkdown(results, ["here", "now"], ["a key: not measured"]);
    assert.match(markdown, /^here\n\nnow\n\n\| row \|.*\| other \|\n\| --- \|/);
    assert.match(markdown, /\n\n- a key: not measured\n- 20,000 tokens over SSE: slow$/);
  });
});

describe("the PostgreSQL traffic counter", () => {
  it("splits client bytes into messages, whatever the size of the chunks", () => {
    const startupMessage = Buffer.from([0, 0, 0, 8, 0, 3, 0, 0]);
    const bytes = Buffer.concat([startupMessage, Buffer.from("Q\0\0\0\x0bselect\0S\0\0\0\x04", "latin1")]);
    for (const pieceBytes of [1, 3, bytes.length]) {
      const messages = new MessageParser(true);
      const types: string[] = [];
      for (let offset = 0; offset < bytes.length; offset += pieceBytes)
        for (const { type, body } of messages.read(bytes.subarray(offset, offset + pieceBytes)))
          types.push(`${type}${body.length}`);
      assert.deepEqual(types, ["4", "Q7", "S0"]);
    }
  });

  it("names a statement by the called function, otherwise by the first two words", () => {
    assert.equal(getStatementName("SELECT * FROM gantry.write_1a2b3c4d($1, $2)"), "write");
    assert.equal(getStatementName('select "a ""b".forget_keys($1)'), "forget_keys");
    assert.equal(getStatementName("SELECT pg_notify($1, x) FROM unnest($2::text[]) x"), "hint");
    assert.equal(getStatementName(" LISTEN a"), "LISTEN a");
  });

  it("counts statements, round trips, bytes and notices", { skip: NO_POSTGRES }, async () => {
    const { default: pg } = await import("pg");
    await using database = await BenchDatabase.create();
    const proxy = await CountingProxy.start(database.address);
    const client = new pg.Client({ connectionString: database.createSessionConfig(proxy.port).url });
    try {
      await client.connect();
      assert.deepEqual(proxy.takeTraffic(), {
        statements: [],
        roundTrips: 0,
        sentBytes: 0,
        receivedBytes: 0,
        notices: 0,
      });
      const namedStatement = { name: "one", text: "SELECT length($1::text)", values: ["x".repeat(100_000)] };
      for (let n = 0; n < 2; n++) assert.deepEqual((await client.query(namedStatement)).rows, [{ length: 100_000 }]);
      const { sentBytes, receivedBytes, ...counts } = proxy.takeTraffic();
      assert.deepEqual(counts, {
        statements: ["SELECT length($1::text)", "SELECT length($1::text)"],
        roundTrips: 2,
        notices: 0,
      });
      assert.ok(sentBytes > 200_000 && sentBytes < 201_000, `${sentBytes} bytes sent`);
      assert.ok(receivedBytes > 0 && receivedBytes < 1000, `${receivedBytes} bytes received`);
      await client.query("LISTEN a; NOTIFY a");
      assert.equal(proxy.takeTraffic().notices, 1);
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
  assert.deepEqual(summarize(samples), { count: 4, median: 2.5, min: 1, max: 10, p99: 10 });
  assert.deepEqual(samples, [3, 1, 2, 10]);
});

it("parseOptions accepts equal signs in a --peer command, and rejects an unknown row or profile", () => {
  const { peers } = parseOptions(["--peer", "a=X=1 b --m={model}"]);
  assert.deepEqual(peers, [{ name: "a", command: "X=1 b --m={model}" }]);
  assert.throws(() => parseOptions(["--rows", "nothing"]), /no row is called nothing/);
  assert.throws(() => parseOptions(["--profile", "all"]), /--profile is one of/);
});

it("parseOptions accepts --write only for a full measurement of this checkout", () => {
  assert.match(parseOptions(["--write"]).markdown ?? "", /docs\/performance\.md$/);
  for (const args of [["--quick"], ["--rows", "warm-turn"], ["--product", "/"]])
    assert.throws(() => parseOptions(["--write", ...args]), /--write measures all rows/);
});

it("HttpPeerServer sends the requests of the peer file, and only the last request for a stored session", async () => {
  const file = path.join(createTempFolder(), "peer.json");
  const command = `${process.execPath} ${resolveBenchFile("floor-server.mjs")} {model} 0`;
  await writeFile(
    file,
    JSON.stringify({
      name: "other",
      command,
      readyUrl: `${bench.modelUrl}/models`,
      runRequests: [["/v1/chat/completions", createRequestBody("{prompt}")]],
    }),
  );
  const server = await HttpPeerServer.start(bench, readHttpPeer(file), ROOT);
  try {
    const { ms } = await server.run("[tokens=2]", "one that is there");
    assert.ok(ms > 0);
    await assert.rejects(server.run("[tokens=2]"), SyntaxError);
  } finally {
    await server.close();
  }
});
