// A model server that is no bottleneck: it sends prepared bytes. The prompt selects the answer:
//
// - `[tokens=5000]`: this many tokens, as fast as possible
// - `[tokens=200 every=20]`: this many tokens, one for each write, at this interval in ms
// - `[tool=read path=/a/b]`: a call of the agent's tool that reads a file
// - `[tool=shell]`: a call of the agent's tool that runs a command, with the command `true`
// - `[tool=grep pattern=a]`, `[tool=glob pattern=*.md]`: a call of the agent's tool that searches texts or file names
//
// Any other prompt, a request for a title and a tool result get a short answer at once. `GET /v1/first-requests` returns
// the first bodies that the server received, as a JSON array of texts. The arguments are a port (default: any) and the
// number of these bodies (default: 4); with this number, each answer has ids of its own, which some agents need. The
// process prints its address as a line of JSON and exits when its standard input ends.
import { createServer } from "node:http";
import { wires } from "./fake-model-wires.mjs";

const WRITE_BYTES = 64 * 1024;
const SHORT_ANSWER = { tokens: 1 };
/** Names of tools of any agent, by the kind in a prompt. */
const TOOL_NAMES = {
  read: /^(read|read_file|read_text_file|readfile|view|cat)$/i,
  shell: /^(bash|shell|shell_command|run_shell_command|exec_command|execute|run_command|terminal|local_shell)$/i,
  grep: /^(grep|grep_search|search_file_content|search_files|ripgrep|rg)$/i,
  glob: /^(glob|glob_search|find|find_files|file_search)$/i,
};
/** Larger bodies are not parsed, because parsing would use CPU time of the measured machine. */
const MAX_PARSED_BYTES = 512 * 1024;
const MAX_RETAINED_REQUESTS = Number(process.argv[3] ?? 4);

const firstRequests = [];

/** Selects the answer by the prompt of a request. */
function planAnswer(body, wire) {
  if (body.length > MAX_PARSED_BYTES) return SHORT_ANSWER;
  const { prompt, tools, isTitleRequest, hasToolResult } = wire.parseRequest(JSON.parse(body));
  if (isTitleRequest || hasToolResult) return SHORT_ANSWER;
  const [, kind, value, optionsText] = /\[(tokens|tool)=(\w+)([^\]]*)\]/.exec(prompt) ?? [];
  const readOption = (name) => new RegExp(`\\b${name}=(\\S+)`).exec(optionsText)?.[1];
  if (kind === "tokens") return { tokens: Number(value), intervalMs: Number(readOption("every") ?? 0) };
  if (kind === "tool") {
    const tool = tools.find(({ name }) => TOOL_NAMES[value].test(name));
    const options = { path: readOption("path"), pattern: readOption("pattern") };
    if (tool) return { call: { name: tool.name, arguments: createArguments(tool.parameters ?? {}, options) } };
  }
  return SHORT_ANSWER;
}

/** Creates arguments for a tool of any agent, by the names and types of its parameters. */
function createArguments({ properties = {}, required = [] }, { path, pattern }) {
  const values = {};
  for (const [name, { type, items }] of Object.entries(properties)) {
    if (/^(path|file|file_?path|absolute_path|target_file)$/i.test(name) && path) values[name] = path;
    else if (/^(pattern|regex|query|glob_pattern)$/i.test(name) && pattern) values[name] = pattern;
    else if (/^(command|cmd|script)$/i.test(name)) values[name] = type === "array" || items ? ["true"] : "true";
    else if (required.includes(name))
      values[name] = type === "string" ? "true" : type === "boolean" ? false : type === "array" ? [] : 1;
  }
  return values;
}

const piecesByKey = new Map();

/** Returns the pieces of an answer, one for each write. */
function renderPieces(plan, wire) {
  const key = `${wire.name} ${JSON.stringify(plan)}`;
  let pieces = piecesByKey.get(key);
  if (pieces) return pieces;
  const events = plan.call ? wire.renderCall(plan.call) : wire.renderText(plan.tokens);
  pieces = [];
  if (plan.intervalMs) pieces = events.map((event) => Buffer.from(event));
  else {
    const stream = Buffer.from(events.join(""));
    for (let offset = 0; offset < stream.length; offset += WRITE_BYTES)
      pieces.push(stream.subarray(offset, offset + WRITE_BYTES));
  }
  // Calls contain file names of one run and are not cached. There are few other answers.
  if (!plan.call) piecesByKey.set(key, pieces);
  return pieces;
}

let answerCount = 0;

/** Replaces the ids of the prepared answer by ids that no other answer has. */
function makeIdsUnique(pieces) {
  const suffix = `-${++answerCount}"`;
  return pieces.map((piece) => Buffer.from(piece.toString().replaceAll(/(?<="(?:chat|call|resp|msg|fc))-1"/g, suffix)));
}

let streamCount = 0;

/**
 * Writes one token at a time, every `intervalMs` ms. Concurrent streams start at different offsets, so that they do not
 * write in step.
 */
function writeAtInterval(response, pieces, { tokens, intervalMs }) {
  let nextIndex = 0;
  let timer = setTimeout(
    () => {
      timer = setInterval(() => {
        if (nextIndex < tokens) return response.write(pieces[nextIndex++]);
        clearInterval(timer);
        response.end(Buffer.concat(pieces.slice(nextIndex)));
      }, intervalMs);
    },
    (intervalMs * ((streamCount++ * 37) % 100)) / 100,
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
    if (pathname === "/v1/first-requests") return response.end(JSON.stringify(firstRequests));
    const wire = wires.find(({ path }) => path.test(pathname));
    if (!wire) return response.writeHead(404).end();
    const body = Buffer.concat(chunks);
    if (firstRequests.length < MAX_RETAINED_REQUESTS) firstRequests.push(body.toString());
    const plan = planAnswer(body, wire);
    const preparedPieces = renderPieces(plan, wire);
    const pieces = process.argv[3] === undefined ? preparedPieces : makeIdsUnique(preparedPieces);
    if (wire.renderComplete && !wire.isStream(pathname, body)) {
      response.setHeader("content-type", "application/json");
      return response.end(wire.renderComplete(plan));
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    if (!plan.intervalMs) {
      for (const piece of pieces.slice(0, -1)) response.write(piece);
      return response.end(pieces.at(-1));
    }
    writeAtInterval(response, pieces, plan);
  });
});
// Prevents the server from closing a kept-alive socket while a request is sent.
server.keepAliveTimeout = 600_000;
server.listen(Number(process.argv[2] ?? 0), "127.0.0.1", 4096, () =>
  process.stdout.write(`${JSON.stringify(server.address())}\n`),
);
process.stdin.resume().on("end", () => process.exit());
