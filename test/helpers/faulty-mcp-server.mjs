// An untrusted MCP server: `node faulty-mcp-server.mjs MODE [http]`. MODE selects the server's faults. With `http`, the
// server first prints its address.
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createInterface } from "node:readline";

const [mode = "kind", transport = "stdio"] = process.argv.slice(2);
const createSchema = (properties = {}) => ({ type: "object", properties });
const createTool = (name, fields = {}) => ({
  name,
  description: `Is ${name}.`,
  inputSchema: createSchema(),
  ...fields,
});

const VALID_TOOLS = [
  createTool("echo", { inputSchema: createSchema({ text: { type: "string" } }), annotations: { readOnlyHint: true } }),
  createTool("wipe", { annotations: { readOnlyHint: true, destructiveHint: true } }),
  createTool("note", { annotations: { destructiveHint: false, openWorldHint: false } }),
  createTool("post", { annotations: { destructiveHint: false } }),
  ...[
    "pid",
    "fail",
    "die",
    "hang",
    "progress",
    "ask",
    "sample",
    "nag",
    "change",
    "flood",
    "endless",
    "broken",
    "image",
    "big",
    "env",
  ].map((name) => createTool(name)),
];

const INVALID_TOOLS = [
  createTool("good"),
  createTool("good", { description: "Another of its name." }),
  createTool("x".repeat(100)),
  createTool("delete all; rm -rf"),
  createTool("delete_all_ rm -rf"),
  createTool("long", { description: "d".repeat(1024 * 1024) }),
  createTool("hidden", { description: "Is\u001b[8m hidden.\u202e\nSo." }),
  createTool("none", { inputSchema: undefined }),
  createTool("text", { inputSchema: "text" }),
  createTool("string", { inputSchema: { type: "string" } }),
  createTool("banana", { inputSchema: createSchema({ a: { type: "banana" } }) }),
  createTool("properties", { inputSchema: { type: "object", properties: [1] } }),
  createTool("odd-argument", { inputSchema: createSchema({ "an argument!": { type: "string" } }) }),
  createTool("away", { inputSchema: createSchema({ a: { $ref: "https://example.invalid/schema" } }) }),
  createTool("deep", {
    inputSchema: JSON.parse(`${'{"type":"object","properties":{"a":'.repeat(40)}{}${"}}".repeat(40)}`),
  }),
  createTool("huge", {
    inputSchema: createSchema(
      Object.fromEntries(Array.from({ length: 3000 }, (_, i) => [`a${i}`, { type: "string" }])),
    ),
  }),
  createTool("arms", {
    inputSchema: {
      anyOf: [createSchema({ a: { type: "string" } }), { ...createSchema({ b: { type: "array" } }), required: ["b"] }],
    },
  }),
  createTool("looks-around", {
    inputSchema: createSchema({
      a: { type: "string", pattern: "^(?!x)" },
      b: { type: "array", items: [{ type: "string" }] },
    }),
  }),
  { description: "has no name" },
  "no tool",
  null,
  ...(mode === "crowd" ? Array.from({ length: 10_000 }, (_, i) => createTool(`t${i}`)) : []),
];

const OFFICE_NOUNS = "invoice parcel contract ticket meeting room vehicle budget supplier customer".split(" ");
const OFFICE_VERBS = "create list update delete approve assign export search cancel archive".split(" ");

/** 500 tools with schemas of usual size. Tool 400 is `create_invoice_depot_4`. */
const OFFICE_TOOLS = Array.from({ length: 500 }, (_, i) => {
  const [verb, noun] = [OFFICE_VERBS[i % 10], OFFICE_NOUNS[Math.floor(i / 10) % 10]];
  const depot = Math.floor(i / 100);
  return createTool(`${verb}_${noun}_depot_${depot}`, {
    description: `${verb} one ${noun} of depot ${depot} in the office system. The change is visible to all users of the depot.`,
    inputSchema: {
      ...createSchema({
        reference: { type: "string", description: `Reference of the ${noun}, as printed on its label.` },
        quantity: { type: "integer", description: "Number of pieces. Default 1." },
        note: { type: "string", description: "Text for the log of the depot." },
      }),
      required: ["reference"],
    },
  });
});

/** Placeholder for a value that is nested too deeply for JSON.stringify. */
const DEEP_VALUE = "BOTTOMLESS";
const serialize = (message) =>
  JSON.stringify({ jsonrpc: "2.0", ...message }).replaceAll(
    `"${DEEP_VALUE}"`,
    `${'{"type":"object","properties":{"a":'.repeat(50_000)}{}${"}}".repeat(50_000)}`,
  );

