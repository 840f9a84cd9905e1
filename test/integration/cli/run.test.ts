import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { describe, it, type TestContext } from "node:test";
import { call, fail, say, type FakeModelServer } from "../../helpers/fake-model-server.js";
import { lab, labConfig, processes, uniqueSeconds, until } from "../../helpers/lab.js";
import { FULL, runGantry, spawnGantry } from "../../helpers/server.js";
import { makeTempDir, tempDir } from "../../helpers/temp.js";

const DISK = process.platform === "linux" ? false : "needs /dev/full";

/** Context window and price are known, so that a run prints no warning about the model. */
const MODEL = { id: "m1", context_window: 100_000, cost: { input: 1, output: 1 } };

/** `gantry run` with a model that sends the queued answers, always with the same home and project folder. */
async function bench(t: TestContext, settings: Record<string, unknown> = {}, models?: FakeModelServer) {
  const fake = models ?? (await lab(t));
  const home = await tempDir(t);
  const project = await tempDir(t);
  const [providerConfig] = labConfig(fake)["providers"] as [Record<string, unknown>];
  const config = { providers: [{ ...providerConfig, models: [MODEL] }], ...settings };
  const options = { home: home.path, projectDir: project.path, config };
  return {
    fake,
    project,
    options,
    run: (args: readonly string[], input?: string) =>
      runGantry(t, ["run", ...args], { ...options, ...(input === undefined ? {} : { input }) }),
    gantry: (...args: string[]) => runGantry(t, args, options),
  };
}

/** Text of the last user message that the model received. */
function lastUserText(fake: FakeModelServer, at = 0): string {
  const { messages } = fake.requests.filter(({ tools }) => tools.length > 0)[at]?.body as {
    messages: { role: string; content: unknown }[];
  };
  const { content } = messages.filter(({ role }) => role === "user").at(-1) ?? {};
  return typeof content === "string" ? content : JSON.stringify(content);
}

