import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { describe, it, type TestContext } from "node:test";
import { callStep, errorStep, textStep, type FakeModelServer } from "../../helpers/fake-model-server.js";
import {
  startModelServer,
  createServerConfig,
  countProcesses,
  pickUniqueSeconds,
  waitUntil,
} from "../../helpers/server-runs.js";
import { FULL_DISK_COMMAND, runGantry, spawnGantry } from "../../helpers/server.js";
import { makeTempDir, tempDir } from "../../helpers/temp-dir.js";

const FULL_DISK_SKIP = process.platform === "linux" ? false : "needs /dev/full";

/** Has a context window and a price, so that a run prints no warning about the model. */
const MODEL = { id: "m1", context_window: 100_000, cost: { input: 1, output: 1 } };

/** Runs `gantry` with a model that sends the queued answers, always with the same home and project folder. */
async function createRunner(t: TestContext, settings: Record<string, unknown> = {}, existingServer?: FakeModelServer) {
  const modelServer = existingServer ?? (await startModelServer(t));
  const home = await tempDir(t);
  const project = await tempDir(t);
  const [providerConfig] = createServerConfig(modelServer)["providers"] as [Record<string, unknown>];
  const config = { providers: [{ ...providerConfig, models: [MODEL] }], ...settings };
  const options = { home: home.path, projectDir: project.path, config };
  return {
    modelServer,
    project,
    options,
    run: (args: readonly string[], input?: string) =>
      runGantry(t, ["run", ...args], { ...options, ...(input === undefined ? {} : { input }) }),
    gantry: (...args: string[]) => runGantry(t, args, options),
  };
}

/** Text of the last user message that the model received. */
function getLastUserText(modelServer: FakeModelServer, requestIndex = 0): string {
  const { messages } = modelServer.requests.filter(({ tools }) => tools.length > 0)[requestIndex]?.body as {
    messages: { role: string; content: unknown }[];
  };
  const { content } = messages.filter(({ role }) => role === "user").at(-1) ?? {};
  return typeof content === "string" ? content : JSON.stringify(content);
}

