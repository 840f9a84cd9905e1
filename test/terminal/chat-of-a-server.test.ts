import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { describe, it } from "node:test";
import { GantryClient } from "gantry/client";
import { callStep, textStep } from "../helpers/fake-model-server.js";
import { startModelServer, createServerConfig, pause } from "../helpers/server-runs.js";
import { NO_TMUX, openPane } from "../helpers/terminal-pane.js";
import { runGantry, startServer } from "../helpers/server.js";

const PROMPT_READY = /Type a prompt/;
/** Shown when a question accepts keys, which needs a short time without keys. */
const READY_TO_ANSWER = /choose.*Enter answers/;

describe("gantry chat without a terminal", () => {
  it("exits with 2 and one line that names gantry run", async (t) => {
    const { code, stdout, stderr } = await runGantry(t, ["chat"]);
    assert.equal(code, 2);
    assert.equal(stdout, "");
    assert.match(stderr, /^gantry: chat needs a terminal; .*gantry run "prompt".*\n$/);
  });
});

describe("gantry chat --url without a server", { skip: NO_TMUX }, () => {
  it("exits with 1 and one line with the address and what to check, also with --any-user", async (t) => {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    await new Promise((resolve) => server.close(resolve));
    for (const flags of [[], ["--any-user"]]) {
      const pane = await openPane(t, { args: ["chat", "--url", `http://127.0.0.1:${port}`, ...flags], columns: 200 });
      const { code, screen } = await pane.waitForExit();
      assert.equal(code, 1);
      assert.match(
        screen,
        /gantry: no server at http:\/\/127\.0\.0\.1:\d+ \(ECONNREFUSED\): run gantry serve .*, or check the host and port of --url/,
      );
    }
  });
});

describe("two terminals of one server", { skip: NO_TMUX }, () => {
  it("share a session: an answer in one closes the question in both, and both reconnect after a restart", async (t) => {
    const modelServer = await startModelServer(t);
    const requiredHeaders = { "X-Key": "of the door" };
    const config = createServerConfig(modelServer, {
      server: { required_headers: requiredHeaders },
      permissions: { mode: "ask" },
    });
    const server = await startServer(t, { config });
    modelServer.enqueue(callStep("bash", { command: "echo it was allowed" }), textStep("Both see this."));
    const firstPane = await openPane(t, { args: ["chat", "--url", server.url, "--header", "X-Key: of the door"] });
    await firstPane.waitForScreen(PROMPT_READY);
    await firstPane.type("Do it");
    await firstPane.sendKeys("Enter");
    await firstPane.waitForScreen(/Allow\? /);
    const { sessions } = (await (await server.fetch("/api/sessions", { headers: requiredHeaders })).json()) as {
      sessions: { id: string }[];
    };
    const secondPane = await openPane(t, {
      args: ["chat", "--url", server.url, "--session", sessions[0]?.id ?? ""],
      home: server.home,
    });
    await secondPane.waitForScreen((screen) => /Allow\? /.test(screen) && READY_TO_ANSWER.test(screen));
    await secondPane.sendKeys("1", "Enter");
    for (const pane of [firstPane, secondPane])
      await pane.waitForScreen((screen) => /Both see this\./.test(screen) && !/Allow\? /.test(screen));
    // Time: an Enter within 300 ms of an answer belongs to that answer.
    await pause(400);
    await secondPane.type("Third");
    modelServer.enqueue(textStep("To both."));
    await secondPane.sendKeys("Enter");
    await firstPane.waitForScreen(/❯ Third[^]*To both\./);
    // A server's run continues without its terminals. Terminals report a lost server and reconnect.
    await server.stop("SIGKILL");
    await firstPane.waitForScreen(/connection lost/);
    const restartedServer = await startServer(t, {
      home: server.home,
      projectDir: server.projectDir,
      args: ["serve", "--port", new URL(server.url).port],
    });
    modelServer.enqueue(textStep("I am back."));
    await firstPane.waitForScreen((screen) => !/connection lost/.test(screen));
    await firstPane.type("Hello again");
    await firstPane.sendKeys("Enter");
    for (const pane of [firstPane, secondPane]) await pane.waitForScreen(/I am back\./);
    await restartedServer.stop();
  });

  it("report questions of another session, and can open that session and answer", async (t) => {
    const modelServer = await startModelServer(t);
    const config = createServerConfig(modelServer, { permissions: { mode: "ask", client_grace: 0 } });
    const server = await startServer(t, { config });
    // A terminal answers with the token of its home.
    const pane = await openPane(t, { args: ["chat", "--url", server.url], columns: 110, home: server.home });
    await pane.waitForScreen(PROMPT_READY);
    const client = new GantryClient({ url: server.url });
    // The first question waits for this client.
    modelServer.enqueue(callStep("bash", { command: "echo first" }));
    const { session_id: firstSessionId } = await client.start({ message: "Do it", can_answer: true });
    const sessionWatch = client.sessions.watch(firstSessionId, { canAnswer: true });
    await sessionWatch.next();
    await pane.waitForScreen(/Another session asks: [^]*echo first/);
    await sessionWatch.return();
    // The second question waits for the terminal, which has polled the questions.
    modelServer.enqueue(callStep("bash", { command: "echo second" }), textStep("Done elsewhere."));
    const { session_id: secondSessionId } = await client.start({ message: "Do it" });
    await pane.waitForScreen(/Another session asks: [^]*Another session asks: [^]*echo second/);
    await pane.type(`/sessions ${secondSessionId}`);
    await pane.sendKeys("Enter");
    await pane.waitForScreen((screen) => /Allow\? /.test(screen) && READY_TO_ANSWER.test(screen));
    await pane.sendKeys("1", "Enter");
    await pane.waitForScreen(/Done elsewhere\./);
  });

  it("show an unread steer message, and return it to the prompt when the run is stopped", async (t) => {
    const modelServer = await startModelServer(t);
    const server = await startServer(t, { config: createServerConfig(modelServer) });
    const pane = await openPane(t, { args: ["chat", "--url", server.url] });
    await pane.waitForScreen(PROMPT_READY);
    modelServer.enqueue({ say: [{ text: "Working. " }, { gate: "stopped" }, { text: "Worked." }] });
    await pane.type("Work");
    await pane.sendKeys("Enter");
    await pane.waitForScreen(/Working\./);
    await pane.type("Only in lib");
    await pane.sendKeys("Enter");
    await pane.waitForScreen((screen) => /not read yet: Only in lib/.test(screen) && !/❯ Only in lib/.test(screen));
    await pane.type("And then");
    await pane.sendKeys("C-c");
    const screen = await pane.waitForScreen(
      (content) => /Stopped\./.test(content) && /❯ Only in lib\n {2}And then/.test(content),
    );
    assert.doesNotMatch(screen, /not read yet/);
    assert.match(screen, /The run did not read your last message/);
    modelServer.openGate("stopped");
  });
});