describe("gantry run", () => {
  it("prints the answer on stdout and progress on stderr, and only the answer with --quiet", async (t) => {
    const { fake, run, project } = await bench(t);
    await project.write({ "a.txt": "alpha\n" });
    fake.enqueue(
      { say: [{ text: "I look." }, { call: { name: "read", arguments: { path: "a.txt" } } }] },
      say("It says alpha."),
    );
    const done = await run(["What", "is in a.txt?"]);
    assert.deepEqual([done.code, done.stdout], [0, "I look.\n\nIt says alpha.\n"]);
    assert.match(done.stderr, /^session \S+ with lab\/m1\n> Read a\.txt\n2 turns, [\d,]+ tokens, \$[\d.]+\n$/);
    assert.equal(lastUserText(fake), "What is in a.txt?");
    assert.ok(!(done.stderr + done.stdout).includes("\u001b"), "no colours where there is no terminal");
    fake.enqueue(say("Quiet."));
    const quiet = await run(["--quiet", "x"]);
    assert.deepEqual([quiet.code, quiet.stdout, quiet.stderr], [0, "Quiet.\n", ""]);
  });

  it("prints the tool calls of a subagent indented below its task call", async (t) => {
    const { fake, options, project } = await bench(t);
    await project.write({ "a.txt": "alpha\n" });
    fake.enqueue(
      { say: [{ call: { name: "task", arguments: { description: "Look at a", prompt: "What is in a.txt?" } } }] },
      { say: [{ call: { name: "read", arguments: { path: "a.txt" } } }] },
      { say: [{ gate: "seen" }, { text: "alpha" }] },
      say("It says alpha."),
    );
    const child = await spawnGantry(t, { ...options, args: ["run", "x"] });
    child.child.stdin.end();
    await child.output(/> Task: Look at a\n {2}> Read a\.txt\n/, "stderr");
    fake.open("seen");
    assert.deepEqual([(await child.exited).code, child.stdout], [0, "It says alpha.\n"]);
  });

  it("prints each part of the answer before the next part arrives", async (t) => {
    const { fake, options } = await bench(t);
    fake.enqueue({ say: [{ text: "first " }, { gate: "more" }, { text: "second" }] });
    const child = await spawnGantry(t, { ...options, args: ["run", "x"] });
    child.child.stdin.end();
    await child.output(/^first $/);
    fake.open("more");
    assert.deepEqual([(await child.exited).code, child.stdout], [0, "first second\n"]);
  });

  it("reports that no language model is configured, even with --quiet", async (t) => {
    const home = await tempDir(t);
    const done = await runGantry(t, ["run", "--quiet", "hi"], { home: home.path });
    assert.deepEqual(
      [done.code, done.stderr],
      [0, "gantry: no language model configured; the offline guide answers (see gantry models)\n"],
    );
  });

  it("reads the prompt from arguments, standard input, or both", async (t) => {
    const { fake, run } = await bench(t);
    for (const [args, input, prompt] of [
      [["from", "arguments"], "", "from arguments"],
      [[], "from stdin\n", "from stdin"],
      [["Sum this up:"], "a\nb\n", "Sum this up:\n\na\nb"],
      [["--", "--json", "-h"], "", "--json -h"],
    ] as const) {
      const at = fake.requests.filter(({ tools }) => tools.length > 0).length;
      assert.equal((await run(args, input)).code, 0);
      assert.equal(lastUserText(fake, at), prompt);
    }
  });

  it("expands slash commands in arguments, but not in standard input", async (t) => {
    const { fake, project, run } = await bench(t);
    await project.write({ ".agents/commands/look.md": "Look at: $ARGUMENTS" });
    for (const [args, input, prompt] of [
      [["/look", "src"], "", "Look at: src"],
      [["/look"], "/look a\n", "Look at: /look a"],
      [[], "/look at me\n", "/look at me"],
      [["-"], "/compact\n", "/compact"],
      [["/"], "look\n", "/\n\nlook"],
      [["Sum this up:"], "/compact\n", "Sum this up:\n\n/compact"],
    ] as const) {
      const at = fake.requests.filter(({ tools }) => tools.length > 0).length;
      assert.equal((await run(args, input)).code, 0);
      assert.equal(lastUserText(fake, at), prompt);
    }
  });

  it("prints one JSON event per line with --json, and the result last, also after a failure", async (t) => {
    const { fake, run } = await bench(t);
    fake.enqueue(call("list", {}), say("Done."));
    const done = await run(["--json", "x"]);
    const lines = done.stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    assert.deepEqual(
      [...new Set(lines.map(({ type }) => type))],
      ["begin", "tool_call", "tool_result", "token", "result"],
    );
    const { usage, context, sessionUsage, ...result } = lines.at(-1) ?? {};
    assert.ok(usage && context && sessionUsage);
    const { runId, sessionId } = lines[0] ?? {};
    assert.deepEqual(result, {
      type: "result",
      exitCode: 0,
      state: "finished",
      runId,
      sessionId,
      provider: "lab",
      model: "m1",
      output: "Done.",
      iterations: 2,
      finishReason: "stop",
      endedBy: "model",
    });
    fake.enqueue(fail(401, "no such key"));
    const failed = await run(["--json", "x"]);
    const last = JSON.parse(failed.stdout.trimEnd().split("\n").at(-1) ?? "") as Record<string, unknown>;
    assert.equal(failed.code, 1);
    assert.deepEqual([last["type"], last["exitCode"], last["state"]], ["result", 1, "failed"]);
    assert.equal((last["error"] as { code: string }).code, "provider");
    const wrong = await run(["--json"], " ");
    assert.equal(wrong.code, 2);
    assert.match(wrong.stdout, /^\{"type":"result","exitCode":2,"state":"failed","error":\{"code":"usage"/);
  });

  it("continues the session of --session, and the last used session of the folder with --continue", async (t) => {
    const { fake, run, options } = await bench(t);
    const none = await run(["--continue", "x"]);
    assert.deepEqual([none.code, none.stderr], [2, "gantry: --continue: this folder has no session yet\n"]);
    const sessionIdOf = async (...args: string[]) => {
      const { stdout } = await run([...args, "--json"]);
      return (JSON.parse(stdout.split("\n")[0] ?? "") as { sessionId: string }).sessionId;
    };
    const first = await sessionIdOf("one");
    const second = await sessionIdOf("two");
    assert.notEqual(first, second);
    await using elsewhere = await makeTempDir();
    await runGantry(t, ["run", "elsewhere"], { ...options, projectDir: elsewhere.path });
    assert.equal(await sessionIdOf("--continue", "three"), second);
    assert.equal(await sessionIdOf("--session", first, "four"), first);
    assert.equal(await sessionIdOf("--continue", "five"), first);
    assert.equal(lastUserText(fake, 5), "five");
    const unknown = await run(["--session", "nowhere", "x"]);
    assert.deepEqual([unknown.code, unknown.stderr], [2, "gantry: --session nowhere: session not found\n"]);
    const both = await run(["--session", first, "--continue", "x"]);
    assert.deepEqual([both.code, both.stderr], [2, "gantry: --session and --continue: expected one of them\n"]);
  });

  it("uses the model of --model and the reasoning effort of --effort", async (t) => {
    const fake = await lab(t, { models: ["m1", "maker/m2"] });
    const providerConfigs = labConfig(fake)["providers"] as Record<string, unknown>[];
    const models = [{ id: "m1" }, { id: "maker/m2", reasoning: true }];
    const { run } = await bench(t, { providers: [{ ...providerConfigs[0], models }] }, fake);
    for (const [name, model] of [
      ["lab/m1", "m1"],
      ["m1", "m1"],
      ["maker/m2", "maker/m2"],
      ["lab/maker/m2", "maker/m2"],
    ] as const) {
      const { stdout } = await run(["--json", "--model", name, "--effort", "high", "x"]);
      assert.equal((JSON.parse(stdout.split("\n")[0] ?? "") as { model: string }).model, model);
      const { body } = fake.requests.filter(({ tools }) => tools.length > 0).at(-1) ?? {};
      if (model !== "m1") assert.equal((body as Record<string, unknown>)["reasoning_effort"], "high");
    }
  });

  it("rejects an unknown --model with exit code 2 and sends no model request", async (t) => {
    const { fake, run, gantry } = await bench(t);
    for (const [name, near] of [
      ["lab/m2", "; did you mean lab/m1?"],
      ["lob/m1", "; did you mean lab/m1?"],
      ["m2", "; did you mean m1?"],
      ["cheap-and-strong", ""],
      ["lab/cheap-and-strong", ""],
    ] as const) {
      const { code, stdout, stderr } = await run(["--quiet", "--model", name, "x"]);
      const expectedError = `gantry: --model ${name}: unknown model${near} (see gantry models)\n`;
      assert.deepEqual([code, stdout, stderr], [2, "", expectedError]);
    }
    for (const name of ["", "lab/"]) {
      const { code, stderr } = await run(["--model", name, "x"]);
      assert.deepEqual([code, stderr], [2, `gantry: --model: expected [PROVIDER/]MODEL, got "${name}"\n`]);
    }
    assert.equal(fake.requests.filter(({ tools }) => tools.length > 0).length, 0);
    assert.equal((await gantry("sessions", "list", "--json")).stdout, "[]\n");
  });

  it("accepts a configured --model that its provider does not list; fails for unlisted models and provider outages", async (t) => {
    const fake = await lab(t, { models: [] });
    const { run } = await bench(t, { ...labConfig(fake), model: { provider: "lab", model: "own" } }, fake);
    for (const name of ["lab/own", "own"]) assert.equal((await run(["--quiet", "--model", name, "x"])).code, 0);
    for (const name of ["lab/other", "other"]) {
      const { code, stderr } = await run(["--quiet", "--model", name, "x"]);
      assert.notEqual(code, 0);
      assert.match(stderr, /other/);
    }
    const away = { name: "away", driver: "openai", base_url: "http://127.0.0.1:9/v1", api_key: "x" };
    const unreachable = await bench(t, { providers: [away] }, fake);
    for (const name of ["away/m1", "m1"]) {
      const { code, stderr } = await unreachable.run(["--quiet", "--model", name, "x"]);
      assert.equal(code, 1, stderr);
      assert.match(stderr, /^gantry: model selection failed: .*away.*\n$/);
    }
  });

  it("attaches the files of --file, and exits with 2 if a file is missing", async (t) => {
    const { fake, run, project } = await bench(t);
    await project.write({ "a.txt": "alpha", "b.txt": "beta" });
    assert.equal((await run(["--file", "a.txt", "--file", project.at("b.txt"), "x"])).code, 0);
    assert.match(lastUserText(fake), /alpha.*beta/s);
    const missing = await run(["--file", "none.txt", "x"]);
    assert.equal(missing.code, 2);
    assert.match(missing.stderr, /^gantry: --file: failed to load attachments: none\.txt: .+\n$/);
    assert.equal(fake.requests.filter(({ tools }) => tools.length > 0).length, 1);
  });

  it("prints only the JSON value with --schema, and rejects invalid answers and invalid schema files", async (t) => {
    const { fake, run, project } = await bench(t);
    await project.write({
      "schema.json": '{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}',
      "wrong.json": "{",
      "list.json": "[]",
      "no-schema.json": '{"type":"nonsense"}',
    });
    fake.enqueue({ say: [{ text: "I count." }, { call: { name: "list", arguments: {} } }] }, say('{"n": 3}'));
    const done = await run(["--schema", "schema.json", "how many?"]);
    assert.deepEqual([done.code, done.stdout], [0, '{"n":3}\n']);
    fake.fallback = say("no number at all");
    const unfit = await run(["--schema", "schema.json", "how many?"]);
    assert.deepEqual([unfit.code, unfit.stdout], [1, ""]);
    assert.match(unfit.stderr, /gantry: the answer does not fit the output schema/);
    for (const file of ["wrong.json", "list.json", "no-schema.json", "none.json"]) {
      const wrong = await run(["--schema", file, "x"]);
      assert.deepEqual([wrong.code, wrong.stdout], [2, ""], wrong.stderr);
      assert.match(wrong.stderr, /^gantry: --schema.*\n$/);
    }
  });
});

describe("exit codes of gantry run", () => {
  it("returns 1 if the provider rejects the request or the config is invalid", async (t) => {
    const { fake, run } = await bench(t);
    fake.enqueue(fail(401, "no such key"));
    const failed = await run(["x"]);
    assert.equal(failed.code, 1);
    assert.match(failed.stderr, /^gantry: lab: 401: .*no such key.*$/m);
    const wrong = await bench(t, { server: { port: "x" } });
    const refused = await wrong.run(["x"]);
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /^gantry: .*config\.json: server\.port: expected/);
  });

  for (const flags of [[], ["--json"], ["--quiet"]])
    it(
      `returns 1 and ends the tools if stdout cannot be written (${flags.join("") || "text"})`,
      { skip: DISK },
      async (t) => {
        const { fake, options, gantry } = await bench(t);
        const seconds = uniqueSeconds();
        const command = `sleep ${seconds}`;
        fake.enqueue({ say: [{ text: "A line.\n" }, { call: { name: "bash", arguments: { command } } }] });
        const full = await runGantry(t, ["run", ...flags, "x"], { ...options, through: FULL, input: "" });
        assert.equal(full.code, 1, full.stderr);
        assert.match(full.stderr, /^gantry: run failed: ENOSPC.*$/m);
        assert.equal(await processes(command), 0);
        const { length } = JSON.parse((await gantry("sessions", "list", "--json")).stdout) as unknown[];
        assert.equal(length, 1);
      },
    );

  it("returns 1 if the value of --schema cannot be written to stdout", { skip: DISK }, async (t) => {
    const { fake, options, project } = await bench(t);
    await project.write({ "schema.json": '{"type":"object"}' });
    fake.fallback = say("{}");
    const args = ["run", "--schema", "schema.json", "x"];
    const full = await runGantry(t, args, { ...options, through: FULL, input: "" });
    assert.equal(full.code, 1);
    assert.match(full.stderr, /^gantry: run failed: ENOSPC.*$/m);
  });

  it("returns 2 for an invalid command line, without a session or a model request", async (t) => {
    const { fake, run, gantry, options } = await bench(t);
    for (const [args, pattern] of [
      [[], /^gantry: expected a prompt/],
      [["--modle", "m", "x"], /unknown flag --modle; did you mean --model\? \(see gantry run --help\)/],
      [["--mode", "free", "x"], /--mode: expected one of auto, ask, plan, got "free"/],
      [["--budget", "much", "x"], /--budget: expected a number, got "much"/],
      [["--budget", "-1", "x"], /--budget: expected a number that is not below 0, got "-1"/],
      [["--budget", "0", "x"], /--budget: expected a number above 0/],
      [["--budget-tokens", "1.5", "x"], /--budget-tokens: expected a whole number above 0/],
      [["--max-iterations", "0", "x"], /--max-iterations: expected a whole number, at least 1/],
      [["--session"], /--session needs a value/],
      [["--port", "1", "x"], /unknown flag --port of gantry run: it belongs to gantry serve/],
      [["- fix this"], /put a prompt that begins with - after --/],
    ] as const) {
      const done = await run(args, "");
      assert.deepEqual([done.code, done.stdout], [2, ""], done.stderr);
      assert.match(done.stderr, pattern);
      assert.equal(done.stderr.trim().split("\n").length, 1, done.stderr);
    }
    const bytes = await spawnGantry(t, { ...options, args: ["run"] });
    bytes.child.stdin.end(Buffer.from([0x61, 0xff, 0xfe]));
    assert.equal((await bytes.exited).code, 2);
    assert.equal(bytes.stderr, "gantry: standard input: expected text in UTF-8\n");
    assert.equal((await gantry("sessions", "list", "--json")).stdout, "[]\n");
    assert.equal(fake.requests.length, 0);
  });

  it("returns 3 if a budget or the maximum number of iterations ends the run", async (t) => {
    const { fake, run } = await bench(t);
    fake.fallback = call("list", {}, { usage: { input: 10_000, output: 10_000 } });
    const usd = await run(["--budget", "0.01", "x"]);
    assert.equal(usd.code, 3, usd.stderr);
    assert.match(usd.stderr, /^gantry: ended at its budget$/m);
    assert.equal((await run(["--budget-tokens", "1000", "x"])).code, 3);
    const turns = await run(["--max-iterations", "2", "x"]);
    assert.equal(turns.code, 3);
    assert.match(turns.stderr, /^gantry: ended at the maximum number of iterations$/m);
  });

  it("returns 4 if a tool call was denied, and reports that no user can answer", async (t) => {
    const { fake, run, project } = await bench(t);
    const enqueueWrite = () => fake.enqueue(call("write", { path: "a.txt", content: "x" }), say("I could not."));
    enqueueWrite();
    const unanswered = await run(["--mode", "ask", "x"]);
    assert.deepEqual([unanswered.code, unanswered.stdout], [4, "I could not.\n"]);
    assert.match(unanswered.stderr, /^no user can answer: tool calls that need permission are denied$/m);
    assert.match(unanswered.stderr, /^ {2}denied: This call needs permission and no client could answer/m);
    assert.match(unanswered.stderr, /^gantry: permission denied: Write a\.txt$/m);
    enqueueWrite();
    assert.equal((await run(["--mode", "plan", "x"])).code, 4);
    assert.equal(existsSync(project.at("a.txt")), false);
    enqueueWrite();
    assert.equal((await run(["--mode", "auto", "x"])).code, 0);
    assert.equal(existsSync(project.at("a.txt")), true);
    const denyingLab = await bench(t, { permissions: { rules: [{ tool: "write", action: "deny" }] } }, fake);
    enqueueWrite();
    const json = await denyingLab.run(["--json", "x"]);
    assert.equal(json.code, 4);
    const last = JSON.parse(json.stdout.trimEnd().split("\n").at(-1) ?? "") as Record<string, unknown>;
    assert.deepEqual(last["refused"], [{ name: "write", title: "Write a.txt" }]);
    const allowingLab = await bench(t, { permissions: { mode: "ask", unattended: "allow" } }, fake);
    enqueueWrite();
    const allowed = await allowingLab.run(["x"]);
    assert.equal(allowed.code, 0);
    assert.match(allowed.stderr, /tool calls that need permission are allowed \(permissions\.unattended\)/);
    fake.enqueue(call("read", { path: "none.txt" }), say("Not there."));
    assert.equal((await run(["--mode", "ask", "x"])).code, 0, "a call that fails was not refused");
  });

  for (const [signal, code] of [
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const)
    it(`returns ${code} on ${signal}, ends the tools and stores the text so far`, async (t) => {
      const { fake, options, gantry } = await bench(t);
      const seconds = uniqueSeconds();
      fake.enqueue({
        say: [{ text: "I wait." }, { call: { name: "bash", arguments: { command: `sleep ${seconds}` } } }],
      });
      const child = await spawnGantry(t, { ...options, args: ["run", "--json", "x"] });
      child.child.stdin.end();
      await child.output(/"tool_call"/);
      await until(async () => (await processes(`sleep ${seconds}`)) > 0);
      assert.equal((await child.stop(signal)).code, code);
      assert.equal(await processes(`sleep ${seconds}`), 0);
      assert.match(child.stderr, /^gantry: interrupted$/m);
      assert.match(child.stdout, /\{"type":"result","exitCode":1\d\d,"state":"cancelled"[^\n]*\n$/);
      const [{ id }] = JSON.parse((await gantry("sessions", "list", "--json")).stdout) as [{ id: string }];
      assert.match((await gantry("sessions", "show", id)).stdout, /I wait\./);
    });

  it("returns 130 after two SIGINTs during a stalled answer", async (t) => {
    const { fake, options } = await bench(t);
    fake.enqueue({ say: [{ text: "On and on" }, { stall: true }] });
    const child = await spawnGantry(t, { ...options, args: ["run", "x"] });
    child.child.stdin.end();
    await child.output(/On and on/);
    child.child.kill("SIGINT");
    child.child.kill("SIGINT");
    assert.deepEqual(await child.exited, { code: 130, signal: null });
  });

  it("returns 141 if the reader closes stdout, and stores the text so far", async (t) => {
    const { fake, options, gantry } = await bench(t);
    const many = Array.from({ length: 50 }, (_, i) => ({ text: `line ${i}\n` }));
    fake.enqueue({ say: [...many, { gate: "gone" }, ...many, ...many, { stall: true }] });
    const child = await spawnGantry(t, { ...options, args: ["run", "x"] });
    child.child.stdin.end();
    await child.output(/line 49\n/);
    child.child.stdout.destroy();
    fake.open("gone");
    assert.equal((await child.exited).code, 141);
    assert.doesNotMatch(child.stderr, /gantry:|Error/);
    const [{ id }] = JSON.parse((await gantry("sessions", "list", "--json")).stdout) as [{ id: string }];
    assert.match((await gantry("sessions", "show", id)).stdout, /line 1\n.*line 49/s);
  });

  it("returns 130 on SIGINT while the prompt is read from standard input", async (t) => {
    const { options } = await bench(t);
    const reading = await spawnGantry(t, { ...options, args: ["run"] });
    await until(() => reading.child.stdin.write("x"));
    await reading.output(/standard input/, "stderr");
    assert.equal((await reading.stop("SIGINT")).code, 130);
  });
});