/** The frames of a message: in the mode `mutated`, a mutation of the message precedes it. */
const createFrames = (message) => [...(mutateFrame ? [mutateFrame(serialize(message))] : []), serialize(message)];
const mutateFrame = mode === "mutated" ? await loadMutations() : undefined;

/** Needs tsx. Each mutation adds a byte to the file `FRAMES_FILE`, whose size is part of the seed. */
async function loadMutations() {
  const [{ mutateMessage }, { createRandom }] = [await import("./mutations.ts"), await import("./random.ts")];
  const random = createRandom(Number(process.env.SEED) + statSync(process.env.FRAMES_FILE).size);
  return (frame) => {
    writeFileSync(process.env.FRAMES_FILE, ".", { flag: "a" });
    return mutateMessage(random, frame);
  };
}

let hasNewTool = false;
const pendingRequests = new Map();

/** The response to a request; undefined for no response. `sendMessage` sends messages before the response. */
async function createResponse({ method, params = {}, id }, sendMessage) {
  switch (method) {
    case "initialize":
      if (mode === "silent") return undefined;
      if (mode === "old")
        return { result: { protocolVersion: "1999-01-01", capabilities: {}, serverInfo: { name: "h", version: "1" } } };
      return {
        result: {
          protocolVersion: params.protocolVersion,
          capabilities: { tools: { listChanged: true }, prompts: {}, resources: {} },
          serverInfo: { name: "hostile", version: "1" },
          ...(mode === "office" && { instructions: process.env.INSTRUCTIONS }),
        },
      };
    case "ping":
      return mode === "deaf" ? undefined : { result: {} };
    case "tools/list":
      if (mode === "pages")
        return {
          result: {
            tools: Array.from({ length: 30_000 }, (_, i) => createTool(`t${i}`)),
            nextCursor: `x${params.cursor ?? ""}`,
          },
        };
      if (mode === "office") return { result: { tools: OFFICE_TOOLS } };
      if (mode === "untold") return { error: { code: -32000, message: "not today" } };
      if (mode === "listless") return { result: { tools: "many" } };
      if (mode === "endless-list")
        return {
          result: { tools: [createTool(`t${params.cursor ?? 0}`)], nextCursor: String(Number(params.cursor ?? 0) + 1) },
        };
      if (mode === "bottomless")
        return { result: { tools: [...VALID_TOOLS, createTool("bottomless", { inputSchema: DEEP_VALUE })] } };
      return {
        result: {
          tools:
            mode === "lies" || mode === "crowd"
              ? INVALID_TOOLS
              : hasNewTool
                ? [...VALID_TOOLS, createTool("new")]
                : VALID_TOOLS,
        },
      };
    case "prompts/list":
      return {
        result: {
          prompts: [
            {
              name: "review",
              description: "Reviews.\nTwo lines.",
              arguments: [{ name: "file", required: true }, { name: "how" }],
            },
            { name: "odd name!" },
            { name: 5 },
          ],
        },
      };
    case "prompts/get":
      return {
        result: { messages: [{ role: "user", content: { type: "text", text: JSON.stringify(params.arguments) } }] },
      };
    case "resources/list":
      return {
        result: {
          resources: [
            { uri: "h://a", name: "a" },
            { uri: "h://b\nc", name: 5 },
          ],
        },
      };
    case "resources/read":
      return { result: { contents: [{ uri: params.uri, text: "its text" }] } };
    case "tools/call":
      return callTool(params, id, sendMessage);
    default:
      return { error: { code: -32601, message: `no ${method}` } };
  }
}

const createTextResult = (text, resultFields = {}) => ({
  result: { content: [{ type: "text", text: text }], ...resultFields },
});

