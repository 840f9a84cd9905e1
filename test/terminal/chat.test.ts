import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { call, say } from "../helpers/fake-model-server.js";
import { lab, labConfig, pause } from "../helpers/lab.js";
import { NO_TMUX, openPane } from "../helpers/pane.js";
import { runGantry, startServer } from "../helpers/server.js";

const READY = /Ask something/;
/** A question takes keys once the keyboard was quiet for a while. */
const READY_TO_ANSWER = /choose.*Enter answers/;

describe("a terminal with an agent of its own", { skip: NO_TMUX }, () => {
  it("shows a run with its tools, outputs and diffs, and gives the screen back", async (t) => {
    const models = await lab(t);
    const pane = await openPane(t, {
      config: labConfig(models),
      files: { "lib/index.js": "export const answer = 41;\n", "old.txt": "before\n" },
      args: [],
    });
    models.enqueue(
      call("bash", { command: "echo from the shell" }),
      call("read", { filePath: "lib/index.js" }),
      call("edit", { filePath: "lib/index.js", oldString: "41", newString: "42" }),
      say("# Done\nThe answer is **42** in `lib/index.js`."),
    );
    await pane.until(READY);
    assert.equal(await pane.knows("#{alternate_on}"), "1");
    await pane.type("Correct the answer");
    await pane.keys("Enter");
    const screen = await pane.until(/The answer is 42 in lib\/index\.js\./);
    assert.match(screen, /❯ Correct the answer/);
    assert.match(screen, /● bash echo from the shell\n +from the shell/);
    assert.match(screen, /● read lib\/index\.js/);
    assert.match(screen, /● edit lib\/index\.js/);
    assert.match(screen, /\+1 -1\n +- export const answer = 41;\n +\+ export const answer = 42;/);
    await pane.until(/auto · lab\/m1 · .* tokens.* A title/);
    await pane.keys("C-d");
    const { code, screen: after } = await pane.ended();
    assert.equal(code, 0);
    assert.match(after, /go on with: gantry chat --session [0-9a-f-]{36}/);
    assert.equal(await pane.knows("#{alternate_on} #{cursor_flag} #{mouse_any_flag}"), "0 1 0");
  });

  it("completes the project's commands and says them, as they were typed", async (t) => {
    const models = await lab(t);
    const pane = await openPane(t, {
      config: labConfig(models),
      files: {
        ".agents/commands/review.md": "---\ndescription: Look at a file\nargument-hint: FILE\n---\nReview $1 now.",
      },
      args: [],
    });
    models.enqueue(say("Reviewed."));
    await pane.until(READY);
    await pane.type("/rev");
    await pane.until(/\/review +Look at a file FILE/);
    await pane.keys("Tab");
    await pane.type("a.ts");
    await pane.keys("Enter");
    assert.match(await pane.until(/Reviewed\./), /❯ \/review a\.ts/);
    assert.match(JSON.stringify(models.requests.map(({ body }) => body)), /Review a\.ts now\./);
    await pane.keys("C-d");
    await pane.ended();
  });

  it("asks before it writes, with the diff, and is answered by nothing that was typed before", async (t) => {
    const models = await lab(t);
    const pane = await openPane(t, { config: labConfig(models), args: ["chat", "--mode", "ask"] });
    models.enqueue(
      call("write", { filePath: "new.txt", content: "one\ntwo\n" }),
      call("write", { filePath: "never.txt", content: "no\n" }),
      say("Ended."),
    );
    await pane.until(READY);
    await pane.type("Write it");
    // The second one comes before anything is asked, or just then.
    await pane.keys("Enter", "Enter");
    const asked = await pane.until(/May it\? .*new\.txt/);
    assert.match(asked, /new file .*new\.txt \+2 -0\n +\+ one\n +\+ two/);
    await pane.keys("Enter");
    await pane.until(READY_TO_ANSWER);
    await pane.keys("1");
    await pane.until(/❯ 1 Allow/);
    await pane.keys("Enter");
    await pane.until((screen) => /May it\? .*never\.txt/.test(screen) && READY_TO_ANSWER.test(screen));
    assert.equal(await readFile(`${pane.projectDir}/new.txt`, "utf8"), "one\ntwo\n");
    await pane.keys("Up");
    await pane.until(/❯ \d Reject/);
    await pane.keys("Enter");
    await pane.until(/Ended\./);
    await assert.rejects(readFile(`${pane.projectDir}/never.txt`));
    await pane.keys("C-c", "C-c");
    assert.equal((await pane.ended()).code, 0);
  });

  it("answers a question by choice and by text", async (t) => {
    const models = await lab(t);
    const pane = await openPane(t, { config: labConfig(models) });
    models.enqueue(
      call("ask_user", { question: "Which colour?", choices: ["red", "blue"] }),
      call("ask_user", { question: "Which shade?", choices: ["dark"], free_text: true }),
      say("Thanks."),
    );
    await pane.until(READY);
    await pane.type("Ask me");
    await pane.keys("Enter");
    await pane.until((screen) => /\? Which colour\?/.test(screen) && READY_TO_ANSWER.test(screen));
    await pane.keys("Down", "Down");
    await pane.until(/❯ 2 blue/);
    await pane.keys("Enter");
    await pane.until((screen) => /\? Which shade\?/.test(screen) && /type an answer/.test(screen));
    await pane.type("like the sky");
    await pane.until(/> like the sky/);
    await pane.keys("Enter");
    await pane.until(/Thanks\./);
    const last = JSON.stringify(models.requests.at(-1));
    assert.match(last, /blue/);
    assert.match(last, /like the sky/);
  });

  it("stops a run with Ctrl+C, goes on, and leaves with two", async (t) => {
    const models = await lab(t);
    const pane = await openPane(t, { config: labConfig(models) });
    models.enqueue({ say: [{ text: "I begin" }, { stall: true }] }, say("Again here."));
    await pane.until(READY);
    await pane.type("Take your time");
    await pane.keys("Enter");
    await pane.until(/I begin/);
    await pane.keys("C-c");
    await pane.until(/Stopped\./);
    await pane.type("And now");
    await pane.keys("Enter");
    await pane.until(/Again here\./);
    await pane.keys("C-c");
    await pane.until(/Ctrl\+C again leaves/);
    await pane.keys("C-c");
    assert.equal((await pane.ended()).code, 0);
  });

  it("takes many pasted lines as one prompt, and brings back what was said", async (t) => {
    const models = await lab(t, { fallback: say("Taken.") });
    const pane = await openPane(t, { config: labConfig(models) });
    await pane.until(READY);
    const text = Array.from({ length: 40 }, (_, i) => `line ${i} äöü 漢字 👩‍👩‍👧`).join("\n");
    await pane.paste(text);
    await pane.until(/line 39/);
    assert.equal(models.requests.length, 0);
    await pane.keys("Enter");
    await pane.until(/Taken\./);
    const [request] = models.requests.filter(({ tools }) => tools.length > 0);
    assert.ok(JSON.stringify(request?.body).includes(JSON.stringify(text).slice(1, -1)));
    await pane.type("second");
    await pane.keys("M-Enter");
    await pane.type("row");
    await pane.until(/❯ second\n {2}row/);
    await pane.keys("Enter");
    await pane.until((screen) => (screen.match(/Taken\./g) ?? []).length === 2);
    await pane.keys("Up");
    await pane.until((screen) => /❯ second\n {2}row\n/.test(screen.slice(screen.lastIndexOf("───"))));
  });

  it("names files with @, without those that are ignored, and attaches them", async (t) => {
    const models = await lab(t, { fallback: say("Read.") });
    const pane = await openPane(t, {
      config: labConfig(models),
      files: { ".gitignore": "secret*\n", "secret-notes.txt": "no", "notes of mine.txt": "the content of it" },
    });
    await pane.until(READY);
    await pane.type("See @not");
    const proposed = await pane.until(/@notes\\ of\\ mine\.txt/);
    assert.doesNotMatch(proposed, /secret/);
    await pane.keys("Tab");
    await pane.until(/❯ See @notes\\ of\\ mine\.txt/);
    await pane.keys("Enter");
    await pane.until(/Read\./);
    assert.match(JSON.stringify(models.requests[0]?.body), /the content of it/);
  });

  it("does what commands say, and says what there is none for", async (t) => {
    const models = await lab(t, { fallback: say("Yes.") });
    const config = labConfig(models);
    (config.providers as { models: unknown }[])[0]!.models = [{ id: "m1" }, { id: "m2" }];
    const pane = await openPane(t, { config });
    const command = async (line: string, then: RegExp) => {
      await pane.type(line);
      await pane.keys("Enter");
      await pane.until(then);
    };
    await pane.until(READY);
    await pane.type("/mo");
    await pane.until(/\/model +choose the model\n.*\/mode/);
    await pane.keys("C-u");
    await command("/model m2", /From now on lab\/m2 answers/);
    await command("/mode plan", /The mode is plan/);
    await command("Hello", /Yes\./);
    await pane.until(/plan · lab\/m2/);
    await command("/title A name of mine", /lab\/m2.* · A name of mine/);
    await command("/cost", /this session +\d+.* in, \d+ out/);
    const close = async () => {
      await pane.keys("Escape");
      await pane.until((screen) => !/Esc closes/.test(screen));
    };
    await close();
    await command("/compact", /too little here to be summed up/);
    await command("/nonsense", /no command \/nonsense/);
    await command("/help", /Keys and commands/);
    await close();
    await command("/new", READY);
    await command("/sessions", /❯ +A name of mine/);
    await pane.keys("C-d");
    await pane.until(/Delete the session "A name of mine"\?/);
    await pane.keys("n");
    // What comes with it in one piece is an answer of more than one letter.
    await pane.until((screen) => !/Delete the session/.test(screen));
    await command("/sessions", /❯ +A name of mine/);
    await pane.keys("C-d");
    await pane.until(/Delete the session/);
    await pane.keys("y");
    await pane.until(/no session yet/);
    await close();
    await command("/quit", /ended 0/);
  });

  it("has what was said summed up, as /compact asks, and shows it all as before", async (t) => {
    // Notes are asked for as titles are.
    const models = await lab(t, { aside: say("NOTES") });
    const pane = await openPane(t, { config: labConfig(models) });
    models.enqueue(say("A long answer. ".repeat(200)), say("And its end."), say("On it."));
    await pane.until(READY);
    for (const [typed, then] of [
      ["Tell me", /long answer/],
      ["More", /And its end\./],
      ["/compact the name of the river", /Its model sees \d+ messages now/],
      ["Row on", /On it\./],
    ] as const) {
      await pane.type(typed);
      await pane.keys("Enter");
      await pane.until(then);
    }
    const sent = models.requests.map(({ body }) => JSON.stringify(body));
    assert.equal(sent.filter((body) => /kept above all: the name of the river/.test(body)).length, 1);
    const next = sent.find((body) => body.includes("Row on"));
    assert.match(next ?? "", /Summary of the earlier conversation[^"]*NOTES/);
    assert.doesNotMatch(next ?? "", /(A long answer. ){200}/);
    assert.match(await pane.until(/❯ Row on/), /And its end\./);
  });

  it("needs no colour where none is wanted, and a few columns are enough", async (t) => {
    const models = await lab(t, { fallback: say("A **bold** answer of some words, and `code` 漢字漢字漢字漢字漢字.") });
    const pane = await openPane(t, { config: labConfig(models), env: { NO_COLOR: "1" }, columns: 20, rows: 12 });
    await pane.until(/something/);
    await pane.type("Say it");
    await pane.keys("Enter");
    const screen = await pane.until(/words/, "-e");
    // eslint-disable-next-line no-control-regex -- colours are what is looked for
    assert.doesNotMatch(screen, /\u001b\[[\d;]*(3[0-7]|9[0-7])m/);
    for (const [columns, rows] of [
      [300, 50],
      [8, 5],
      [1, 2],
      [60, 20],
    ] as const)
      await pane.resize(columns, rows);
    await pane.until(/A bold answer of some words, and code\s+漢字漢字漢字漢字漢字\./);
    await pane.until((now) => now.split("\n").filter((row) => /^─+$/.test(row)).length === 1);
  });

  it("gives the screen back when it is told to end, and when something breaks", async (t) => {
    const breaks = "process.on('SIGUSR2', () => { throw new Error('something broke'); })";
    for (const [signal, code, said] of [
      ["SIGTERM", 0, /./],
      ["SIGHUP", 0, /./],
      ["SIGUSR2", 1, /gantry: .*something broke/],
    ] as const) {
      const pane = await openPane(t, {
        config: labConfig(await lab(t)),
        env: { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(breaks)}` },
        shell: `sh -c 'echo $$ > pid; exec "$@"' gantry "$@"`,
        args: ["chat"],
      });
      await pane.until(READY);
      process.kill(Number(await readFile(`${pane.projectDir}/pid`, "utf8")), signal);
      const { code: ended, screen } = await pane.ended();
      assert.equal(ended, code, signal);
      assert.match(screen, said);
      assert.equal(await pane.knows("#{alternate_on} #{cursor_flag} #{mouse_any_flag}"), "0 1 0");
    }
  });
});

describe("no terminal", () => {
  it("is told in one line what to use instead", async (t) => {
    const { code, stdout, stderr } = await runGantry(t, ["chat"]);
    assert.equal(code, 2);
    assert.equal(stdout, "");
    assert.match(stderr, /^gantry: chat needs a terminal; .*gantry run "prompt".*\n$/);
  });
});

describe("terminals of one server", { skip: NO_TMUX }, () => {
  it("have one session before them, and the first answer counts", async (t) => {
    const models = await lab(t);
    const required = { "X-Key": "of the door" };
    const config = labConfig(models, { server: { required_headers: required }, permissions: { mode: "ask" } });
    const server = await startServer(t, { config });
    models.enqueue(call("bash", { command: "echo it was allowed" }), say("Both see this."));
    const one = await openPane(t, { args: ["chat", "--url", server.url, "--header", "X-Key: of the door"] });
    await one.until(READY);
    await one.type("Do it");
    await one.keys("Enter");
    await one.until(/May it\? /);
    const { sessions } = (await (await server.fetch("/api/sessions", { headers: required })).json()) as {
      sessions: { id: string }[];
    };
    const two = await openPane(t, {
      args: ["chat", "--url", server.url, "--session", sessions[0]?.id ?? ""],
      home: server.home,
    });
    await two.until((screen) => /May it\? /.test(screen) && READY_TO_ANSWER.test(screen));
    await two.keys("1", "Enter");
    for (const pane of [one, two])
      await pane.until((screen) => /Both see this\./.test(screen) && !/May it/.test(screen));
    // Nobody writes and sends a prompt so soon behind an answer: an Enter then was meant for that.
    await pause(400);
    await two.type("Third");
    models.enqueue(say("To both."));
    await two.keys("Enter");
    await one.until(/❯ Third[^]*To both\./);
    // A run of a server goes on without its terminals; a server that went away is told, and found again.
    await server.stop("SIGKILL");
    await one.until(/connection lost/);
    const again = await startServer(t, {
      home: server.home,
      projectDir: server.projectDir,
      args: ["serve", "--port", new URL(server.url).port],
    });
    models.enqueue(say("I am back."));
    await one.until((screen) => !/connection lost/.test(screen));
    await one.type("Hello again");
    await one.keys("Enter");
    for (const pane of [one, two]) await pane.until(/I am back\./);
    await again.stop();
  });
});
