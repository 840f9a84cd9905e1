// A hostile MCP server: `node hostile-mcp.mjs HOW [http]`. Over HTTP it first prints its address.
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createInterface } from "node:readline";

const [how = "kind", transport = "stdio"] = process.argv.slice(2);
const object = (properties = {}) => ({ type: "object", properties });
const tool = (name, more = {}) => ({ name, description: `Is ${name}.`, inputSchema: object(), ...more });

const KIND = [
  tool("echo", { inputSchema: object({ text: { type: "string" } }), annotations: { readOnlyHint: true } }),
  ...[
    "pid",
    "fail",
    "die",
    "hang",
    "progress",
    "ask",
    "nag",
    "change",
    "flood",
    "endless",
    "broken",
    "image",
    "big",
    "env",
  ].map((name) => tool(name)),
];

const LIES = [
  tool("good"),
  tool("good", { description: "Another of its name." }),
  tool("x".repeat(100)),
  tool("delete all; rm -rf"),
  tool("delete_all_ rm -rf"),
  tool("long", { description: "d".repeat(1024 * 1024) }),
  tool("hidden", { description: "Is\u001b[8m hidden.\u202e\nSo." }),
  tool("none", { inputSchema: undefined }),
  tool("text", { inputSchema: "text" }),
  tool("string", { inputSchema: { type: "string" } }),
  tool("banana", { inputSchema: object({ a: { type: "banana" } }) }),
  tool("properties", { inputSchema: { type: "object", properties: [1] } }),
  tool("odd-argument", { inputSchema: object({ "an argument!": { type: "string" } }) }),
  tool("away", { inputSchema: object({ a: { $ref: "https://example.invalid/schema" } }) }),
  tool("deep", { inputSchema: JSON.parse(`${'{"type":"object","properties":{"a":'.repeat(40)}{}${"}}".repeat(40)}`) }),
  tool("huge", {
    inputSchema: object(Object.fromEntries(Array.from({ length: 3000 }, (_, i) => [`a${i}`, { type: "string" }]))),
  }),
  tool("arms", {
    inputSchema: {
      anyOf: [object({ a: { type: "string" } }), { ...object({ b: { type: "array" } }), required: ["b"] }],
    },
  }),
  tool("looks-around", {
    inputSchema: object({
      a: { type: "string", pattern: "^(?!x)" },
      b: { type: "array", items: [{ type: "string" }] },
    }),
  }),
  { description: "has no name" },
  "no tool",
  null,
  ...(how === "crowd" ? Array.from({ length: 10_000 }, (_, i) => tool(`t${i}`)) : []),
];

/** Placeholder for a value that is nested too deeply for JSON.stringify. */
const BOTTOMLESS = "BOTTOMLESS";
const written = (message) =>
  JSON.stringify({ jsonrpc: "2.0", ...message }).replaceAll(
    `"${BOTTOMLESS}"`,
    `${'{"type":"object","properties":{"a":'.repeat(50_000)}{}${"}}".repeat(50_000)}`,
  );

let changed = false;
const pendingRequests = new Map();

/** The response to a request; `say` sends messages before it. Undefined: no response. */
async function answer({ method, params = {}, id }, say) {
  switch (method) {
    case "initialize":
      if (how === "silent") return undefined;
      if (how === "old")
        return { result: { protocolVersion: "1999-01-01", capabilities: {}, serverInfo: { name: "h", version: "1" } } };
      return {
        result: {
          protocolVersion: params.protocolVersion,
          capabilities: { tools: { listChanged: true }, prompts: {}, resources: {} },
          serverInfo: { name: "hostile", version: "1" },
        },
      };
    case "ping":
      return how === "deaf" ? undefined : { result: {} };
    case "tools/list":
      if (how === "pages")
        return {
          result: {
            tools: Array.from({ length: 30_000 }, (_, i) => tool(`t${i}`)),
            nextCursor: `x${params.cursor ?? ""}`,
          },
        };
      if (how === "untold") return { error: { code: -32000, message: "not today" } };
      if (how === "listless") return { result: { tools: "many" } };
      if (how === "endless-list")
        return {
          result: { tools: [tool(`t${params.cursor ?? 0}`)], nextCursor: String(Number(params.cursor ?? 0) + 1) },
        };
      if (how === "bottomless")
        return { result: { tools: [...KIND, tool("bottomless", { inputSchema: BOTTOMLESS })] } };
      return { result: { tools: how === "lies" || how === "crowd" ? LIES : changed ? [...KIND, tool("new")] : KIND } };
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
      return called(params, id, say);
    default:
      return { error: { code: -32601, message: `no ${method}` } };
  }
}

