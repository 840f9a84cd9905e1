// Searches for a configured key in everything that leaves the server or stays on the disk.
import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { SocketPeer } from "../../helpers/acp-http.js";
import { call, fail, say, type FakeWireName } from "../../helpers/fake-model-server.js";
import { lab, until } from "../../helpers/lab.js";
import { baseUrlOf, WIRE_MODELS } from "../../helpers/model-situations.js";
import { startServer } from "../../helpers/server.js";

const WIRES: readonly FakeWireName[] = ["openai", "openai-responses", "anthropic", "google"];
/**
 * The key contains letters that no id contains by chance. No pattern detects it, so only its value can be redacted. The
 * key from the environment contains characters that JSON escapes.
 */
const keyOf = (wire: string) => `canary.${wire}.7zq3k9`;
const FROM_ENVIRONMENT = 'canary"env\\7zq3k9';
const HEADER = "canary.header.7zq3k9";
const REQUIRED = "canary.required.7zq3k9";

it("no configured secret is in HTTP responses, ACP messages, logs, output or files, with any provider API", async (t) => {
  const models = await lab(t);
  const server = await startServer(t, {
    config: {
      server: {
        transports: ["koa-http-api", "acp-http-sse-ws"],
        required_headers: { "X-Required": REQUIRED },
      },
      acp: { required_headers: {} },
      log: { level: "debug" },
      providers: WIRES.map((wire) => ({
        name: wire,
        driver: wire,
        base_url: baseUrlOf(wire, models),
        api_key: keyOf(wire),
        headers: { "X-Own": HEADER, "X-Env": "${CANARY}" },
        max_retries: 0,
        models: [{ id: WIRE_MODELS[wire].id }],
      })),
    },
    env: { CANARY: FROM_ENVIRONMENT },
  });
  const responseTexts: string[] = [];
  const get = async (path: string, init: RequestInit = {}): Promise<Response> => {
    const response = await server.fetch(path, { ...init, headers: { "X-Required": REQUIRED } });
    responseTexts.push(JSON.stringify([...response.headers]), await response.clone().text());
    return response;
  };
  const socket = new SocketPeer(`${server.url}/acp`);
  await socket.opened();
  await socket.initialize();

  for (const [n, wire] of WIRES.entries()) {
    const secrets = `${keyOf(wire)} ${HEADER} ${FROM_ENVIRONMENT}`;
    const run = async (stream: boolean, sessionId?: string): Promise<string> => {
      const body = { message: "go", provider: wire, model: WIRE_MODELS[wire].id, stream, session_id: sessionId };
      const response = await get("/api/run", { method: "POST", body: JSON.stringify(body) });
      return response.headers.get("x-session-id") ?? "";
    };
    models.enqueue(
      call("bash", { command: "env; cat /proc/$PPID/environ /proc/$PPID/cmdline 2>&1 | tr '\\0' '\\n'" }),
      say("Done."),
    );
    const id = await run(false);
    // Providers that echo the received key in different ways.
    for (const stream of [false, true]) {
      models.enqueue(fail(401, `Incorrect API key provided: ${secrets}`));
      await run(stream, id);
      models.enqueue({ status: 400, body: `<html>bad request: ${secrets}</html>` });
      await run(stream, id);
      models.enqueue({ say: [{ text: "Half" }, { error: { message: `broken: ${secrets}` } }] });
      await run(stream, id);
      models.enqueue({ say: [{ text: "Half" }, { raw: `data: {"x": "${secrets}\n\n` }, { cut: true }] });
      await run(stream, id);
    }
    models.aside = fail(500, `no title for ${secrets}`);
    models.enqueue(say("Fine."));
    await run(false);
    // The title is generated after the answer.
    await until(() => server.stderr.split("no title was generated").length - 1 > n);
    models.aside = say("A title");
    await get(`/api/sessions/${id}`);
    await get(`/api/sessions/${id}/messages`);

    const session = await socket.newSession(server.projectDir);
    const value = `${wire}/${WIRE_MODELS[wire].id}`;
    await socket.request("session/set_config_option", { sessionId: session, configId: "model", value });
    models.enqueue(fail(401, `Incorrect API key provided: ${secrets}`));
    assert.deepEqual((await socket.prompt(session, "go")).stopReason, "error");
  }
  for (const path of ["/api/models", "/api/sessions", "/api/nothing", "/api/health"]) await get(path);
  responseTexts.push(await (await server.fetch("/api/models")).text());
  assert.ok(
    models.requests.some(({ headers }) => headers["x-env"] === FROM_ENVIRONMENT),
    "the providers had them",
  );

  await server.stop();
  const files: string[] = [];
  for (const entry of await readdir(server.home, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || entry.name === "config.json") continue;
    files.push(await readFile(join(entry.parentPath, entry.name), "latin1"));
  }
  assert.ok(files.length > 0);
  const places = {
    stdout: server.stdout,
    stderr: server.stderr,
    answers: responseTexts.join("\n"),
    acp: JSON.stringify(socket.received),
    files: files.join("\n"),
  };
  assert.equal(models.queued, 0, "every answer was asked for");
  assert.match(places.answers, /Incorrect API key provided: \[redacted\]/);
  for (const [place, text] of Object.entries(places)) {
    const at = text.indexOf("7zq3k9");
    assert.equal(at, -1, `${place}: ${text.slice(Math.max(0, at - 300), at + 50)}`);
  }
});
