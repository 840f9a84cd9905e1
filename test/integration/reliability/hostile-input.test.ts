import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { it } from "node:test";
import { call, type FakeRequest } from "../../helpers/fake-model-server.js";
import { ask, lab, labConfig, stream, until } from "../../helpers/lab.js";
import { startServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp.js";

const MIB = 1024 * 1024;

const IGNORE_RULES = `*${"[!b-d]".repeat(60)}*x\n`.repeat(Math.floor(MIB / 364));
/** Tool results in a request to the model. */
const resultsIn = ({ body }: FakeRequest): string[] =>
  (body as { messages: { role: string; content: unknown }[] }).messages
    .filter(({ role }) => role === "tool")
    .map(({ content }) => JSON.stringify(content));
const ENDLESS_GREP = { pattern: "(a+)+$", path: "evil.txt" };

/** A repository and a page that once blocked the server for minutes, and a model that uses all of it. */
async function startAttackedServer(t: { after(run: () => Promise<void> | void): void }) {
  const page = "<div>".repeat((4.5 * MIB) / 5);
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
  const all = [
    ["webfetch", { url: `http://127.0.0.1:${(site.address() as AddressInfo).port}/` }],
    ["list", { path: "many" }],
    ["glob", { pattern: `many/${"*{a,b}".repeat(8)}*x*`, all: true }],
    ["grep", { pattern: "x", glob: `many/${"*{a,b}".repeat(8)}*x*`, all: true }],
  ] as const;
  const mentions = ({ body }: FakeRequest, word: string): boolean => JSON.stringify(body).includes(word);
  const models = await lab(t, {
    fallback: (request) => {
      const done = resultsIn(request).length;
      if (mentions(request, "for ever")) return done > 0 ? { say: [{ text: "done" }] } : call("grep", ENDLESS_GREP);
      const next = all[done];
      return next ? call(next[0], next[1]) : { say: [{ text: "done" }] };
    },
  });
  const server = await startServer(t, {
    config: labConfig(models, { tools: { webfetch: { allow_private: true } } }),
    projectDir: project.path,
  });
  return { server, models };
}

it("a run over an untrusted page, repository and globs finishes while /api/health keeps answering", async (t) => {
  const { server, models } = await startAttackedServer(t);
  let over = false;
  const run = ask(server, { message: "all of it" }).finally(() => (over = true));
  await until(async () => {
    assert.equal((await server.fetch("/api/health")).status, 200);
    return over;
  });
  assert.equal((await run).output, "done");
  const results = resultsIn(models.requests.findLast(({ tools }) => tools.length > 0)!);
  assert.equal(results.length, 4, results.join("\n"));
  assert.match(results[0]!, /has no text/);
  for (const result of results.slice(1)) assert.match(result, /No (file|match)|aaaa/);
});

it("SIGTERM stops the server while a worker thread evaluates an endless expression", async (t) => {
  const { server } = await startAttackedServer(t);
  const run = await stream(server, { message: "for ever" });
  // When its event has arrived, the call is running. Health is answered at the same time.
  await until(() => run.last?.data.type === "tool_call");
  assert.equal((await server.fetch("/api/health")).status, 200);
  // A server that waited for the worker thread would never end.
  assert.deepEqual(await server.stop("SIGTERM"), { code: 0, signal: null });
  await run.ended;
});
