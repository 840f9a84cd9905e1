// Searches for a configured key in everything that leaves the server or stays on the disk.
import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { SocketPeer } from "../../helpers/acp-http.js";
import { callStep, errorStep, textStep, type FakeWireName } from "../../helpers/fake-model-server.js";
import { startModelServer, waitUntil } from "../../helpers/server-runs.js";
import { baseUrlOf, WIRE_MODELS } from "../../helpers/model-situations.js";
import { startServer } from "../../helpers/server.js";

const WIRES: readonly FakeWireName[] = ["openai", "openai-responses", "anthropic", "google"];
/** The key contains letters that no id contains by chance. No pattern detects the key, so only its value is redacted. */
const createKey = (wire: string) => `canary.${wire}.7zq3k9`;
/** Contains characters that JSON escapes. */
const ENVIRONMENT_SECRET = 'canary"env\\7zq3k9';
const HEADER_SECRET = "canary.header.7zq3k9";
const REQUIRED_HEADER_SECRET = "canary.required.7zq3k9";

it("no configured secret is in HTTP responses, ACP messages, logs, output or files, with any provider API", async (t) => {
  const modelServer = await startModelServer(t);
  const server = await startServer(t, {
    config: {
      server: {
        transports: ["koa-http-api", "acp-http-sse-ws"],
        required_headers: { "X-Required": REQUIRED_HEADER_SECRET },
      },
      acp: { required_headers: {} },
      log: { level: "debug" },
      providers: WIRES.map((wire) => ({
        name: wire,
        driver: wire,
        base_url: baseUrlOf(wire, modelServer),
        api_key: createKey(wire),
        headers: { "X-Own": HEADER_SECRET, "X-Env": "${CANARY}" },
        max_retries: 0,
        models: [{ id: WIRE_MODELS[wire].id }],
      })),
    },
    env: { CANARY: ENVIRONMENT_SECRET },
  });
  const responseTexts: string[] = [];
  const fetchAndRecord = async (path: string, init: RequestInit = {}): Promise<Response> => {
    const response = await server.fetch(path, { ...init, headers: { "X-Required": REQUIRED_HEADER_SECRET } });
    responseTexts.push(JSON.stringify([...response.headers]), await response.clone().text());
    return response;
  };
  const socket = new SocketPeer(`${server.url}/acp`);
  await socket.waitUntilOpen();
  await socket.initialize();

  for (const [wireIndex, wire] of WIRES.entries()) {
    const secrets = `${createKey(wire)} ${HEADER_SECRET} ${ENVIRONMENT_SECRET}`;
    const run = async (stream: boolean, sessionId?: string): Promise<string> => {
      const body = { message: "go", provider: wire, model: WIRE_MODELS[wire].id, stream, session_id: sessionId };
      const response = await fetchAndRecord("/api/run", { method: "POST", body: JSON.stringify(body) });
      return response.headers.get("x-session-id") ?? "";
    };
    modelServer.enqueue(
      callStep("bash", { command: "env; cat /proc/$PPID/environ /proc/$PPID/cmdline 2>&1 | tr '\\0' '\\n'" }),
      textStep("Done."),
    );
    const id = await run(false);
    // The provider echoes the received key in different ways.
    for (const stream of [false, true]) {
      modelServer.enqueue(errorStep(401, `Incorrect API key provided: ${secrets}`));
      await run(stream, id);
      modelServer.enqueue({ status: 400, body: `<html>bad request: ${secrets}</html>` });
      await run(stream, id);
      modelServer.enqueue({ say: [{ text: "Half" }, { error: { message: `broken: ${secrets}` } }] });
      await run(stream, id);
      modelServer.enqueue({ say: [{ text: "Half" }, { raw: `data: {"x": "${secrets}\n\n` }, { cut: true }] });
      await run(stream, id);
    }
    modelServer.toolFreeAnswer = errorStep(500, `no title for ${secrets}`);
    modelServer.enqueue(textStep("Fine."));
    await run(false);
    // The title is generated after the answer.
    await waitUntil(() => server.stderr.split("no title was generated").length - 1 > wireIndex);
    modelServer.toolFreeAnswer = textStep("A title");
    await fetchAndRecord(`/api/sessions/${id}`);
    await fetchAndRecord(`/api/sessions/${id}/messages`);

    const session = await socket.newSession(server.projectDir);
    const value = `${wire}/${WIRE_MODELS[wire].id}`;
    await socket.request("session/set_config_option", { sessionId: session, configId: "model", value });
    modelServer.enqueue(errorStep(401, `Incorrect API key provided: ${secrets}`));
    assert.deepEqual((await socket.prompt(session, "go")).stopReason, "error");
  }
  for (const path of ["/api/models", "/api/sessions", "/api/nothing", "/api/health"]) await fetchAndRecord(path);
  responseTexts.push(await (await server.fetch("/api/models")).text());
  assert.ok(
    modelServer.requests.some(({ headers }) => headers["x-env"] === ENVIRONMENT_SECRET),
    "the providers received the secret",
  );

  await server.stop();
  const fileTexts: string[] = [];
  for (const entry of await readdir(server.home, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || entry.name === "config.json") continue;
    fileTexts.push(await readFile(join(entry.parentPath, entry.name), "latin1"));
  }
  assert.ok(fileTexts.length > 0);
  const textsByOutput = {
    stdout: server.stdout,
    stderr: server.stderr,
    answers: responseTexts.join("\n"),
    acp: JSON.stringify(socket.receivedMessages),
    files: fileTexts.join("\n"),
  };
  assert.equal(modelServer.queuedCount, 0, "every queued answer was requested");
  assert.match(textsByOutput.answers, /Incorrect API key provided: \[redacted\]/);
  for (const [outputName, text] of Object.entries(textsByOutput)) {
    const offset = text.indexOf("7zq3k9");
    assert.equal(offset, -1, `${outputName}: ${text.slice(Math.max(0, offset - 300), offset + 50)}`);
  }
});
