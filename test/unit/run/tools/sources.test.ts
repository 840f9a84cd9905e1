import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { Agent, builtinTools, defineTool, type AgentOptions, type BusEvents } from "gantry";
import type { McpServer, ToolSession, ToolSource } from "gantry/plugin";
import { callTools, ScriptedProvider } from "gantry/testing";
import { Bus } from "../../../../src/base/bus.js";
import { silentLogger } from "../../../../src/base/log.js";
import { ToolSources } from "../../../../src/run/tools/sources.js";
import { McpServers } from "gantry/adapters/mcp-tools";
import { fakeTime, turns } from "../../../helpers/fake-time.js";
import { gate } from "../../../helpers/gate.js";
import { until } from "../../../helpers/lab.js";
import { hostileProgram, isLiving, noted, PLAIN } from "../../../helpers/mcp.js";
import { tempDir } from "../../../helpers/temp.js";

const linux = { skip: process.platform === "linux" ? false : "needs /proc" };
const named = (name: string) => defineTool({ name, description: `Is ${name}.`, run: () => name });

/** A tool source with these tools. Records its openings and closings. */
function source(name: string, tools: readonly string[]) {
  const opened: ToolSession[] = [];
  const closed: string[] = [];
  const self = {
    name,
    tools: tools.map(named),
    opened,
    closed,
    open(session: ToolSession) {
      opened.push(session);
      return Promise.resolve({
        get tools() {
          return self.tools;
        },
        close: () => Promise.resolve(void closed.push(session.sessionId)),
      });
    },
  };
  return self;
}

function agentOf(
  t: TestContext,
  tools: AgentOptions["tools"],
  script: ConstructorParameters<typeof ScriptedProvider>[0],
) {
  const provider = new ScriptedProvider(script);
  const agent = new Agent({ providers: [provider], tools: tools ?? [] });
  t.after(() => agent.close());
  /** The tools that the model was offered, by request. Title requests have no tools. */
  const offered = () =>
    provider.requests.filter(({ tools }) => tools.length > 0).map(({ tools }) => tools.map(({ name }) => name));
  return { agent, provider, offered };
}

