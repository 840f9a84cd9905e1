// A model server that is no bottleneck: it sends prepared bytes. The prompt selects the answer:
//
// - `[tokens=5000]`: this many tokens, as fast as possible
// - `[tokens=200 every=20]`: this many tokens, one for each write, at this interval in ms
// - `[tool=read path=/a/b]`: a call of the agent's tool that reads a file
// - `[tool=shell]`: a call of the agent's tool that runs a command, with the command `true`
//
// Any other prompt, a request for a title and a tool result get a short answer at once. The argument is a port;
// default: any. It prints its port as a line of JSON and exits when its standard input ends.
import { createServer } from "node:http";
import { wires } from "./fake-model-wires.mjs";

const WRITE = 64 * 1024;
const SHORT = { tokens: 1 };
const READ = /^(read|read_file|read_text_file|readfile|view|cat)$/i;
const SHELL = /^(bash|shell|shell_command|run_shell_command|exec_command|execute|run_command|terminal|local_shell)$/i;
/** Maximum body size that is parsed, in bytes: parsing larger ones would use CPU time of the measured machine. */
const LOOKED_INTO = 512 * 1024;

/** Selects the answer that a request's prompt asks for. */
function planOf(body, wire) {
  if (body.length > LOOKED_INTO) return SHORT;
  const { prompt, tools, title, answered } = wire.understand(JSON.parse(body));
  if (title || answered) return SHORT;
  const [, kind, value, options] = /\[(tokens|tool)=(\w+)([^\]]*)\]/.exec(prompt) ?? [];
  const option = (name) => new RegExp(`\\b${name}=(\\S+)`).exec(options)?.[1];
  if (kind === "tokens") return { tokens: Number(value), every: Number(option("every") ?? 0) };
  if (kind === "tool") {
    const tool = tools.find(({ name }) => (value === "read" ? READ : SHELL).test(name));
    if (tool) return { call: { name: tool.name, arguments: argumentsOf(tool.parameters ?? {}, option("path")) } };
  }
  return SHORT;
}

/** Arguments for a tool, whatever its parameters are called. */
function argumentsOf({ properties = {}, required = [] }, path) {
  const values = {};
  for (const [name, { type, items }] of Object.entries(properties)) {
    if (/^(path|file|file_?path|absolute_path|target_file)$/i.test(name) && path) values[name] = path;
    else if (/^(command|cmd|script)$/i.test(name)) values[name] = type === "array" || items ? ["true"] : "true";
    else if (required.includes(name))
      values[name] = type === "string" ? "true" : type === "boolean" ? false : type === "array" ? [] : 1;
  }
  return values;
}

const made = new Map();

/** The parts of an answer, one for each write. */
function piecesOf(plan, wire) {
  const key = `${wire.name} ${JSON.stringify(plan)}`;
  let pieces = made.get(key);
  if (pieces) return pieces;
  const events = plan.call ? wire.call(plan.call) : wire.text(plan.tokens);
  pieces = [];
  if (plan.every) pieces = events.map((event) => Buffer.from(event));
  else {
    const stream = Buffer.from(events.join(""));
    for (let from = 0; from < stream.length; from += WRITE) pieces.push(stream.subarray(from, from + WRITE));
  }
  // Calls contain file names of one run and are not cached; other answers are few.
  if (!plan.call) made.set(key, pieces);
  return pieces;
}

let streams = 0;

/**
 * Writes one token at a time, every `every` ms. Concurrent streams start at different offsets, so that they do not
 * write in step.
 */
function pace(response, pieces, { tokens, every }) {
  let next = 0;
  let timer = setTimeout(
    () => {
      timer = setInterval(() => {
        if (next < tokens) return response.write(pieces[next++]);
        clearInterval(timer);
        response.end(Buffer.concat(pieces.slice(next)));
      }, every);
    },
    (every * ((streams++ * 37) % 100)) / 100,
  );
  response.on("close", () => clearInterval(timer));
}

const server = createServer((request, response) => {
  const { pathname } = new URL(request.url, "http://model");
  const chunks = [];
  request.on("data", (chunk) => chunks.push(chunk));
  request.on("end", () => {
    if (/\/models\/?$/.test(pathname)) {
      response.setHeader("content-type", "application/json");
      return response.end('{"object":"list","data":[{"id":"m1","object":"model"}],"models":[]}');
    }
    const wire = wires.find(({ path }) => path.test(pathname));
    if (!wire) return response.writeHead(404).end();
    const body = Buffer.concat(chunks);
    const plan = planOf(body, wire);
    const pieces = piecesOf(plan, wire);
    if (wire.whole && !wire.streams(pathname, body)) {
      response.setHeader("content-type", "application/json");
      return response.end(wire.whole(plan));
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    if (!plan.every) {
      for (const piece of pieces.slice(0, -1)) response.write(piece);
      return response.end(pieces.at(-1));
    }
    pace(response, pieces, plan);
  });
});
// Prevents the server from closing a kept-alive socket while a request is sent.
server.keepAliveTimeout = 600_000;
server.listen(Number(process.argv[2] ?? 0), "127.0.0.1", 4096, () =>
  process.stdout.write(`${JSON.stringify(server.address())}\n`),
);
process.stdin.resume().on("end", () => process.exit());