async function callTool({ name, arguments: args = {}, _meta = {} }, id, sendMessage) {
  switch (name) {
    case "echo":
      return createTextResult(String(args.text));
    case "pid":
      return createTextResult(String(process.pid));
    case "env":
      return createTextResult(JSON.stringify(process.env));
    case "fail":
      return createTextResult("it could not", { isError: true });
    case "die":
      return (setTimeout(() => process.exit(7), 10), undefined);
    case "hang":
      return undefined;
    case "progress":
      for (let i = 1; i <= 3; i++)
        sendMessage({
          method: "notifications/progress",
          params: { progressToken: _meta.progressToken, progress: i, total: 3, message: `step ${i}` },
        });
      return createTextResult("done");
    case "sample": {
      const content = { type: "text", text: args.text ?? "What is 6 x 7?" };
      const request = { messages: [{ role: "user", content }], systemPrompt: "Answer briefly.", maxTokens: 10 };
      return createTextResult(JSON.stringify(await sendRequest("sampling/createMessage", request, sendMessage)));
    }
    case "nag": {
      const form = { message: "Well?", requestedSchema: { type: "object", properties: { a: { type: "string" } } } };
      if (args.at_once) for (let i = 0; i < 40; i++) void sendRequest("elicitation/create", form, sendMessage);
      if (args.at_once) return createTextResult("never mind");
      for (;;) await sendRequest("elicitation/create", form, sendMessage);
    }
    case "ask": {
      const answer = await sendRequest(
        "elicitation/create",
        {
          message: "Who?",
          requestedSchema: {
            type: "object",
            properties: {
              name: { type: "string", title: "Name" },
              age: { type: "integer" },
              colour: { type: "string", enum: ["red", "blue"] },
              sure: { type: "boolean" },
            },
            required: ["name", "age", "colour", "sure"],
          },
        },
        sendMessage,
      );
      return createTextResult(JSON.stringify(answer));
    }
    case "change":
      hasNewTool = true;
      for (let i = 0; i < (args.times ?? 1); i++) sendMessage({ method: "notifications/tools/list_changed" });
      return createTextResult("changed");
    case "flood":
      for (let i = 0; i < 50_000; i++)
        sendMessage({
          method: "notifications/message",
          params: { level: "info", data: `line ${i} ${"x".repeat(100)}` },
        });
      for (let i = 0; i < 5_000; i++)
        sendMessage({ method: "notifications/progress", params: { progressToken: "nobody's", progress: i } });
      return createTextResult("flooded");
    case "endless":
      return createTextResult("x".repeat(9 * 1024 * 1024));
    case "big":
      if (mode === "bottomless") return { result: { content: [], structuredContent: DEEP_VALUE } };
      return createTextResult("x".repeat(1024 * 1024));
    case "broken":
      return args.both ? { result: {}, error: { code: 1, message: "both" } } : { result: "no object" };
    case "image":
      return {
        result: {
          content: [
            { type: "image", mimeType: "image/png", data: "iVBORw0KGgo=" },
            { type: "image", mimeType: "image/tiff", data: "AAAA" },
            { type: "audio", mimeType: "audio/wav", data: "AAAA" },
            { type: "resource", resource: { uri: "h://r", text: "embedded" } },
            { type: "resource", resource: { uri: "h://b", mimeType: "a/b", blob: "AAAA" } },
            { type: "resource_link", uri: "h://l", name: "link" },
            { type: "hologram" },
            5,
          ],
        },
      };
    default:
      if (mode === "office") return createTextResult(`${name}: ${JSON.stringify(args)}`);
      return { error: { code: -32602, message: `no tool ${name}` } };
  }
}

function sendRequest(method, params, sendMessage) {
  const id = randomUUID();
  sendMessage({ id, method, params });
  return new Promise((resolve) => pendingRequests.set(id, resolve));
}

async function handleMessage(message, sendMessage) {
  if (message.method === undefined) return pendingRequests.get(message.id)?.(message.result ?? message.error);
  if (message.id === undefined) {
    if (message.method === "notifications/cancelled" && process.env.CANCELLED)
      writeFileSync(process.env.CANCELLED, JSON.stringify(message.params));
    return undefined;
  }
  const reply = await createResponse(message, sendMessage);
  if (reply !== undefined) sendMessage({ id: message.id, ...reply });
}

if (mode === "dies") {
  process.stderr.write(`cannot start with ${process.env.SECRET_KEY}\n`);
  process.exit(3);
}
// Simulates a server that is downloaded before it starts.
if (mode === "late") {
  writeFileSync(process.env.BEGUN, `${process.pid} `, { flag: "a" });
  while (!existsSync(process.env.GO)) await new Promise((resolve) => setTimeout(resolve, 10));
}
if (mode === "stubborn") {
  process.on("SIGTERM", () => undefined);
  const child = spawn("/bin/sh", ["-c", 'trap "" TERM; while :; do sleep 0.2; done'], {
    stdio: "ignore",
    detached: true,
  });
  writeFileSync(process.env.PIDS, `${process.pid} ${child.pid}`);
  setInterval(() => undefined, 1000);
}

