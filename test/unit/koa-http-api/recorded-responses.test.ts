import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { it } from "node:test";
import { callTools, type ScriptedStep } from "gantry/testing";
import { createGate, createWaitTool } from "../../helpers/gate.js";
import type { RawRequest, RawResponse } from "../../helpers/raw-http.js";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";
import { startApi } from "../../helpers/http-api.js";
import { echoTextTool } from "../../helpers/http-api-tools.js";

/** Responses of the API before runs, events and asks were added. Do not update the recording. */
const RECORDED_RESPONSES_URL = new URL("recorded-responses.txt", import.meta.url);

/**
 * Sends every recorded request. Returns the requests and their responses: status, headers in order, body. Ids and times
 * are masked.
 */
async function recordResponses(t: Hooks): Promise<string> {
  const project = await tempDir(t, { "notes.txt": "notes" });
  const toolGate = createGate();
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
  const api = await startApi(t, {
    steps,
    agent: { projectDir: project.path, tools: [echoTextTool, createWaitTool(toolGate)] },
  });
  let text = "";
  const masks: [pattern: RegExp, replacement: string][] = [
    [/[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g, "<id>"],
    [/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, "<time>"],
    [/^Date: .*$/gm, "Date: <date>"],
    [new RegExp(project.path, "g"), "<project>"],
    [new RegExp(api.agent.version.replaceAll(".", "\\."), "g"), "<version>"],
    // The length depends on the masked values.
    [/^Content-Length: \d+$/gm, "Content-Length: <length>"],
  ];
  const recordResponse = (label: string, { status, rawHeaders, text: body }: RawResponse): RawResponse => {
    const headerLines = rawHeaders.flatMap((name, i) => (i % 2 === 0 ? [`${name}: ${rawHeaders[i + 1]}`] : []));
    const entry = `> ${label}\n${status}\n${headerLines.join("\n")}\n\n${body}\n\n`;
    text += masks.reduce((maskedText, [pattern, replacement]) => maskedText.replace(pattern, replacement), entry);
    return { status, rawHeaders, text: body } as RawResponse;
  };
  const sendRequest = async (path: string, options: RawRequest = {}) => {
    const method = options.method ?? (options.body === undefined ? "GET" : "POST");
    return recordResponse(`${method} ${path} ${String(options.body ?? "")}`.trimEnd(), await api.send(path, options));
  };
  const sendRun = (body: unknown) =>
    sendRequest("/api/run", { body: typeof body === "string" ? body : JSON.stringify(body) });
  const getSessionId = ({ rawHeaders }: RawResponse): string =>
    rawHeaders[rawHeaders.indexOf("X-Session-Id") + 1] ?? "";

  await sendRequest("/api/health");
  await sendRequest("/api/models");
  await sendRequest("/api/sessions");
  // The title is generated in the background. Waits for the event: a loop of reads of the store in memory would never
  // let the generation continue.
  const titleUpdate = new Promise((resolve) => api.agent.on("session.updated", resolve));
  const session_id = getSessionId(await sendRun({ message: "hi" }));
  await titleUpdate;
  await sendRun({ message: "echo", session_id, stream: true });
  await sendRun({
    message: "echo",
    session_id,
    stream: true,
    provider: "scripted",
    model: "scripted-1",
    files: [],
    made_up: 1,
  });
  await sendRun({ message: "fail", session_id });
  await sendRun({ message: "fail", session_id, stream: true });
  await sendRun({ message: "file", session_id, files: ["notes.txt"] });
  const pendingResponse = api.send("/api/run", { body: JSON.stringify({ message: "wait", session_id }) });
  await toolGate.firstWait;
  await sendRun({ message: "busy", session_id });
  await sendRun({ message: "busy", session_id, stream: true });
  toolGate.open();
  recordResponse("the run that was waited for", await pendingResponse);
  await sendRequest(`/api/sessions/${session_id}`);
  await sendRequest("/api/sessions?size=5&page=1&search=e");
  await sendRequest(`/api/sessions/${session_id}/messages`);
  await sendRequest(`/api/sessions/${session_id}/messages?view=model&limit=2`);
  for (const invalidBody of [
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
    await sendRun(invalidBody);
  for (const path of [
    "/api/nope",
    "/api/sessions/none",
    "/api/sessions/none/messages",
    "/api/sessions?page=0",
    "/api/sessions?size=x",
    "/api/sessions?page=1&page=2",
    "/api/run",
  ])
    await sendRequest(path);
  await sendRequest("/api/run", { method: "PUT" });
  await sendRequest("/api/run", { method: "OPTIONS" });
  await sendRequest("/api/sessions/x", { method: "OPTIONS", headers: { "access-control-request-method": "DELETE" } });
  await sendRequest("/api/health", { headers: { host: "evil.example" } });
  await sendRequest("/api/sessions", { headers: { origin: "https://evil.example" } });
  await sendRequest(`/api/sessions/${session_id}`, { method: "DELETE" });
  await sendRequest(`/api/sessions/${session_id}`, { method: "DELETE" });
  return text;
}

/** Headers and fields added since the recording. They are removed before the comparison. */
const LATER_ADDITIONS: readonly [pattern: RegExp, replacement: string][] = [
  [/^X-Run-Id: <id>\n/gm, ""],
  [/^X-Request-Id: <id>\n/gm, ""],
  [/(?<=^Access-Control-Expose-Headers: .*), X-Request-Id/gm, ""],
  [/(?<=^Access-Control-Expose-Headers: X-Session-Id), X-Run-Id/gm, ""],
  [/(?<="usage":\{[^{}]*\}),"mode":"auto"\}/g, "}"],
];

it("responses equal the recorded responses byte for byte, except headers and fields added later", async (t) => {
  let currentText = await recordResponses(t);
  for (const [pattern, replacement] of LATER_ADDITIONS) {
    assert.match(currentText, pattern);
    currentText = currentText.replace(pattern, replacement);
  }
  const splitResponses = (text: string) => text.trimEnd().split(/^(?=> )/m);
  const recordedResponses = splitResponses(await readFile(RECORDED_RESPONSES_URL, "utf8"));
  for (const [i, block] of splitResponses(currentText).entries()) assert.equal(block, recordedResponses[i]);
  assert.equal(splitResponses(currentText).length, recordedResponses.length);
});