describe("gantry run", () => {
  it("prints the answer on stdout and progress on stderr, and only the answer with --quiet", async (t) => {
    const { modelServer, run, project } = await createRunner(t);
    await project.write({ "a.txt": "alpha\n" });
    modelServer.enqueue(
      { say: [{ text: "I look." }, { call: { name: "read", arguments: { path: "a.txt" } } }] },
      textStep("It says alpha."),
    );
    const completedRun = await run(["What", "is in a.txt?"]);
    assert.deepEqual([completedRun.code, completedRun.stdout], [0, "I look.\n\nIt says alpha.\n"]);
    assert.match(completedRun.stderr, /^session \S+ with lab\/m1\n> Read a\.txt\n2 turns, [\d,]+ tokens, \$[\d.]+\n$/);
    assert.equal(getLastUserText(modelServer), "What is in a.txt?");
    assert.ok(
      !(completedRun.stderr + completedRun.stdout).includes("\u001b"),
      "output without a terminal has no colours",
    );
    modelServer.enqueue(textStep("Quiet."));
    const quietRun = await run(["--quiet", "x"]);
    assert.deepEqual([quietRun.code, quietRun.stdout, quietRun.stderr], [0, "Quiet.\n", ""]);
  });

  it("prints the tool calls of a subagent indented below its task call", async (t) => {
    const { modelServer, options, project } = await createRunner(t);
    await project.write({ "a.txt": "alpha\n" });
    modelServer.enqueue(
      { say: [{ call: { name: "task", arguments: { description: "Look at a", prompt: "What is in a.txt?" } } }] },
      { say: [{ call: { name: "read", arguments: { path: "a.txt" } } }] },
      { say: [{ gate: "seen" }, { text: "alpha" }] },
      textStep("It says alpha."),
    );
    const gantryProcess = await spawnGantry(t, { ...options, args: ["run", "x"] });
    gantryProcess.child.stdin.end();
    await gantryProcess.waitForOutput(/> Task: Look at a\n {2}> Read a\.txt\n/, "stderr");
    modelServer.openGate("seen");
    assert.deepEqual([(await gantryProcess.exited).code, gantryProcess.stdout], [0, "It says alpha.\n"]);
  });

  it("prints each part of the answer before the next part arrives", async (t) => {
    const { modelServer, options } = await createRunner(t);
    modelServer.enqueue({ say: [{ text: "first " }, { gate: "more" }, { text: "second" }] });
    const gantryProcess = await spawnGantry(t, { ...options, args: ["run", "x"] });
    gantryProcess.child.stdin.end();
    await gantryProcess.waitForOutput(/^first $/);
    modelServer.openGate("more");
    assert.deepEqual([(await gantryProcess.exited).code, gantryProcess.stdout], [0, "first second\n"]);
  });

  it("reports that no language model is configured, even with --quiet", async (t) => {
    const home = await tempDir(t);
    const offlineRun = await runGantry(t, ["run", "--quiet", "hi"], { home: home.path });
    assert.deepEqual(
      [offlineRun.code, offlineRun.stderr],
      [0, "gantry: no language model configured; the offline guide answers (connect one with gantry init)\n"],
    );
  });

  it("reads the prompt from arguments, standard input, or both", async (t) => {
    const { modelServer, run } = await createRunner(t);
    for (const [args, input, prompt] of [
      [["from", "arguments"], "", "from arguments"],
      [[], "from stdin\n", "from stdin"],
      [["Sum this up:"], "a\nb\n", "Sum this up:\n\na\nb"],
      [["--", "--json", "-h"], "", "--json -h"],
    ] as const) {
      const previousRequestCount = modelServer.requests.filter(({ tools }) => tools.length > 0).length;
      assert.equal((await run(args, input)).code, 0);
      assert.equal(getLastUserText(modelServer, previousRequestCount), prompt);
    }
  });

  it("expands slash commands in arguments, but not in standard input", async (t) => {
    const { modelServer, project, run } = await createRunner(t);
    await project.write({ ".agents/commands/look.md": "Look at: $ARGUMENTS" });
    for (const [args, input, prompt] of [
      [["/look", "src"], "", "Look at: src"],
      [["/look"], "/look a\n", "Look at: /look a"],
      [[], "/look at me\n", "/look at me"],
      [["-"], "/compact\n", "/compact"],
      [["/"], "look\n", "/\n\nlook"],
      [["Sum this up:"], "/compact\n", "Sum this up:\n\n/compact"],
    ] as const) {
      const previousRequestCount = modelServer.requests.filter(({ tools }) => tools.length > 0).length;
      assert.equal((await run(args, input)).code, 0);
      assert.equal(getLastUserText(modelServer, previousRequestCount), prompt);
    }
  });

  it("prints one JSON event per line with --json, and the result last, also after a failure", async (t) => {
    const { modelServer, run } = await createRunner(t);
    modelServer.enqueue(callStep("list", {}), textStep("Done."));
    const jsonOutputRun = await run(["--json", "x"]);
    const lines = jsonOutputRun.stdout
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
    modelServer.enqueue(errorStep(401, "no such key"));
    const failedJsonRun = await run(["--json", "x"]);
    const lastEvent = JSON.parse(failedJsonRun.stdout.trimEnd().split("\n").at(-1) ?? "") as Record<string, unknown>;
    assert.equal(failedJsonRun.code, 1);
    assert.deepEqual([lastEvent["type"], lastEvent["exitCode"], lastEvent["state"]], ["result", 1, "failed"]);
    assert.equal((lastEvent["error"] as { code: string }).code, "provider");
    const emptyPromptRun = await run(["--json"], " ");
    assert.equal(emptyPromptRun.code, 2);
    assert.match(emptyPromptRun.stdout, /^\{"type":"result","exitCode":2,"state":"failed","error":\{"code":"usage"/);
  });

  it("continues the session of --session, and the last used session of the folder with --continue", async (t) => {
    const { modelServer, run, options } = await createRunner(t);
    const noSessionRun = await run(["--continue", "x"]);
    assert.deepEqual(
      [noSessionRun.code, noSessionRun.stderr],
      [2, "gantry: --continue: this folder has no session yet\n"],
    );
    const runForSessionId = async (...args: string[]) => {
      const { stdout } = await run([...args, "--json"]);
      return (JSON.parse(stdout.split("\n")[0] ?? "") as { sessionId: string }).sessionId;
    };
    const firstId = await runForSessionId("one");
    const secondId = await runForSessionId("two");
    assert.notEqual(firstId, secondId);
    await using otherFolder = await makeTempDir();
    await runGantry(t, ["run", "elsewhere"], { ...options, projectDir: otherFolder.path });
    assert.equal(await runForSessionId("--continue", "three"), secondId);
    assert.equal(await runForSessionId("--session", firstId, "four"), firstId);
    assert.equal(await runForSessionId("--continue", "five"), firstId);
    assert.equal(getLastUserText(modelServer, 5), "five");
    const unknownSessionRun = await run(["--session", "nowhere", "x"]);
    assert.deepEqual(
      [unknownSessionRun.code, unknownSessionRun.stderr],
      [2, "gantry: --session nowhere: session not found\n"],
    );
    const conflictingFlagsRun = await run(["--session", firstId, "--continue", "x"]);
    assert.deepEqual(
      [conflictingFlagsRun.code, conflictingFlagsRun.stderr],
      [2, "gantry: --session and --continue: expected one of them\n"],
    );
  });

  it("uses the model of --model and the reasoning effort of --effort", async (t) => {
    const modelServer = await startModelServer(t, { models: ["m1", "maker/m2"] });
    const providerConfigs = createServerConfig(modelServer)["providers"] as Record<string, unknown>[];
    const models = [{ id: "m1" }, { id: "maker/m2", reasoning: true }];
    const { run } = await createRunner(t, { providers: [{ ...providerConfigs[0], models }] }, modelServer);
    for (const [name, model] of [
      ["lab/m1", "m1"],
      ["m1", "m1"],
      ["maker/m2", "maker/m2"],
      ["lab/maker/m2", "maker/m2"],
    ] as const) {
      const { stdout } = await run(["--json", "--model", name, "--effort", "high", "x"]);
      assert.equal((JSON.parse(stdout.split("\n")[0] ?? "") as { model: string }).model, model);
      const { body } = modelServer.requests.filter(({ tools }) => tools.length > 0).at(-1) ?? {};
      if (model !== "m1") assert.equal((body as Record<string, unknown>)["reasoning_effort"], "high");
    }
  });

  it("rejects an unknown --model with exit code 2 and sends no model request", async (t) => {
    const { modelServer, run, gantry } = await createRunner(t);
    for (const [name, suggestion] of [
      ["lab/m2", "; did you mean lab/m1?"],
      ["lob/m1", "; did you mean lab/m1?"],
      ["m2", "; did you mean m1?"],
      ["cheap-and-strong", ""],
      ["lab/cheap-and-strong", ""],
    ] as const) {
      const { code, stdout, stderr } = await run(["--quiet", "--model", name, "x"]);
      const expectedError = `gantry: --model ${name}: unknown model${suggestion} (see gantry models)\n`;
      assert.deepEqual([code, stdout, stderr], [2, "", expectedError]);
    }
    for (const name of ["", "lab/"]) {
      const { code, stderr } = await run(["--model", name, "x"]);
      assert.deepEqual([code, stderr], [2, `gantry: --model: expected [PROVIDER/]MODEL, got "${name}"\n`]);
    }
    assert.equal(modelServer.requests.filter(({ tools }) => tools.length > 0).length, 0);
    assert.equal((await gantry("sessions", "list", "--json")).stdout, "[]\n");
  });

  it("accepts a configured --model that its provider does not list; fails for unlisted models and provider outages", async (t) => {
    const modelServer = await startModelServer(t, { models: [] });
    const { run } = await createRunner(
      t,
      { ...createServerConfig(modelServer), model: { provider: "lab", model: "own" } },
      modelServer,
    );
    for (const name of ["lab/own", "own"]) assert.equal((await run(["--quiet", "--model", name, "x"])).code, 0);
    for (const name of ["lab/other", "other"]) {
      const { code, stderr } = await run(["--quiet", "--model", name, "x"]);
      assert.notEqual(code, 0);
      assert.match(stderr, /other/);
    }
    const unreachableProvider = { name: "away", driver: "openai", base_url: "http://127.0.0.1:9/v1", api_key: "x" };
    const unreachableRunner = await createRunner(t, { providers: [unreachableProvider] }, modelServer);
    for (const name of ["away/m1", "m1"]) {
      const { code, stderr } = await unreachableRunner.run(["--quiet", "--model", name, "x"]);
      assert.equal(code, 1, stderr);
      assert.match(stderr, /^gantry: model selection failed: .*away.*\n$/);
    }
  });

  it("attaches the files of --file, and exits with 2 if a file is missing", async (t) => {
    const { modelServer, run, project } = await createRunner(t);
    await project.write({ "a.txt": "alpha", "b.txt": "beta" });
    assert.equal((await run(["--file", "a.txt", "--file", project.at("b.txt"), "x"])).code, 0);
    assert.match(getLastUserText(modelServer), /alpha.*beta/s);
    const missingFileRun = await run(["--file", "none.txt", "x"]);
    assert.equal(missingFileRun.code, 2);
    assert.match(missingFileRun.stderr, /^gantry: --file: failed to load attachments: none\.txt: .+\n$/);
    assert.equal(modelServer.requests.filter(({ tools }) => tools.length > 0).length, 1);
  });

  it("prints only the JSON value with --schema, and rejects invalid answers and invalid schema files", async (t) => {
    const { modelServer, run, project } = await createRunner(t);
    await project.write({
      "schema.json": '{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}',
      "wrong.json": "{",
      "list.json": "[]",
      "no-schema.json": '{"type":"nonsense"}',
    });
    modelServer.enqueue(
      { say: [{ text: "I count." }, { call: { name: "list", arguments: {} } }] },
      textStep('{"n": 3}'),
    );
    const schemaRun = await run(["--schema", "schema.json", "how many?"]);
    assert.deepEqual([schemaRun.code, schemaRun.stdout], [0, '{"n":3}\n']);
    modelServer.fallback = textStep("no number at all");
    const invalidAnswerRun = await run(["--schema", "schema.json", "how many?"]);
    assert.deepEqual([invalidAnswerRun.code, invalidAnswerRun.stdout], [1, ""]);
    assert.match(invalidAnswerRun.stderr, /gantry: the answer does not fit the output schema/);
    for (const file of ["wrong.json", "list.json", "no-schema.json", "none.json"]) {
      const invalidSchemaRun = await run(["--schema", file, "x"]);
      assert.deepEqual([invalidSchemaRun.code, invalidSchemaRun.stdout], [2, ""], invalidSchemaRun.stderr);
      assert.match(invalidSchemaRun.stderr, /^gantry: --schema.*\n$/);
    }
  });
});

describe("exit codes of gantry run", () => {
  it("returns 1 if the provider rejects the request or the config is invalid", async (t) => {
    const { modelServer, run } = await createRunner(t);
    modelServer.enqueue(errorStep(401, "no such key"));
    const failedRun = await run(["x"]);
    assert.equal(failedRun.code, 1);
    assert.match(failedRun.stderr, /^gantry: lab: 401: .*no such key.*$/m);
    const invalidRunner = await createRunner(t, { server: { port: "x" } });
    const invalidConfigRun = await invalidRunner.run(["x"]);
    assert.equal(invalidConfigRun.code, 1);
    assert.match(invalidConfigRun.stderr, /^gantry: .*config\.json: server\.port: expected/);
  });

  for (const flags of [[], ["--json"], ["--quiet"]])
    it(
      `returns 1 and ends the tools if stdout cannot be written (${flags.join("") || "text"})`,
      { skip: FULL_DISK_SKIP },
      async (t) => {
        const { modelServer, options, gantry } = await createRunner(t);
        const sleepSeconds = pickUniqueSeconds();
        const command = `sleep ${sleepSeconds}`;
        modelServer.enqueue({ say: [{ text: "A line.\n" }, { call: { name: "bash", arguments: { command } } }] });
        const fullDiskRun = await runGantry(t, ["run", ...flags, "x"], {
          ...options,
          commandPrefix: FULL_DISK_COMMAND,
          input: "",
        });
        assert.equal(fullDiskRun.code, 1, fullDiskRun.stderr);
        assert.match(fullDiskRun.stderr, /^gantry: run failed: ENOSPC.*$/m);
        assert.equal(await countProcesses(command), 0);
        const { length } = JSON.parse((await gantry("sessions", "list", "--json")).stdout) as unknown[];
        assert.equal(length, 1);
      },
    );

  it("returns 1 if the value of --schema cannot be written to stdout", { skip: FULL_DISK_SKIP }, async (t) => {
    const { modelServer, options, project } = await createRunner(t);
    await project.write({ "schema.json": '{"type":"object"}' });
    modelServer.fallback = textStep("{}");
    const args = ["run", "--schema", "schema.json", "x"];
    const fullDiskSchemaRun = await runGantry(t, args, { ...options, commandPrefix: FULL_DISK_COMMAND, input: "" });
    assert.equal(fullDiskSchemaRun.code, 1);
    assert.match(fullDiskSchemaRun.stderr, /^gantry: run failed: ENOSPC.*$/m);
  });

  it("returns 2 for an invalid command line, without a session or a model request", async (t) => {
    const { modelServer, run, gantry, options } = await createRunner(t);
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
      const invalidFlagsRun = await run(args, "");
      assert.deepEqual([invalidFlagsRun.code, invalidFlagsRun.stdout], [2, ""], invalidFlagsRun.stderr);
      assert.match(invalidFlagsRun.stderr, pattern);
      assert.equal(invalidFlagsRun.stderr.trim().split("\n").length, 1, invalidFlagsRun.stderr);
    }
    const invalidInputProcess = await spawnGantry(t, { ...options, args: ["run"] });
    invalidInputProcess.child.stdin.end(Buffer.from([0x61, 0xff, 0xfe]));
    assert.equal((await invalidInputProcess.exited).code, 2);
    assert.equal(invalidInputProcess.stderr, "gantry: standard input: expected text in UTF-8\n");
    assert.equal((await gantry("sessions", "list", "--json")).stdout, "[]\n");
    assert.equal(modelServer.requests.length, 0);
  });

  it("returns 3 if a budget or the maximum number of iterations ends the run", async (t) => {
    const { modelServer, run } = await createRunner(t);
    modelServer.fallback = callStep("list", {}, { usage: { input: 10_000, output: 10_000 } });
    const costRun = await run(["--budget", "0.01", "x"]);
    assert.equal(costRun.code, 3, costRun.stderr);
    assert.match(costRun.stderr, /^gantry: ended at its budget$/m);
    assert.equal((await run(["--budget-tokens", "1000", "x"])).code, 3);
    const iterationsRun = await run(["--max-iterations", "2", "x"]);
    assert.equal(iterationsRun.code, 3);
    assert.match(iterationsRun.stderr, /^gantry: ended at the maximum number of iterations$/m);
  });

  it("returns 4 if a tool call was denied, and reports that no user can answer", async (t) => {
    const { modelServer, run, project } = await createRunner(t);
    const enqueueWrite = () =>
      modelServer.enqueue(callStep("write", { path: "a.txt", content: "x" }), textStep("I could not."));
    enqueueWrite();
    const unansweredRun = await run(["--mode", "ask", "x"]);
    assert.deepEqual([unansweredRun.code, unansweredRun.stdout], [4, "I could not.\n"]);
    assert.match(unansweredRun.stderr, /^no user can answer: tool calls that need permission are denied$/m);
    assert.match(unansweredRun.stderr, /^ {2}denied: This call needs permission and no client could answer/m);
    assert.match(unansweredRun.stderr, /^gantry: permission denied: Write a\.txt$/m);
    enqueueWrite();
    assert.equal((await run(["--mode", "plan", "x"])).code, 4);
    assert.equal(existsSync(project.at("a.txt")), false);
    enqueueWrite();
    assert.equal((await run(["--mode", "auto", "x"])).code, 0);
    assert.equal(existsSync(project.at("a.txt")), true);
    const denyingRunner = await createRunner(
      t,
      { permissions: { rules: [{ tool: "write", action: "deny" }] } },
      modelServer,
    );
    enqueueWrite();
    const deniedRun = await denyingRunner.run(["--json", "x"]);
    assert.equal(deniedRun.code, 4);
    const resultEvent = JSON.parse(deniedRun.stdout.trimEnd().split("\n").at(-1) ?? "") as Record<string, unknown>;
    assert.deepEqual(resultEvent["refused"], [{ name: "write", title: "Write a.txt" }]);
    const allowingRunner = await createRunner(t, { permissions: { mode: "ask", unattended: "allow" } }, modelServer);
    enqueueWrite();
    const allowedRun = await allowingRunner.run(["x"]);
    assert.equal(allowedRun.code, 0);
    assert.match(allowedRun.stderr, /tool calls that need permission are allowed \(permissions\.unattended\)/);
    modelServer.enqueue(callStep("read", { path: "none.txt" }), textStep("Not there."));
    assert.equal((await run(["--mode", "ask", "x"])).code, 0, "a failed call does not count as denied");
  });

  for (const [signal, code] of [
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const)
    it(`returns ${code} on ${signal}, ends the tools and stores the text so far`, async (t) => {
      const { modelServer, options, gantry } = await createRunner(t);
      const sleepSeconds = pickUniqueSeconds();
      modelServer.enqueue({
        say: [{ text: "I wait." }, { call: { name: "bash", arguments: { command: `sleep ${sleepSeconds}` } } }],
      });
      const signalledProcess = await spawnGantry(t, { ...options, args: ["run", "--json", "x"] });
      signalledProcess.child.stdin.end();
      await signalledProcess.waitForOutput(/"tool_call"/);
      await waitUntil(async () => (await countProcesses(`sleep ${sleepSeconds}`)) > 0);
      assert.equal((await signalledProcess.stop(signal)).code, code);
      assert.equal(await countProcesses(`sleep ${sleepSeconds}`), 0);
      assert.match(signalledProcess.stderr, /^gantry: interrupted$/m);
      assert.match(signalledProcess.stdout, /\{"type":"result","exitCode":1\d\d,"state":"cancelled"[^\n]*\n$/);
      const [{ id }] = JSON.parse((await gantry("sessions", "list", "--json")).stdout) as [{ id: string }];
      assert.match((await gantry("sessions", "show", id)).stdout, /I wait\./);
    });

  it("returns 130 after two SIGINTs during a stalled answer", async (t) => {
    const { modelServer, options } = await createRunner(t);
    modelServer.enqueue({ say: [{ text: "On and on" }, { stall: true }] });
    const stalledProcess = await spawnGantry(t, { ...options, args: ["run", "x"] });
    stalledProcess.child.stdin.end();
    await stalledProcess.waitForOutput(/On and on/);
    stalledProcess.child.kill("SIGINT");
    stalledProcess.child.kill("SIGINT");
    assert.deepEqual(await stalledProcess.exited, { code: 130, signal: null });
  });

  it("returns 141 if the reader closes stdout, and stores the text so far", async (t) => {
    const { modelServer, options, gantry } = await createRunner(t);
    const manyLines = Array.from({ length: 50 }, (_, i) => ({ text: `line ${i}\n` }));
    modelServer.enqueue({ say: [...manyLines, { gate: "gone" }, ...manyLines, ...manyLines, { stall: true }] });
    const pipedProcess = await spawnGantry(t, { ...options, args: ["run", "x"] });
    pipedProcess.child.stdin.end();
    await pipedProcess.waitForOutput(/line 49\n/);
    pipedProcess.child.stdout.destroy();
    modelServer.openGate("gone");
    assert.equal((await pipedProcess.exited).code, 141);
    assert.doesNotMatch(pipedProcess.stderr, /gantry:|Error/);
    const [{ id }] = JSON.parse((await gantry("sessions", "list", "--json")).stdout) as [{ id: string }];
    assert.match((await gantry("sessions", "show", id)).stdout, /line 1\n.*line 49/s);
  });

  it("returns 130 on SIGINT while the prompt is read from standard input", async (t) => {
    const { options } = await createRunner(t);
    const readingProcess = await spawnGantry(t, { ...options, args: ["run"] });
    await waitUntil(() => readingProcess.child.stdin.write("x"));
    await readingProcess.waitForOutput(/standard input/, "stderr");
    assert.equal((await readingProcess.stop("SIGINT")).code, 130);
  });
});