if (transport === "stdio") {
  if (mode === "garbage") process.stdout.write("Welcome!\n{\n\n[1,2]\n5\n");
  if (mode === "one-line") {
    const writeEndlessly = () => {
      while (process.stdout.write("x".repeat(65_536)));
      process.stdout.once("drain", writeEndlessly);
    };
    writeEndlessly();
  }
  process.stderr.write(`${"e".repeat(20_000)}\nlast words\n`);
  const writeMessage = (message) => {
    for (const frame of createFrames(message))
      process.stdout.write(Buffer.concat([Buffer.from(frame), Buffer.from("\n")]));
  };
  const lines = createInterface({ input: process.stdin });
  lines.on("line", (line) => void handleMessage(JSON.parse(line), writeMessage));
} else {
  let sessionId = randomUUID();
  const streams = new Set();
  const createEventWriter = (response) => (message) => {
    for (const frame of createFrames(message)) {
      response.write("event: message\ndata: ");
      response.write(frame);
      response.write("\n\n");
    }
  };
  const server = createServer(async (request, response) => {
    if (process.env.SEEN)
      writeFileSync(process.env.SEEN, `${request.method} ${request.url} ${JSON.stringify(request.headers)}\n`, {
        flag: "a",
      });
    const [path] = request.url.split("?");
    if (mode === "elsewhere") return response.writeHead(307, { location: process.env.ELSEWHERE }).end();
    if (mode === "forbidden") return response.writeHead(401).end("who are you?");
    if (mode === "fat") {
      response.writeHead(200, { "content-type": "application/json" });
      const writeEndlessly = () =>
        response.destroyed || response.write(" ".repeat(1024 * 1024), () => setImmediate(writeEndlessly));
      return writeEndlessly();
    }
    if (request.method === "GET" && mode === "again") {
      response.writeHead(200, { "content-type": "text/event-stream" });
      return response.end("retry: 99999999999999\nid: a\ndata:\n\nretry: 0\n\n");
    }
    if (request.method === "GET") {
      if (mode === "sse" ? path !== "/mcp" : request.headers["mcp-session-id"] !== sessionId)
        return response.writeHead(405).end();
      response.writeHead(200, { "content-type": "text/event-stream" });
      if (mode === "sse") response.write("event: endpoint\ndata: /messages\n\n");
      else response.write(": hello\n\n");
      streams.add(response);
      return request.once("close", () => streams.delete(response));
    }
    if (request.method === "DELETE") return response.writeHead(200).end();
    let body = "";
    for await (const piece of request) body += piece;
    if (mode === "sse") {
      if (path !== "/messages") return response.writeHead(405).end();
      response.writeHead(202).end();
      for (const stream of streams) await handleMessage(JSON.parse(body), createEventWriter(stream));
      return undefined;
    }
    const message = JSON.parse(body);
    const isFirst = message.method === "initialize";
    if (!isFirst && request.headers["mcp-session-id"] !== sessionId)
      return response.writeHead(404).end("no such session");
    if (message.params?.name === "forget") {
      sessionId = randomUUID();
      return response.writeHead(404).end("no such session");
    }
    if (message.id === undefined || message.method === undefined) {
      await handleMessage(message, () => undefined);
      return response.writeHead(202).end();
    }
    if (message.params?.name === "fail" && mode === "picky") return response.writeHead(400).end("say\u001b[31m why");
    if (message.params?.name === "big" && mode === "picky") {
      response.writeHead(200, { "content-type": "application/json" });
      const deep = `{"a":${"[".repeat(100_000)}${"]".repeat(100_000)}}`;
      return response.end(`{"jsonrpc":"2.0","id":${message.id},"result":{"content":[],"structuredContent":${deep}}}`);
    }
    if (mutateFrame && message.method !== "tools/call" && Math.random() < 0.2) {
      response.writeHead(200, { "content-type": "application/json", "mcp-session-id": sessionId });
      return response.end(createFrames({ id: message.id, ...(await createResponse(message)) })[0]);
    }
    response.writeHead(200, { "content-type": "text/event-stream", "mcp-session-id": sessionId });
    response.flushHeaders();
    if (message.params?.name === "break-off") return setTimeout(() => response.destroy(), 20);
    let isEnded = false;
    await handleMessage(message, (reply) => {
      if (isEnded) return;
      createEventWriter(response)(reply);
      if (reply.id === message.id && reply.method === undefined) {
        isEnded = true;
        response.end();
      }
    });
    return undefined;
  });
  server.listen(Number(process.env.PORT ?? 0), "127.0.0.1", () =>
    process.stdout.write(`http://127.0.0.1:${server.address().port}/mcp\n`),
  );
  if (mode === "forgets") process.on("SIGUSR2", () => (sessionId = randomUUID()));
}
