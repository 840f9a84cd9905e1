import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { describe, it, type TestContext } from "node:test";
import { promisify } from "node:util";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import {
  callStep,
  textStep,
  startFakeModelServer,
  type FakeModelServer,
  type FakeStep,
} from "../../helpers/fake-model-server.js";
import { countProcesses, pickUniqueSeconds, waitUntil } from "../../helpers/server-runs.js";
import { startServer, type GantryServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp-dir.js";

const execFileAsync = promisify(execFile);

const TITLE_ANSWER: FakeStep = textStep("A title");

async function startModelServer(t: TestContext): Promise<FakeModelServer> {
  const server = await startFakeModelServer({ toolFreeAnswer: TITLE_ANSWER });
  t.after(() => server.close());
  return server;
}

const createConfig = (server: FakeModelServer) => ({
  providers: [
    {
      name: "lab",
      driver: "openai",
      base_url: server.baseUrl,
      api_key: "canary-key-1",
      models: [{ id: "m1", cost: { input: 2, output: 10 } }],
    },
  ],
});

interface RunBody {
  output: string;
  usage: { prompt_tokens: number; completion_tokens: number; total_tokens: number; cost: number };
  iterations: number;
  finish_reason: string | null;
}

async function postRun(
  server: GantryServer,
  body: object,
): Promise<{ status: number; headers: Headers; body: RunBody & { error?: string } }> {
  const response = await server.fetch("/api/run", { method: "POST", body: JSON.stringify(body) });
  return { status: response.status, headers: response.headers, body: (await response.json()) as RunBody };
}

/** Returns the events of an SSE stream with name and data. */
function parseEvents(text: string): { event: string; data: Record<string, unknown> }[] {
  return text
    .split("\n\n")
    .filter((block) => block.startsWith("event:"))
    .map((block) => {
      const [, event = "", data = "{}"] = /^event: (.*)\ndata: (.*)$/.exec(block) ?? [];
      return { event, data: JSON.parse(data) as Record<string, unknown> };
    });
}

describe("a run with several tools on a scratch repository", () => {
  /** Creates the answers of the model, which finds the bug, fixes the bug and runs the test. */
  const createScript = (): FakeStep[] => [
    {
      say: [
        { text: "Looking." },
        {
          calls: [
            { name: "list", arguments: {} },
            { name: "read", arguments: { path: "add.mjs" } },
          ],
        },
      ],
    },
    callStep("edit", { path: "add.mjs", old_string: "a - b", new_string: "a + b" }),
    callStep("bash", { command: "node --test --test-reporter=tap 2>&1 | grep -E '^# (pass|fail)'" }),
    textStep("Mended: add() added wrongly."),
  ];

  for (const stream of [false, true]) {
    it(`fixes a failing test and answers with ${stream ? "an SSE stream" : "JSON"}`, async (t) => {
      const project = await tempDir(t, {
        "add.mjs": "export const add = (a, b) => a - b;\n",
        "add.test.mjs":
          "import test from 'node:test'; import assert from 'node:assert'; import { add } from './add.mjs'; test('adds', () => assert.equal(add(1, 2), 3));\n",
      });
      await execFileAsync("git", ["init", "-q"], { cwd: project.path });
      const modelServer = await startModelServer(t);
      modelServer.enqueue(...createScript());
      const server = await startServer(t, { config: createConfig(modelServer), projectDir: project.path });
      const request = { message: "The test fails. Mend it.", stream };
      if (stream) {
        const response = await server.fetch("/api/run", { method: "POST", body: JSON.stringify(request) });
        const events = parseEvents(await response.text());
        const types = events.map(({ event, data }) => `${event}:${String(data["type"])}`);
        assert.deepEqual(types.slice(-2), ["agent:done", "done:done"]);
        assert.equal(types.filter((type) => type === "agent:tool_call").length, 4);
        const outputs = events
          .filter(({ data }) => data["type"] === "tool_result")
          .map(({ data }) => String(data["tool_output"]));
        assert.match(outputs[3] ?? "", /# pass 1\n# fail 0/);
      } else {
        const { status, headers, body } = await postRun(server, request);
        assert.equal(status, 200);
        assert.equal(body.output, "Mended: add() added wrongly.");
        assert.equal(body.iterations, 4);
        assert.equal(body.finish_reason, "stop");
        const { prompt_tokens, completion_tokens, total_tokens, cost } = body.usage;
        assert.equal(total_tokens, prompt_tokens + completion_tokens);
        assert.ok(Math.abs(cost - (prompt_tokens * 2 + completion_tokens * 10) / 1e6) < 1e-9);
        assert.equal(headers.get("x-model"), "lab/m1");
      }
      assert.equal(await project.read("add.mjs"), "export const add = (a, b) => a + b;\n");
      assert.deepEqual(modelServer.violations, []);
      assert.ok(modelServer.requests.some(({ body }) => JSON.stringify(body).includes("# pass 1")));
    });
  }
});

describe("a restart after SIGKILL", () => {
  it("continues the session at once and sends its whole history with the partial answer to the model", async (t) => {
    const home = await tempDir(t);
    const project = await tempDir(t, { "a.txt": "alpha\n" });
    const modelServer = await startModelServer(t);
    modelServer.enqueue(callStep("read", { path: "a.txt" }), {
      say: [{ text: ["It ", "says ", "alpha", ", and"] }, { stall: true }],
    });
    const options = { config: createConfig(modelServer), home: home.path, projectDir: project.path };
    const firstServer = await startServer(t, options);
    const response = await firstServer.fetch("/api/run", {
      method: "POST",
      body: JSON.stringify({ message: "Read a.txt", stream: true }),
    });
    const id = response.headers.get("x-session-id") ?? "";
    const brokenResponse = assert.rejects(response.text(), "the connection breaks off");
    // The server stores streamed text in batches, long before the answer ends.
    const store = new SqliteDriver({ path: home.at("sessions.db") });
    await store.open();
    await waitUntil(async () => JSON.stringify(await store.messages(id)).includes("It says alpha, and"));
    await store.close();
    await firstServer.stop("SIGKILL");
    await brokenResponse;
    const secondServer = await startServer(t, options);
    modelServer.enqueue(textStep("Beta comes next."));
    const { status, body } = await postRun(secondServer, { message: "And next?", session_id: id });
    assert.equal(status, 200, JSON.stringify(body));
    assert.equal(body.output, "Beta comes next.");
    assert.deepEqual(modelServer.violations, []);
    const messages = (modelServer.lastRunRequest?.body as { messages: { role: string; content: unknown }[] }).messages;
    assert.deepEqual(
      messages.map(({ role }) => role),
      ["system", "user", "assistant", "tool", "assistant", "user"],
    );
    assert.match(JSON.stringify(messages[4]), /It says alpha, and/);
  });

  it("does not rerun the interrupted tool call and reports its outcome as unknown", async (t) => {
    const home = await tempDir(t);
    const project = await tempDir(t);
    const modelServer = await startModelServer(t);
    const sleepSeconds = pickUniqueSeconds();
    modelServer.enqueue(callStep("bash", { command: `echo once >> log; sleep ${sleepSeconds}` }));
    const options = { config: createConfig(modelServer), home: home.path, projectDir: project.path };
    const killedServer = await startServer(t, options);
    const response = await killedServer.fetch("/api/run", {
      method: "POST",
      body: JSON.stringify({ message: "Sleep", stream: true }),
    });
    const id = response.headers.get("x-session-id") ?? "";
    const pendingText = response.text().catch(() => "");
    await waitUntil(async () => (await project.read("log").catch(() => "")) !== "");
    await killedServer.stop("SIGKILL");
    await pendingText;
    const restartedServer = await startServer(t, options);
    modelServer.enqueue(textStep("Awake."));
    assert.equal((await postRun(restartedServer, { message: "Wake up", session_id: id })).body.output, "Awake.");
    assert.deepEqual(modelServer.violations, []);
    assert.match(JSON.stringify(modelServer.lastRunRequest?.body), /\[interrupted: outcome unknown\]/);
    assert.equal(await project.read("log"), "once\n");
    // No process remains that could end the command. A command ends with its server only if it runs in bubblewrap.
    await execFileAsync("pkill", ["-KILL", "-f", `sleep ${sleepSeconds}`]).catch(() => undefined);
  });
});

describe("SIGTERM", () => {
  it("ends open streams with shutting_down, exits with 0, and kills a tool that ignores TERM", async (t) => {
    const project = await tempDir(t);
    const modelServer = await startModelServer(t);
    const sleepSeconds = pickUniqueSeconds();
    modelServer.fallback = { say: [{ text: "Hm" }, { stall: true }] };
    modelServer.enqueue(
      callStep("bash", {
        command: `trap '' TERM; echo on > running; while true; do sleep 0.1; done; sleep ${sleepSeconds}`,
        timeout: 600,
      }),
    );
    const server = await startServer(t, { config: createConfig(modelServer), projectDir: project.path });
    const readStream = (message: string) =>
      server
        .fetch("/api/run", { method: "POST", body: JSON.stringify({ message, stream: true }) })
        .then((response) => response.text());
    const toolStream = readStream("Run it");
    await waitUntil(async () => (await project.read("running").catch(() => "")) !== "");
    const pendingStreams = Array.from({ length: 5 }, () => readStream("Talk"));
    // Six prompts, and the title of the first session.
    await modelServer.waitForRequest(7);
    assert.deepEqual(await server.stop("SIGTERM"), { code: 0, signal: null });
    for (const text of await Promise.all([toolStream, ...pendingStreams])) {
      assert.deepEqual(parseEvents(text).at(-1), {
        event: "error",
        data: { error: "server shutting down", code: "shutting_down" },
      });
    }
    assert.equal(await countProcesses(`sleep ${sleepSeconds}`), 0);
  });
});

describe("a client that disconnects", () => {
  it("ends its run's processes, and the server stays healthy", async (t) => {
    const modelServer = await startModelServer(t);
    const sleepSeconds = pickUniqueSeconds();
    modelServer.enqueue(callStep("bash", { command: `sh -c 'sleep ${sleepSeconds}' & wait`, timeout: 600 }));
    const server = await startServer(t, { config: createConfig(modelServer) });
    const abortController = new AbortController();
    const abortedRequest = server.fetch("/api/run", {
      method: "POST",
      body: JSON.stringify({ message: "x" }),
      signal: abortController.signal,
    });
    await waitUntil(async () => (await countProcesses(`sleep ${sleepSeconds}`)) > 0);
    abortController.abort();
    await assert.rejects(abortedRequest);
    await waitUntil(async () => (await countProcesses(`sleep ${sleepSeconds}`)) === 0);
    assert.equal((await server.fetch("/api/health")).status, 200);
  });
});

describe("a secret in the config or the environment", () => {
  it("is in no error, session, message or log, even if a command prints its environment", async (t) => {
    const project = await tempDir(t);
    const modelServer = await startModelServer(t);
    modelServer.enqueue(
      callStep("bash", {
        command: "env; cat /proc/$PPID/environ 2>/dev/null | tr '\\0' '\\n' | grep -c CANARY || true",
      }),
      textStep("done"),
      { status: 401, error: "Incorrect API key provided: canary-key-1" },
    );
    const server = await startServer(t, {
      config: { ...createConfig(modelServer), log: { level: "debug" } },
      projectDir: project.path,
      env: { CANARY: "canary-env-1" },
    });
    const firstRun = await postRun(server, { message: "env" });
    const secondRun = await postRun(server, { message: "again", session_id: firstRun.headers.get("x-session-id") });
    assert.equal(secondRun.status, 500);
    assert.match(secondRun.body.error ?? "", /^lab: 401: /);
    const sessions = await (await server.fetch("/api/sessions")).text();
    const messages = await (
      await server.fetch(`/api/sessions/${firstRun.headers.get("x-session-id")}/messages`)
    ).text();
    await server.stop();
    const allText = [JSON.stringify(secondRun.body), sessions, messages, server.stdout, server.stderr].join("\n");
    assert.ok(!allText.includes("canary-key-1"), "the output does not contain the API key");
    assert.ok(!allText.includes("canary-env-1"), "the output does not contain the secret of the environment");
  });
});

describe("a server without an API key", () => {
  it("calls list and read to answer, and explains how to configure a model", async (t) => {
    const server = await startServer(t, {
      files: { "package.json": '{\n  "name": "x",\n  "main": "./lib/entry.js"\n}\n', "lib/entry.js": "" },
    });
    const { status, body, headers } = await postRun(server, {
      message: "Which files are here, and what does package.json say the main entry is?",
    });
    assert.equal(status, 200);
    assert.match(body.output, /package\.json/);
    assert.match(body.output, /\.\/lib\/entry\.js/);
    assert.match(body.output, /no (language )?model/i);
    assert.match(body.output, /OPENAI_API_KEY/);
    assert.equal(headers.get("x-model"), "offline/guide");
    const { messages } = (await (
      await server.fetch(`/api/sessions/${headers.get("x-session-id")}/messages`)
    ).json()) as { messages: { role: string; name: string }[] };
    assert.deepEqual(
      new Set(messages.filter(({ role }) => role === "tool").map(({ name }) => name)),
      new Set(["list", "read"]),
    );
  });
});