const text = (content, more = {}) => ({ result: { content: [{ type: "text", text: content }], ...more } });

async function called({ name, arguments: args = {}, _meta = {} }, id, say) {
  switch (name) {
    case "echo":
      return text(String(args.text));
    case "pid":
      return text(String(process.pid));
    case "env":
      return text(JSON.stringify(process.env));
    case "fail":
      return text("it could not", { isError: true });
    case "die":
      return (setTimeout(() => process.exit(7), 10), undefined);
    case "hang":
      return undefined;
    case "progress":
      for (let i = 1; i <= 3; i++)
        say({
          method: "notifications/progress",
          params: { progressToken: _meta.progressToken, progress: i, total: 3, message: `step ${i}` },
        });
      return text("done");
    case "nag": {
      const form = { message: "Well?", requestedSchema: { type: "object", properties: { a: { type: "string" } } } };
      if (args.at_once) for (let i = 0; i < 40; i++) void ask("elicitation/create", form, say);
      if (args.at_once) return text("never mind");
      for (;;) await ask("elicitation/create", form, say);
    }
    case "ask": {
      const answered = await ask(
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
        say,
      );
      return text(JSON.stringify(answered));
    }
    case "change":
      changed = true;
      for (let i = 0; i < (args.times ?? 1); i++) say({ method: "notifications/tools/list_changed" });
      return text("changed");
    case "flood":
      for (let i = 0; i < 50_000; i++)
        say({ method: "notifications/message", params: { level: "info", data: `line ${i} ${"x".repeat(100)}` } });
      for (let i = 0; i < 5_000; i++)
        say({ method: "notifications/progress", params: { progressToken: "nobody's", progress: i } });
      return text("flooded");
    case "endless":
      return text("x".repeat(9 * 1024 * 1024));
    case "big":
      if (how === "bottomless") return { result: { content: [], structuredContent: BOTTOMLESS } };
      return text("x".repeat(1024 * 1024));
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
      return { error: { code: -32602, message: `no tool ${name}` } };
  }
}

function ask(method, params, say) {
  const id = randomUUID();
  say({ id, method, params });
  return new Promise((resolve) => pendingRequests.set(id, resolve));
}

/** Handles a received message. */
async function take(message, say) {
  if (message.method === undefined) return pendingRequests.get(message.id)?.(message.result ?? message.error);
  if (message.id === undefined) {
    if (message.method === "notifications/cancelled" && process.env.CANCELLED)
      writeFileSync(process.env.CANCELLED, JSON.stringify(message.params));
    return undefined;
  }
  const reply = await answer(message, say);
  if (reply !== undefined) say({ id: message.id, ...reply });
}

if (how === "dies") {
  process.stderr.write(`cannot start with ${process.env.SECRET_KEY}\n`);
  process.exit(3);
}
// Simulates a server that is downloaded before it starts.
if (how === "late") {
  writeFileSync(process.env.BEGUN, `${process.pid} `, { flag: "a" });
  while (!existsSync(process.env.GO)) await new Promise((resolve) => setTimeout(resolve, 10));
}
if (how === "stubborn") {
  process.on("SIGTERM", () => undefined);
  const child = spawn("/bin/sh", ["-c", 'trap "" TERM; while :; do sleep 0.2; done'], {
    stdio: "ignore",
    detached: true,
  });
  writeFileSync(process.env.PIDS, `${process.pid} ${child.pid}`);
  setInterval(() => undefined, 1000);
}

