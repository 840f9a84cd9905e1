import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { GantryClient } from "gantry/client";
import { call, say } from "../helpers/fake-model-server.js";
import { lab, labConfig, pause } from "../helpers/lab.js";
import { NO_TMUX, openPane } from "../helpers/pane.js";
import { runGantry, startServer } from "../helpers/server.js";

const READY = /Type a prompt/;
/** A question accepts keys after the keyboard was quiet for a moment. */
const READY_TO_ANSWER = /choose.*Enter answers/;

describe("gantry chat without a terminal", () => {
  it("exits with 2 and one line that names gantry run", async (t) => {
    const { code, stdout, stderr } = await runGantry(t, ["chat"]);
    assert.equal(code, 2);
    assert.equal(stdout, "");
    assert.match(stderr, /^gantry: chat needs a terminal; .*gantry run "prompt".*\n$/);
  });
});

describe("two terminals of one server", { skip: NO_TMUX }, () => {
  it("share a session: an answer in one closes the question in both, and both reconnect after a restart", async (t) => {
    const models = await lab(t);
    const required = { "X-Key": "of the door" };
    const config = labConfig(models, { server: { required_headers: required }, permissions: { mode: "ask" } });
    const server = await startServer(t, { config });
    models.enqueue(call("bash", { command: "echo it was allowed" }), say("Both see this."));
    const first = await openPane(t, { args: ["chat", "--url", server.url, "--header", "X-Key: of the door"] });
    await first.until(READY);
    await first.type("Do it");
    await first.keys("Enter");
    await first.until(/Allow\? /);
    const { sessions } = (await (await server.fetch("/api/sessions", { headers: required })).json()) as {
      sessions: { id: string }[];
    };
    const second = await openPane(t, {
      args: ["chat", "--url", server.url, "--session", sessions[0]?.id ?? ""],
      home: server.home,
    });
    await second.until((screen) => /Allow\? /.test(screen) && READY_TO_ANSWER.test(screen));
    await second.keys("1", "Enter");
    for (const pane of [first, second])
      await pane.until((screen) => /Both see this\./.test(screen) && !/Allow\? /.test(screen));
    // Time: an Enter within 300 ms of an answer belongs to that answer.
    await pause(400);
    await second.type("Third");
    models.enqueue(say("To both."));
    await second.keys("Enter");
    await first.until(/❯ Third[^]*To both\./);
    // A server's run continues without its terminals. Terminals report a lost server and reconnect.
    await server.stop("SIGKILL");
    await first.until(/connection lost/);
    const again = await startServer(t, {
      home: server.home,
      projectDir: server.projectDir,
      args: ["serve", "--port", new URL(server.url).port],
    });
    models.enqueue(say("I am back."));
    await first.until((screen) => !/connection lost/.test(screen));
    await first.type("Hello again");
    await first.keys("Enter");
    for (const pane of [first, second]) await pane.until(/I am back\./);
    await again.stop();
  });

  it("report questions of another session, and can open that session and answer", async (t) => {
    const models = await lab(t);
    const config = labConfig(models, { permissions: { mode: "ask", client_grace: 0 } });
    const server = await startServer(t, { config });
    // A terminal answers with the token of its home.
    const pane = await openPane(t, { args: ["chat", "--url", server.url], columns: 110, home: server.home });
    await pane.until(READY);
    const client = new GantryClient({ url: server.url });
    // The first question waits for this client.
    models.enqueue(call("bash", { command: "echo first" }));
    const { session_id: first } = await client.start({ message: "Do it", can_answer: true });
    const watch = client.sessions.watch(first, { canAnswer: true });
    await watch.next();
    await pane.until(/Another session asks: [^]*echo first/);
    await watch.return();
    // The second question waits for the terminal, which has polled the questions.
    models.enqueue(call("bash", { command: "echo second" }), say("Done elsewhere."));
    const { session_id: second } = await client.start({ message: "Do it" });
    await pane.until(/Another session asks: [^]*Another session asks: [^]*echo second/);
    await pane.type(`/sessions ${second}`);
    await pane.keys("Enter");
    await pane.until((screen) => /Allow\? /.test(screen) && READY_TO_ANSWER.test(screen));
    await pane.keys("1", "Enter");
    await pane.until(/Done elsewhere\./);
  });

  it("show an unread steer message, and return it to the prompt when the run is stopped", async (t) => {
    const models = await lab(t);
    const server = await startServer(t, { config: labConfig(models) });
    const pane = await openPane(t, { args: ["chat", "--url", server.url] });
    await pane.until(READY);
    models.enqueue({ say: [{ text: "Working. " }, { gate: "stopped" }, { text: "Worked." }] });
    await pane.type("Work");
    await pane.keys("Enter");
    await pane.until(/Working\./);
    await pane.type("Only in lib");
    await pane.keys("Enter");
    await pane.until((screen) => /not read yet: Only in lib/.test(screen) && !/❯ Only in lib/.test(screen));
    await pane.type("And then");
    await pane.keys("C-c");
    const screen = await pane.until((seen) => /Stopped\./.test(seen) && /❯ Only in lib\n {2}And then/.test(seen));
    assert.doesNotMatch(screen, /not read yet/);
    assert.match(screen, /The run did not read your last message/);
    models.open("stopped");
  });
});
