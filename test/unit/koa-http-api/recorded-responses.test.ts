import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { it } from "node:test";
import { callTools, type ScriptedStep } from "gantry/testing";
import { gate, waitTool } from "../../helpers/gate.js";
import type { RawRequest, RawResponse } from "../../helpers/http.js";
import { tempDir, type Hooks } from "../../helpers/temp.js";
import { startApi } from "../../helpers/http-api.js";
import { echoTool } from "../../helpers/http-api-tools.js";

/** Recorded responses from before runs, events and asks existed. Never record them again. */
const RECORDED = new URL("recorded-responses.txt", import.meta.url);

/** Every recorded request and its response: status, headers in order, body. Ids and times are masked. */
async function answers(t: Hooks): Promise<string> {
  const project = await tempDir(t, { "notes.txt": "notes" });
  const open = gate();
  const steps: ScriptedStep[] = [
    "Hello.",
    [{ type: "reasoning", block: "r", text: "Hm." }, ...callTools(["echo", { text: "a" }, "call_1"])],
    "Echoed.",
    callTools(["echo", { nothing: 1 }, "call_2"]),
    "It failed.",
    new Error("broken"),
    new Error("broken"),
    "With a file.",
    callTools(["wait", {}, "call_3"]),
    "Waited.",
  ];
  const api = await startApi(t, { steps, agent: { projectDir: project.path, tools: [echoTool, waitTool(open)] } });
  let text = "";
  const masks: [pattern: RegExp, as: string][] = [
    [/[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g, "<id>"],
    [/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, "<time>"],
    [/^Date: .*$/gm, "Date: <date>"],
    [new RegExp(project.path, "g"), "<project>"],
    [new RegExp(api.agent.version.replaceAll(".", "\\."), "g"), "<version>"],
    // The length depends on the masked values.
    [/^Content-Length: \d+$/gm, "Content-Length: <length>"],
  ];
  const recordAnswer = (label: string, { status, rawHeaders, text: body }: RawResponse): RawResponse => {
    const lines = rawHeaders.flatMap((name, i) => (i % 2 === 0 ? [`${name}: ${rawHeaders[i + 1]}`] : []));
    const entry = `> ${label}\n${status}\n${lines.join("\n")}\n\n${body}\n\n`;
    text += masks.reduce((masked, [pattern, as]) => masked.replace(pattern, as), entry);
    return { status, rawHeaders, text: body } as RawResponse;
  };
  const ask = async (path: string, options: RawRequest = {}) => {
    const method = options.method ?? (options.body === undefined ? "GET" : "POST");
    return recordAnswer(`${method} ${path} ${String(options.body ?? "")}`.trimEnd(), await api.send(path, options));
  };
  const run = (body: unknown) => ask("/api/run", { body: typeof body === "string" ? body : JSON.stringify(body) });
  const idOf = ({ rawHeaders }: RawResponse): string => rawHeaders[rawHeaders.indexOf("X-Session-Id") + 1] ?? "";

  await ask("/api/health");
  await ask("/api/models");
  await ask("/api/sessions");
  const session_id = idOf(await run({ message: "hi" }));
  // The title is generated in the background.
  for (let title = "New"; title.startsWith("New");)
    title = ((await api.agent.sessions.get(session_id))?.title ?? "").replace(/^$/, "New");
  await run({ message: "echo", session_id, stream: true });
  await run({
    message: "echo",
    session_id,
    stream: true,
    provider: "scripted",
    model: "scripted-1",
    files: [],
    made_up: 1,
  });
  await run({ message: "fail", session_id });
  await run({ message: "fail", session_id, stream: true });
  await run({ message: "file", session_id, files: ["notes.txt"] });
  const pendingAnswer = api.send("/api/run", { body: JSON.stringify({ message: "wait", session_id }) });
  await open.reached;
  await run({ message: "busy", session_id });
  await run({ message: "busy", session_id, stream: true });
  open.open();
  recordAnswer("the run that was waited for", await pendingAnswer);
  await ask(`/api/sessions/${session_id}`);
  await ask("/api/sessions?size=5&page=1&search=e");
  await ask(`/api/sessions/${session_id}/messages`);
  await ask(`/api/sessions/${session_id}/messages?view=model&limit=2`);
  for (const wrong of [
    "{}",
    "[]",
    "{",
    '{"message":" "}',
    '{"message":1}',
    '{"message":"hi","files":"x"}',
    '{"message":"hi","stream":1}',
    '{"message":"hi","stream":null}',
    '{"message":"hi","model":1}',
    '{"message":"hi","session_id":"none"}',
    '{"message":"hi","session_id":"none","stream":true}',
    '{"message":"hi","provider":"none","model":"none"}',
    '{"message":"hi","files":["none.txt"]}',
  ])
    await run(wrong);
  for (const path of [
    "/api/nope",
    "/api/sessions/none",
    "/api/sessions/none/messages",
    "/api/sessions?page=0",
    "/api/sessions?size=x",
    "/api/sessions?page=1&page=2",
    "/api/run",
  ])
    await ask(path);
  await ask("/api/run", { method: "PUT" });
  await ask("/api/run", { method: "OPTIONS" });
  await ask("/api/sessions/x", { method: "OPTIONS", headers: { "access-control-request-method": "DELETE" } });
  await ask("/api/health", { headers: { host: "evil.example" } });
  await ask("/api/sessions", { headers: { origin: "https://evil.example" } });
  await ask(`/api/sessions/${session_id}`, { method: "DELETE" });
  await ask(`/api/sessions/${session_id}`, { method: "DELETE" });
  return text;
}

/** Headers and fields that were added after the recording. */
const ADDED: readonly [pattern: RegExp, without: string][] = [
  [/^X-Run-Id: <id>\n/gm, ""],
  [/(?<=^Access-Control-Expose-Headers: X-Session-Id), X-Run-Id/gm, ""],
  [/(?<="usage":\{[^{}]*\}),"mode":"auto"\}/g, "}"],
];

it("responses equal the recorded ones byte for byte, apart from headers and fields added later", async (t) => {
  let now = await answers(t);
  for (const [pattern, without] of ADDED) {
    assert.match(now, pattern);
    now = now.replace(pattern, without);
  }
  const blocks = (text: string) => text.trimEnd().split(/^(?=> )/m);
  const recorded = blocks(await readFile(RECORDED, "utf8"));
  for (const [i, block] of blocks(now).entries()) assert.equal(block, recorded[i]);
  assert.equal(blocks(now).length, recorded.length);
});