if (transport === "stdio") {
  if (how === "garbage") process.stdout.write("Welcome!\n{\n\n[1,2]\n5\n");
  if (how === "one-line") {
    const more = () => {
      while (process.stdout.write("x".repeat(65_536)));
      process.stdout.once("drain", more);
    };
    more();
  }
  process.stderr.write(`${"e".repeat(20_000)}\nlast words\n`);
  const say = (message) => process.stdout.write(`${written(message)}\n`);
  const lines = createInterface({ input: process.stdin });
  lines.on("line", (line) => void take(JSON.parse(line), say));
} else {
  let session = randomUUID();
  const streams = new Set();
  const events = (response) => (message) => response.write(`event: message\ndata: ${written(message)}\n\n`);
  const server = createServer(async (request, response) => {
    if (process.env.SEEN)
      writeFileSync(process.env.SEEN, `${request.method} ${request.url} ${JSON.stringify(request.headers)}\n`, {
        flag: "a",
      });
    const [path] = request.url.split("?");
    if (how === "elsewhere") return response.writeHead(307, { location: process.env.ELSEWHERE }).end();
    if (how === "forbidden") return response.writeHead(401).end("who are you?");
    if (how === "fat") {
      response.writeHead(200, { "content-type": "application/json" });
      const more = () => response.destroyed || response.write(" ".repeat(1024 * 1024), () => setImmediate(more));
      return more();
    }
    if (request.method === "GET" && how === "again") {
      response.writeHead(200, { "content-type": "text/event-stream" });
      return response.end("retry: 99999999999999\nid: a\ndata:\n\nretry: 0\n\n");
    }
    if (request.method === "GET") {
      if (how === "sse" ? path !== "/mcp" : request.headers["mcp-session-id"] !== session)
        return response.writeHead(405).end();
      response.writeHead(200, { "content-type": "text/event-stream" });
      if (how === "sse") response.write("event: endpoint\ndata: /messages\n\n");
      else response.write(": hello\n\n");
      streams.add(response);
      return request.once("close", () => streams.delete(response));
    }
    if (request.method === "DELETE") return response.writeHead(200).end();
    let body = "";
    for await (const piece of request) body += piece;
    if (how === "sse") {
      if (path !== "/messages") return response.writeHead(405).end();
      response.writeHead(202).end();
      for (const stream of streams) await take(JSON.parse(body), events(stream));
      return undefined;
    }
    const message = JSON.parse(body);
    const isFirst = message.method === "initialize";
    if (!isFirst && request.headers["mcp-session-id"] !== session)
      return response.writeHead(404).end("no such session");
    if (message.params?.name === "forget") {
      session = randomUUID();
      return response.writeHead(404).end("no such session");
    }
    if (message.id === undefined || message.method === undefined) {
      await take(message, () => undefined);
      return response.writeHead(202).end();
    }
    if (message.params?.name === "fail" && how === "picky") return response.writeHead(400).end("say\u001b[31m why");
    if (message.params?.name === "big" && how === "picky") {
      response.writeHead(200, { "content-type": "application/json" });
      const deep = `{"a":${"[".repeat(100_000)}${"]".repeat(100_000)}}`;
      return response.end(`{"jsonrpc":"2.0","id":${message.id},"result":{"content":[],"structuredContent":${deep}}}`);
    }
    response.writeHead(200, { "content-type": "text/event-stream", "mcp-session-id": session });
    response.flushHeaders();
    if (message.params?.name === "break-off") return setTimeout(() => response.destroy(), 20);
    let over = false;
    await take(message, (reply) => {
      if (over) return;
      events(response)(reply);
      if (reply.id === message.id && reply.method === undefined) {
        over = true;
        response.end();
      }
    });
    return undefined;
  });
  server.listen(Number(process.env.PORT ?? 0), "127.0.0.1", () =>
    process.stdout.write(`http://127.0.0.1:${server.address().port}/mcp\n`),
  );
  if (how === "forgets") process.on("SIGUSR2", () => (session = randomUUID()));
}
