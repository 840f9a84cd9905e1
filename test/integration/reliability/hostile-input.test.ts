import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { it } from "node:test";
import { callStep, type FakeRequest } from "../../helpers/fake-model-server.js";
import {
  runPrompt,
  startModelServer,
  createServerConfig,
  startStreamedRun,
  waitUntil,
} from "../../helpers/server-runs.js";
import { startServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp-dir.js";

const MIB = 1024 * 1024;

const SLOW_IGNORE_RULE = `*${"[!b-d]".repeat(60)}*x\n`;
const IGNORE_RULES = SLOW_IGNORE_RULE.repeat(Math.floor(MIB / SLOW_IGNORE_RULE.length));
/** Returns the tool results in a request to the model. */
const readToolResults = ({ body }: FakeRequest): string[] =>
  (body as { messages: { role: string; content: unknown }[] }).messages
    .filter(({ role }) => role === "tool")
    .map(({ content }) => JSON.stringify(content));
const ENDLESS_GREP_INPUT = { pattern: "(a+)+$", path: "evil.txt" };

/** Starts a server whose model reads a page and a repository that once blocked the server for minutes. */
async function startAttackedServer(t: { after(run: () => Promise<void> | void): void }) {
  const page = "<div>".repeat((4.5 * MIB) / "<div>".length);
  const site = createServer((_, response) => {
    response.writeHead(200, { "content-type": "text/html" }).end(page);
  });
  await new Promise<void>((resolve) => site.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    site.closeAllConnections();
    site.close();
  });
  const project = await tempDir(t, {
    ".gitignore": IGNORE_RULES,
    "evil.txt": `${"a".repeat(60)}!\n`,
    ...Object.fromEntries(Array.from({ length: 300 }, (_, n) => [`many/${"a".repeat(240)}${n}`, ""])),
  });
  const toolCalls = [
    ["webfetch", { url: `http://127.0.0.1:${(site.address() as AddressInfo).port}/` }],
    ["list", { path: "many" }],
    ["glob", { pattern: `many/${"*{a,b}".repeat(8)}*x*`, all: true }],
    ["grep", { pattern: "x", glob: `many/${"*{a,b}".repeat(8)}*x*`, all: true }],
  ] as const;
  const includesText = ({ body }: FakeRequest, text: string): boolean => JSON.stringify(body).includes(text);
  const modelServer = await startModelServer(t, {
    fallback: (request) => {
      const resultCount = readToolResults(request).length;
      if (includesText(request, "for ever"))
        return resultCount > 0 ? { say: [{ text: "done" }] } : callStep("grep", ENDLESS_GREP_INPUT);
      const nextCall = toolCalls[resultCount];
      return nextCall ? callStep(nextCall[0], nextCall[1]) : { say: [{ text: "done" }] };
    },
  });
  const server = await startServer(t, {
    config: createServerConfig(modelServer, { tools: { webfetch: { allow_private: true } } }),
    projectDir: project.path,
  });
  return { server, modelServer };
}

it("a run over an untrusted page, repository and globs finishes while /api/health keeps answering", async (t) => {
  const { server, modelServer } = await startAttackedServer(t);
  let isRunOver = false;
  const pendingRun = runPrompt(server, { message: "all of it" }).finally(() => (isRunOver = true));
  await waitUntil(async () => {
    assert.equal((await server.fetch("/api/health")).status, 200);
    return isRunOver;
  });
  assert.equal((await pendingRun).output, "done");
  const results = readToolResults(modelServer.requests.findLast(({ tools }) => tools.length > 0)!);
  assert.equal(results.length, 4, results.join("\n"));
  assert.match(results[0]!, /has no text/);
  for (const result of results.slice(1)) assert.match(result, /No (file|match)|aaaa/);
});

it("SIGTERM stops the server while a worker thread evaluates an endless expression", async (t) => {
  const { server } = await startAttackedServer(t);
  const runStream = await startStreamedRun(server, { message: "for ever" });
  // The call is running when its event has arrived. The server answers health requests meanwhile.
  await waitUntil(() => runStream.latestEvent?.data.type === "tool_call");
  assert.equal((await server.fetch("/api/health")).status, 200);
  // A server that waited for the worker thread would never end.
  assert.deepEqual(await server.stop("SIGTERM"), { code: 0, signal: null });
  await runStream.ended;
});