describe("a tool source", () => {
  it("is opened for each session, kept for its next run, and closed with the agent", async (t) => {
    const files = source("files", ["find"]);
    const { agent, offered } = agentOf(t, [named("own"), files], [callTools(["find", {}]), "one", "two", "three"]);
    const run = await agent.run({ message: "x" });
    const outputs: string[] = [];
    for await (const event of run) if (event.type === "tool_result") outputs.push(event.output);
    assert.deepEqual(outputs, ["find"]);
    const { sessionId } = run;
    files.tools = [named("seek")];
    await (
      await agent.run({ message: "y", sessionId })
    ).result;
    await (
      await agent.run({ message: "z" })
    ).result;
    assert.deepEqual(
      files.opened.map((session) => session.sessionId === sessionId && session.projectDir === agent.projectDir),
      [true, false],
    );
    assert.deepEqual(offered(), [
      ["find", "own"],
      ["find", "own"],
      ["own", "seek"],
      ["own", "seek"],
    ]);
    assert.deepEqual(files.closed, []);
    assert.equal(agent.describeCall("seek", "{}", "/").title, "seek");
    await agent.close();
    assert.deepEqual(files.closed.sort(), files.opened.map((session) => session.sessionId).sort());
  });

  it("can provide the built-in tools", async (t) => {
    const folder = await tempDir(t, { "a.txt": "found me" });
    const builtIn: ToolSource = {
      name: "built-in",
      open: () => Promise.resolve({ tools: builtinTools(), close: () => Promise.resolve() }),
    };
    const { agent } = agentOf(t, [builtIn], [callTools(["read", { path: "a.txt" }]), "done"]);
    const outputs: string[] = [];
    for await (const event of await agent.run({ message: "x", projectDir: folder.path }))
      if (event.type === "tool_result") outputs.push(event.output);
    assert.deepEqual(outputs, ["1\tfound me"]);
  });

  it("is opened again for another project folder, and closed when its session is deleted", async (t) => {
    const folder = await tempDir(t);
    const files = source("files", ["find"]);
    const { agent } = agentOf(t, [files], ["one", "two"]);
    const { sessionId } = await (await agent.run({ message: "x" })).result;
    await (
      await agent.run({ message: "y", sessionId, projectDir: folder.path })
    ).result;
    assert.deepEqual(
      files.opened.map(({ projectDir }) => projectDir),
      [agent.projectDir, folder.path],
    );
    await agent.sessions.delete(sessionId);
    assert.deepEqual(files.closed, [sessionId, sessionId]);
  });

  it("of an MCP server in the run input is kept for the session's next run, and closed with the agent", async (t) => {
    const sourcesByName = new Map<string, ReturnType<typeof source>>();
    const mcpServerFactory = {
      source: ({ name }: McpServer) => {
        const namedSource = sourcesByName.get(name) ?? source(name, [`${name}_say`]);
        sourcesByName.set(name, namedSource);
        return namedSource;
      },
    };
    const provider = new ScriptedProvider(["one", "two", "three"]);
    const agent = new Agent({ providers: [provider], tools: [named("own")], mcpServerFactory });
    t.after(() => agent.close());
    const servers = [{ name: "a", command: "a", args: [], env: {} }];
    const run = await agent.run({ message: "x", mcpServers: servers });
    await run.result;
    await run.result;
    const { sessionId } = run;
    await (
      await agent.run({ message: "y", sessionId, mcpServers: servers })
    ).result;
    assert.deepEqual([sourcesByName.get("a")?.opened.length, sourcesByName.get("a")?.closed.length], [1, 0]);
    await (
      await agent.run({ message: "z", sessionId })
    ).result;
    const offered = provider.requests.filter(({ tools }) => tools.length > 0);
    assert.deepEqual(
      offered.map(({ tools }) => tools.map(({ name }) => name)),
      [["a_say", "own"], ["a_say", "own"], ["own"]],
    );
    await agent.close();
    assert.deepEqual(sourcesByName.get("a")?.closed, [sessionId]);
  });

  it("of an MCP server with an invalid address, or in a list of more than 64 servers, is rejected", async (t) => {
    const { agent } = agentOf(t, [], ["one"]);
    const wrong = { name: "a", url: "nowhere", headers: {} };
    await assert.rejects(agent.run({ message: "x", mcpServers: [wrong] }), {
      message: "mcpServers[0].url: expected an address with http or https",
    });
    await assert.rejects(agent.run({ message: "x", mcpServers: Array.from({ length: 65 }, () => wrong) }), {
      message: "mcpServers: expected a list of at most 64 MCP servers",
    });
  });

  it("in the tools of a run is closed with the run", async (t) => {
    const [agentSource, runSource] = [source("own", ["a"]), source("brought", ["b"])];
    const { agent, offered } = agentOf(t, [agentSource], ["one", "two"]);
    const run = await agent.run({ message: "x", tools: [named("c"), runSource] });
    await run.result;
    await run.result;
    assert.deepEqual([runSource.opened.length, runSource.closed.length, agentSource.opened.length], [1, 1, 0]);
    await (
      await agent.run({ message: "y", sessionId: run.sessionId })
    ).result;
    assert.deepEqual(offered(), [["b", "c"], ["a"]]);
  });

  it("that cannot be opened is reported on the bus and to the model, and opened again by the next run", async (t) => {
    const failing: ToolSource = { name: "github", open: () => Promise.reject(new Error("no such server")) };
    const empty: ToolSource = { name: "empty", open: () => Promise.resolve(undefined as never) };
    const bare = { name: "bare", open: () => Promise.resolve({ close: () => Promise.resolve() } as never) };
    const doubled = source("doubled", ["find"]);
    const invalidSource = source("odd", ["find"]);
    invalidSource.tools = [{ ...named("find"), name: "find.all" }];
    const files = source("files", ["find"]);
    const { agent, provider, offered } = agentOf(
      t,
      [failing, empty, bare, files, doubled, invalidSource],
      ["one", "two"],
    );
    const failures: string[] = [];
    agent.on("tools.failed", ({ source: name, error }) => failures.push(`${name}: ${error.message}`));
    const run = await agent.run({ message: "x" });
    await run.result;
    assert.deepEqual(offered(), [["find"]]);
    assert.deepEqual(failures, [
      "github: no such server",
      "empty: open: expected an object with tools and close",
      "bare: it has no tools",
      "doubled: tools of doubled: expected distinct names, got find twice",
      'odd: tools of odd: expected names of 1 to 64 letters, digits, _ and -, got "find.all"',
    ]);
    const { system } = provider.requests.find(({ tools }) => tools.length > 0)!;
    assert.match(system, /Unavailable tools: those of github, empty, bare, doubled, odd\./);
    assert.equal(agent.describeCall("find", "{}", "/").title, "find");
    // Failed sources are tried again. Open sources stay open.
    failing.open = source("github", ["pull"]).open;
    await (
      await agent.run({ message: "y", sessionId: run.sessionId })
    ).result;
    assert.deepEqual(offered().at(-1), ["find", "pull"]);
    assert.equal(files.opened.length, 1);
  });

  it("that hangs does not block the cancel of a run, and is closed if it opens later", async (t) => {
    const files = source("files", ["find"]);
    let signalOpening = (): void => undefined;
    const beginning = new Promise<void>((resolve) => (signalOpening = resolve));
    let open = (): void => undefined;
    const slow: ToolSource = {
      name: "slow",
      open: async (session) => {
        signalOpening();
        await new Promise<void>((resolve) => (open = resolve));
        return files.open(session);
      },
    };
    const { agent } = agentOf(t, [slow], ["one"]);
    const abort = new AbortController();
    const run = agent.run({ message: "x", signal: abort.signal });
    await beginning;
    abort.abort();
    await assert.rejects(run, { code: "run_cancelled" });
    assert.equal((await agent.sessions.list()).total, 0);
    open();
    await agent.close();
    assert.deepEqual([files.opened.length, files.closed.length], [1, 1]);
  });

  it("is rejected without a name, or with the name of another source", () => {
    const providers = [new ScriptedProvider([])];
    const open = () => Promise.reject(new Error());
    const assertRejected = (tools: readonly unknown[], message: RegExp) =>
      assert.throws(() => new Agent({ providers, tools: tools as ToolSource[] }), { code: "invalid_input", message });
    assertRejected([named("a"), { open }], /^tools\[1\]: expected .* name$/);
    assertRejected([source("a", []), source("a", [])], /distinct names, got a twice/);
    assertRejected([named("a"), named("a")], /distinct names, got a twice/);
  });

  it("is closed when idle or beyond 32 idle sessions, and is missing in a run if it does not open in time", async () => {
    const files = source("files", ["find"]);
    const bus = new Bus<BusEvents>(() => undefined);
    const toolSession = (sessionId: string) => ({
      sessionId,
      projectDir: "/",
      runId: "run",
      logger: silentLogger,
      signal: new AbortController().signal,
    });
    const list = { tools: [], sources: [files] };
    const short = new ToolSources([files], bus, silentLogger, { openTimeoutMs: 60_000, idleMs: 1 });
    (await short.open(list, toolSession("a"))).release();
    await until(() => files.closed.length > 0);

    const hanging: ToolSource = { name: "hanging", open: () => new Promise(() => undefined) };
    const shortWait = new ToolSources([hanging], bus, silentLogger, { openTimeoutMs: 1, idleMs: 60_000 });
    const failures: string[] = [];
    bus.on("tools.failed", ({ error }) => failures.push(error.message));
    const openedTools = await shortWait.open({ tools: [named("own")], sources: [hanging] }, toolSession("a"));
    assert.deepEqual([openedTools.tools.map(({ name }) => name), openedTools.missingSources], [["own"], ["hanging"]]);
    assert.deepEqual(failures, ["it was not ready within 0.001 s"]);

    const many = new ToolSources([files], bus, silentLogger);
    const held = await many.open(list, toolSession("held"));
    for (let i = 0; i < 40; i += 1) (await many.open(list, toolSession(`s${i}`))).release();
    assert.deepEqual(files.closed.slice(1), ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"]);
    held.release();
    assert.equal(files.closed.at(-1), "s8");
    await many.close();
    assert.equal(files.closed.length, files.opened.length);
  });

  /** Sources of an agent. `run` returns the tools, or the missing sources, of one run. */
  function sourcesOf(
    t: TestContext,
    agentSources: readonly ToolSource[],
    times: { openTimeoutMs: number; startTimeoutMs?: number },
  ) {
    const logger = noted();
    const bus = new Bus<BusEvents>(() => undefined);
    const sources = new ToolSources(agentSources, bus, logger, times);
    t.after(() => sources.close());
    const run = async (sessionId: string, signal = new AbortController().signal) => {
      const toolSession = { sessionId, projectDir: "/", runId: "run", logger: silentLogger, signal };
      const {
        tools,
        missingSources: missing,
        release,
      } = await sources.open({ tools: [], sources: agentSources }, toolSession);
      release();
      return missing.length > 0 ? missing : tools.map(({ name }) => name);
    };
    return { sources, run, logger };
  }

  /** A source that opens when the test releases it. */
  function slow() {
    const ready = gate();
    const files = source("files", ["find"]);
    const signals: AbortSignal[] = [];
    const open = async (session: ToolSession, signal: AbortSignal) => {
      signals.push(signal);
      await ready.wait();
      return files.open(session);
    };
    return { files, signals, ready, source: { name: "slow", open } satisfies ToolSource };
  }

  it("that opens later than a run waits continues to open, and is available to the session's next run", async (t) => {
    const { source: slowSource, ready, signals, files } = slow();
    const { run, logger } = sourcesOf(t, [slowSource], { openTimeoutMs: 20 });
    assert.deepEqual(await run("a"), ["slow"]);
    assert.deepEqual(await run("a"), ["slow"]);
    ready.open();
    assert.deepEqual(await run("a"), ["find"]);
    assert.deepEqual([signals.length, signals[0]?.aborted, files.closed.length], [1, false, 0]);
    assert.deepEqual(logger.lines, [
      [
        "info",
        "tool source opened late; its tools are available to the session's next run",
        { source: "slow", session: "a" },
      ],
    ]);
  });

  it("that timed out in one session delays another session by 250 ms at most until it is open", async (t) => {
    const { source: slowSource, ready } = slow();
    const { pass } = fakeTime(t);
    const { run } = sourcesOf(t, [slowSource], { openTimeoutMs: 2_000 });
    const first = run("a");
    let isOver = false;
    void first.then(() => (isOver = true));
    await turns();
    pass(1_999);
    await turns();
    assert.equal(isOver, false);
    pass(1);
    assert.deepEqual(await first, ["slow"]);
    const second = run("b");
    await turns();
    pass(250);
    assert.deepEqual(await second, ["slow"]);
    ready.open();
    assert.deepEqual(await Promise.all([run("a"), run("b"), run("c")]), [["find"], ["find"], ["find"]]);
  });

  it("continues to open if the run that waits for it is cancelled", async (t) => {
    const { source: slowSource, ready, signals } = slow();
    const { run } = sourcesOf(t, [slowSource], { openTimeoutMs: 60_000 });
    const abort = new AbortController();
    const first = run("a", abort.signal);
    abort.abort(new Error("cancelled"));
    await assert.rejects(first, /^Error: cancelled$/);
    ready.open();
    assert.deepEqual(await run("a"), ["find"]);
    assert.equal(signals.length, 1);
  });

  it("that never opens is aborted after startTimeoutMs, and opened again by the next run", async (t) => {
    const { source: slowSource, signals } = slow();
    const { run, logger } = sourcesOf(t, [slowSource], { openTimeoutMs: 1, startTimeoutMs: 100 });
    assert.deepEqual(await run("a"), ["slow"]);
    await until(() => logger.lines.length > 0);
    const [[level, message, fields] = []] = logger.lines;
    assert.deepEqual([level, message], ["warn", "tool source could not be opened"]);
    assert.equal(String(fields?.["error"]), "TimeoutError: it was not ready within 0.1 s");
    assert.deepEqual(await run("a"), ["slow"]);
    assert.deepEqual(
      signals.map(({ aborted }) => aborted),
      [true, false],
    );
  });

  it("that still opens when the agent closes is aborted, and closed if it opens after all", async (t) => {
    const { source: slowSource, ready, signals, files } = slow();
    const { run, sources, logger } = sourcesOf(t, [slowSource], { openTimeoutMs: 1 });
    assert.deepEqual(await run("a"), ["slow"]);
    const closing = sources.close();
    assert.equal(signals[0]?.aborted, true);
    ready.open();
    await closing;
    assert.deepEqual([files.opened.length, files.closed.length, logger.lines], [1, 1, []]);
  });

  it("of an MCP program starts one process for two sessions, which ends with the agent", linux, async (t) => {
    const folder = await tempDir(t);
    const env = { BEGUN: folder.at("begun"), GO: folder.at("go") };
    const servers = new McpServers({ env: PLAIN });
    const { run, sources, logger } = sourcesOf(t, [servers.source(hostileProgram("late", env))], {
      openTimeoutMs: 500,
    });
    assert.deepEqual(await run("a"), ["mcp:hostile"]);
    assert.deepEqual(await run("b"), ["mcp:hostile"]);
    await folder.write({ go: "" });
    await until(() => logger.lines.length >= 2);
    for (const session of ["a", "b"]) assert.ok((await run(session)).includes("hostile__echo"));
    const pids = (await folder.read("begun")).trim().split(" ").map(Number);
    assert.deepEqual(pids.map(isLiving), [true]);
    await sources.close();
    assert.deepEqual(pids.map(isLiving), [false]);
  });
});
