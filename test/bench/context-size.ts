// Prints the size of the context that agents send for one session of eight prompts (four files read, a command, two
// searches, an answer), over ACP: gantry on each wire, and other agents. All sizes are in bytes:
// - `first`: the first request that offers tools
// - `per turn`: by how much the largest request is larger than the first, for each prompt before it
// - `total`: all requests that offer tools, also those of agents in the background
// - `cached`: the share of the requests after the first that is the beginning of an earlier request
// `npx tsx --conditions=@gantry/source test/bench/context-size.ts [--model-port PORT] [NAME='COMMAND' ...]`
// Peers are configured as in docs/performance.md.
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { parseArgs } from "node:util";
import { gantryCommand } from "../helpers/source-paths.js";
import { readCachedText } from "../helpers/wire-conversation.js";
import { AcpClient } from "./acp-client.js";
import { resolveBenchFile, waitForMatch } from "./bench.js";
import {
  createTempFolder,
  endAllProcesses,
  endOnSignals,
  endProcess,
  startProcess,
  type Command,
} from "./processes.js";

/** Size of a file of the task. Agents shorten long results differently. */
const FILE_LINES = 60;
const FILE_NAMES = ["a.js", "b.js", "c.js", "d.js"];
const PROMPT_COUNT = FILE_NAMES.length + 4;
const GANTRY_DRIVERS = { chat: "openai", responses: "openai-responses", anthropic: "anthropic", google: "google" };

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- request bodies of many agents
type Body = any;

interface Request {
  readonly wire: string;
  readonly bytes: number;
  readonly cachedText: string;
}

/** Reads a request that offers tools; undefined for requests of titles and the like. */
function readRequest(text: string): Request | undefined {
  const body = JSON.parse(text) as Body;
  const wire = body.contents
    ? "google"
    : body.input
      ? "responses"
      : body.messages?.[0]?.role === "user"
        ? "anthropic"
        : "chat";
  if (!body.tools?.length) return undefined;
  return { wire, bytes: Buffer.byteLength(text), cachedText: readCachedText(body) };
}

function countCommonCharacters(a: string, b: string): number {
  let count = 0;
  while (count < a.length && a[count] === b[count]) count++;
  return count;
}

/** Runs the task. Resolves with the requests that offer tools, without those of subagents and side questions. */
async function runTask(command: Command, env: NodeJS.ProcessEnv, modelUrl: string): Promise<Request[]> {
  const cwd = createTempFolder();
  const createText = (name: string) => `// ${name}: a line of the file\n`.repeat(FILE_LINES) + "// needle\n";
  for (const name of FILE_NAMES) writeFileSync(path.join(cwd, name), createText(name));
  const readBodies = async () => (await (await fetch(`${modelUrl}/first-requests`)).json()) as string[];
  const firstIndex = (await readBodies()).length;
  const child = startProcess(command, { cwd, env });
  const client = new AcpClient(child);
  const sessionId = await client.openSession(cwd);
  const files = FILE_NAMES.map((name) => `[tool=read path=${path.join(cwd, name)}]`);
  const actions = ["[tool=shell]", "[tool=grep pattern=needle]", "[tool=glob pattern=*.js]", "[tokens=100]"];
  for (const prompt of [...files, ...actions]) await client.runTurn(sessionId, prompt);
  await endProcess(child);
  const bodies = (await readBodies()).slice(firstIndex);
  return bodies.flatMap((body) => readRequest(body) ?? []);
}

function printRow(...cells: readonly (string | number)[]): void {
  process.stdout.write(
    `${cells.map((cell, i) => (i < 2 ? String(cell).padEnd(12) : String(cell).padStart(14))).join("")}\n`,
  );
}

function printFigures(name: string, requests: readonly Request[]): void {
  const [firstRequest, ...laterRequests] = requests;
  if (!firstRequest) return printRow(name, "no requests");
  const sizes = requests.map(({ bytes }) => bytes);
  const cachedSizes = laterRequests.map(({ cachedText }, i) =>
    Math.max(...requests.slice(0, i + 1).map((request) => countCommonCharacters(request.cachedText, cachedText))),
  );
  const cachedShare = sum(cachedSizes) / sum(laterRequests.map(({ cachedText }) => cachedText.length));
  printRow(
    ...[name, firstRequest.wire, requests.length, firstRequest.bytes],
    Math.round((Math.max(...sizes) - firstRequest.bytes) / (PROMPT_COUNT - 1)),
    ...[sum(sizes), `${(100 * cachedShare).toFixed(1)} %`],
  );
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

const { values, positionals } = parseArgs({
  options: { "model-port": { type: "string", default: "0" } },
  allowPositionals: true,
});
endOnSignals();
const model = startProcess([process.execPath, resolveBenchFile("fake-model.mjs"), values["model-port"], "10000"]);
const port = await waitForMatch(model, /"port":(\d+)/);
const modelUrl = `http://127.0.0.1:${port}/v1`;

printRow("agent", "wire", "requests", "first", "per turn", "total", "cached");
for (const [wire, driver] of Object.entries(GANTRY_DRIVERS)) {
  const home = createTempFolder();
  const baseUrl = wire === "google" ? modelUrl.replace("/v1", "/v1beta") : modelUrl;
  const models = [{ id: "m1", context_window: 200_000 }];
  const providers = [{ ...{ name: "lab", driver, api_key: "none" }, base_url: baseUrl, models }];
  writeFileSync(path.join(home, "config.json"), JSON.stringify({ providers }));
  const command = [process.execPath, ...gantryCommand(), "serve", "--acp", "--stdio"] as const;
  printFigures("gantry", await runTask(command, { PATH: process.env["PATH"], GANTRY_HOME: home }, modelUrl));
}
for (const peer of positionals) {
  const [name = "", ...command] = peer.split("=");
  try {
    printFigures(name, await runTask(command.join("="), { ...process.env, BENCH_MODEL: modelUrl }, modelUrl));
  } catch (error) {
    printRow(name, String(error));
  }
}
endAllProcesses();
await once(model, "exit");
