import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { Agent, builtinTools, defineTool, type AgentOptions, type BusEvents } from "gantry";
import type { McpServer, ToolSession, ToolSource } from "gantry/plugin";
import { callTools, ScriptedProvider } from "gantry/testing";
import { Bus } from "../../../../src/base/bus.js";
import { silentLogger } from "../../../../src/base/log.js";
import { ToolSources } from "../../../../src/run/tools/tool-sources.js";
import { McpServers } from "gantry/adapters/mcp-tools";
import { mockTime, waitTurns } from "../../../helpers/fake-time.js";
import { createGate } from "../../../helpers/gate.js";
import { waitUntil } from "../../../helpers/server-runs.js";
import { createFaultyStdioServer, isAlive, createRecordingLogger, PATH_ENV } from "../../../helpers/mcp-servers.js";
import { tempDir } from "../../../helpers/temp-dir.js";

const linuxOnly = { skip: process.platform === "linux" ? false : "needs /proc" };
const createTool = (name: string) => defineTool({ name, description: `Is ${name}.`, run: () => name });

/** A tool source with these tools. Records its openings and closings. */
function createSource(name: string, tools: readonly string[]) {
  const openedSessions: ToolSession[] = [];
  const closedIds: string[] = [];
  const testSource = {
    name,
    tools: tools.map(createTool),
    openedSessions,
    closedIds,
    open(session: ToolSession) {
      openedSessions.push(session);
      return Promise.resolve({
        get tools() {
          return testSource.tools;
        },
        close: () => Promise.resolve(void closedIds.push(session.sessionId)),
      });
    },
  };
  return testSource;
}

function createAgent(
  t: TestContext,
  tools: AgentOptions["tools"],
  script: ConstructorParameters<typeof ScriptedProvider>[0],
) {
  const provider = new ScriptedProvider(script);
  const agent = new Agent({ providers: [provider], tools: tools ?? [] });
  t.after(() => agent.close());
  /** The tools that the model was offered, by request. Title requests have no tools. */
  const readOfferedTools = () =>
    provider.requests.filter(({ tools }) => tools.length > 0).map(({ tools }) => tools.map(({ name }) => name));
  return { agent, provider, readOfferedTools };
}

describe("a tool source", () => {
  it("is opened for each session, kept for its next run, and closed with the agent", async (t) => {
    const fileSource = createSource("files", ["find"]);
    const { agent, readOfferedTools } = createAgent(
      t,
      [createTool("own"), fileSource],
      [callTools(["find", {}]), "one", "two", "three"],
    );
    const run = await agent.run({ message: "x" });
    const outputs: string[] = [];
    for await (const event of run) if (event.type === "tool_result") outputs.push(event.output);
    assert.deepEqual(outputs, ["find"]);
    const { sessionId } = run;
    fileSource.tools = [createTool("seek")];
    await (
      await agent.run({ message: "y", sessionId })
    ).result;
    await (
      await agent.run({ message: "z" })
    ).result;
    assert.deepEqual(
      fileSource.openedSessions.map(
        (session) => session.sessionId === sessionId && session.projectDir === agent.projectDir,
      ),
      [true, false],
    );
    assert.deepEqual(readOfferedTools(), [
      ["find", "own"],
      ["find", "own"],
      ["own", "seek"],
      ["own", "seek"],
    ]);
    assert.deepEqual(fileSource.closedIds, []);
    assert.equal(agent.describeCall("seek", "{}", "/").title, "seek");
    await agent.close();
    assert.deepEqual(fileSource.closedIds.sort(), fileSource.openedSessions.map((session) => session.sessionId).sort());
  });

  it("is closed when the agent stops accepting runs, in a session with a run when the run is cancelled", async (t) => {
    const fileSource = createSource("files", ["find"]);
    const gate = createGate();
    const slowTool = defineTool({ name: "slow", description: "Ends late.", run: () => gate.wait().then(() => "done") });
    const { agent } = createAgent(t, [slowTool, fileSource], ["one", callTools(["slow", {}])]);
    const { sessionId: idleId } = await (await agent.run({ message: "idle" })).result;
    const canceller = new AbortController();
    const run = await agent.run({ message: "active", signal: canceller.signal });
    await gate.firstWait;
    agent.stopAccepting();
    assert.deepEqual(fileSource.closedIds, [idleId]);
    canceller.abort();
    // The tool is still running.
    assert.deepEqual(fileSource.closedIds, [idleId, run.sessionId]);
    gate.open();
    await run.result.catch(() => undefined);
    await agent.close();
    assert.equal(fileSource.closedIds.length, 2);
  });

  it("can provide the built-in tools", async (t) => {
    const folder = await tempDir(t, { "a.txt": "found me" });
    const builtIn: ToolSource = {
      name: "built-in",
      open: () => Promise.resolve({ tools: builtinTools(), close: () => Promise.resolve() }),
    };
    const { agent } = createAgent(t, [builtIn], [callTools(["read", { path: "a.txt" }]), "done"]);
    const outputs: string[] = [];
    for await (const event of await agent.run({ message: "x", projectDir: folder.path }))
      if (event.type === "tool_result") outputs.push(event.output);
    assert.deepEqual(outputs, ["1\tfound me"]);
  });

  it("is opened again for another project folder, and closed when its session is deleted", async (t) => {
    const folder = await tempDir(t);
    const fileSource = createSource("files", ["find"]);
    const { agent } = createAgent(t, [fileSource], ["one", "two"]);
    const { sessionId } = await (await agent.run({ message: "x" })).result;
    await (
      await agent.run({ message: "y", sessionId, projectDir: folder.path })
    ).result;
    assert.deepEqual(
      fileSource.openedSessions.map(({ projectDir }) => projectDir),
      [agent.projectDir, folder.path],
    );
    await agent.sessions.delete(sessionId);
    assert.deepEqual(fileSource.closedIds, [sessionId, sessionId]);
  });

  it("of an MCP server in the run input is kept for the session's next run, and closed with the agent", async (t) => {
    const sourcesByName = new Map<string, ReturnType<typeof createSource>>();
    const mcpServerFactory = {
      source: ({ name }: McpServer) => {
        const namedSource = sourcesByName.get(name) ?? createSource(name, [`${name}_say`]);
        sourcesByName.set(name, namedSource);
        return namedSource;
      },
    };
    const provider = new ScriptedProvider(["one", "two", "three"]);
    const agent = new Agent({ providers: [provider], tools: [createTool("own")], mcpServerFactory });
    t.after(() => agent.close());
    const servers = [{ name: "a", command: "a", args: [], env: {} }];
    const run = await agent.run({ message: "x", mcpServers: servers });
    await run.result;
    await run.result;
    const { sessionId } = run;
    await (
      await agent.run({ message: "y", sessionId, mcpServers: servers })
    ).result;
    assert.deepEqual([sourcesByName.get("a")?.openedSessions.length, sourcesByName.get("a")?.closedIds.length], [1, 0]);
    await (
      await agent.run({ message: "z", sessionId })
    ).result;
    const toolRequests = provider.requests.filter(({ tools }) => tools.length > 0);
    assert.deepEqual(
      toolRequests.map(({ tools }) => tools.map(({ name }) => name)),
      [["a_say", "own"], ["a_say", "own"], ["own"]],
    );
    await agent.close();
    assert.deepEqual(sourcesByName.get("a")?.closedIds, [sessionId]);
  });

  it("of an MCP server with an invalid address, or in a list of more than 64 servers, is rejected", async (t) => {
    const { agent } = createAgent(t, [], ["one"]);
    const invalidServer = { name: "a", url: "nowhere", headers: {} };
    await assert.rejects(agent.run({ message: "x", mcpServers: [invalidServer] }), {
      message: "mcpServers[0].url: expected an address with http or https",
    });
    await assert.rejects(agent.run({ message: "x", mcpServers: Array.from({ length: 65 }, () => invalidServer) }), {
      message: "mcpServers: expected a list of at most 64 MCP servers",
    });
  });

  it("in the tools of a run is closed with the run", async (t) => {
    const [agentSource, runSource] = [createSource("own", ["a"]), createSource("brought", ["b"])];
    const { agent, readOfferedTools } = createAgent(t, [agentSource], ["one", "two"]);
    const run = await agent.run({ message: "x", tools: [createTool("c"), runSource] });
    await run.result;
    await run.result;
    assert.deepEqual(
      [runSource.openedSessions.length, runSource.closedIds.length, agentSource.openedSessions.length],
      [1, 1, 0],
    );
    await (
      await agent.run({ message: "y", sessionId: run.sessionId })
    ).result;
    assert.deepEqual(readOfferedTools(), [["b", "c"], ["a"]]);
  });

  it("that cannot be opened is reported on the bus and to the model, and opened again by the next run", async (t) => {
    const failingSource: ToolSource = { name: "github", open: () => Promise.reject(new Error("no such server")) };
    const emptySource: ToolSource = { name: "empty", open: () => Promise.resolve(undefined as never) };
    const sourceWithoutTools = {
      name: "bare",
      open: () => Promise.resolve({ close: () => Promise.resolve() } as never),
    };
    const duplicateSource = createSource("doubled", ["find"]);
    const invalidSource = createSource("odd", ["find"]);
    invalidSource.tools = [{ ...createTool("find"), name: "find.all" }];
    const fileSource = createSource("files", ["find"]);
    const { agent, provider, readOfferedTools } = createAgent(
      t,
      [failingSource, emptySource, sourceWithoutTools, fileSource, duplicateSource, invalidSource],
      ["one", "two"],
    );
    const failures: string[] = [];
    agent.on("tools.failed", ({ source: name, error }) => failures.push(`${name}: ${error.message}`));
    const run = await agent.run({ message: "x" });
    await run.result;
    assert.deepEqual(readOfferedTools(), [["find"]]);
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
    failingSource.open = createSource("github", ["pull"]).open;
    await (
      await agent.run({ message: "y", sessionId: run.sessionId })
    ).result;
    assert.deepEqual(readOfferedTools().at(-1), ["find", "pull"]);
    assert.equal(fileSource.openedSessions.length, 1);
  });

  it("that hangs does not block the cancel of a run, and is closed if it opens later", async (t) => {
    const fileSource = createSource("files", ["find"]);
    let signalOpening = (): void => undefined;
    const openStart = new Promise<void>((resolve) => (signalOpening = resolve));
    let resolveOpen = (): void => undefined;
    const slowSource: ToolSource = {
      name: "slow",
      open: async (session) => {
        signalOpening();
        await new Promise<void>((resolve) => (resolveOpen = resolve));
        return fileSource.open(session);
      },
    };
    const { agent } = createAgent(t, [slowSource], ["one"]);
    const cancelController = new AbortController();
    const run = agent.run({ message: "x", signal: cancelController.signal });
    await openStart;
    cancelController.abort();
    await assert.rejects(run, { code: "run_cancelled" });
    assert.equal((await agent.sessions.list()).total, 0);
    resolveOpen();
    await agent.close();
    assert.deepEqual([fileSource.openedSessions.length, fileSource.closedIds.length], [1, 1]);
  });

  it("is rejected without a name, or with the name of another source", () => {
    const providers = [new ScriptedProvider([])];
    const failToOpen = () => Promise.reject(new Error());
    const assertRejected = (tools: readonly unknown[], message: RegExp) =>
      assert.throws(() => new Agent({ providers, tools: tools as ToolSource[] }), { code: "invalid_input", message });
    assertRejected([createTool("a"), { open: failToOpen }], /^tools\[1\]: expected .* name$/);
    assertRejected([createSource("a", []), createSource("a", [])], /distinct names, got a twice/);
    assertRejected([createTool("a"), createTool("a")], /distinct names, got a twice/);
  });

  it("is closed when idle or beyond 32 idle sessions, and is missing in a run if it does not open in time", async () => {
    const fileSource = createSource("files", ["find"]);
    const bus = new Bus<BusEvents>(() => undefined);
    const createSession = (sessionId: string) => ({
      sessionId,
      projectDir: "/",
      runId: "run",
      logger: silentLogger,
      signal: new AbortController().signal,
    });
    const toolList = { tools: [], sources: [fileSource] };
    const shortIdleSources = new ToolSources([fileSource], bus, silentLogger, { openTimeoutMs: 60_000, idleMs: 1 });
    (await shortIdleSources.open(toolList, createSession("a"))).release();
    await waitUntil(() => fileSource.closedIds.length > 0);

    const hangingSource: ToolSource = { name: "hanging", open: () => new Promise(() => undefined) };
    const shortTimeoutSources = new ToolSources([hangingSource], bus, silentLogger, {
      openTimeoutMs: 1,
      idleMs: 60_000,
    });
    const failures: string[] = [];
    bus.on("tools.failed", ({ error }) => failures.push(error.message));
    const openedTools = await shortTimeoutSources.open(
      { tools: [createTool("own")], sources: [hangingSource] },
      createSession("a"),
    );
    assert.deepEqual([openedTools.tools.map(({ name }) => name), openedTools.missingSources], [["own"], ["hanging"]]);
    assert.deepEqual(failures, ["it was not ready within 0.001 s"]);

    const manySources = new ToolSources([fileSource], bus, silentLogger);
    const openTools = await manySources.open(toolList, createSession("held"));
    for (let i = 0; i < 40; i += 1) (await manySources.open(toolList, createSession(`s${i}`))).release();
    assert.deepEqual(fileSource.closedIds.slice(1), ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"]);
    openTools.release();
    assert.equal(fileSource.closedIds.at(-1), "s8");
    await manySources.close();
    assert.equal(fileSource.closedIds.length, fileSource.openedSessions.length);
  });

  /** Sources of an agent. `run` returns the tools, or the missing sources, of one run. */
  function createSources(
    t: TestContext,
    agentSources: readonly ToolSource[],
    timeouts: { openTimeoutMs: number; startTimeoutMs?: number },
  ) {
    const logger = createRecordingLogger();
    const bus = new Bus<BusEvents>(() => undefined);
    const sources = new ToolSources(agentSources, bus, logger, timeouts);
    t.after(() => sources.close());
    const listTools = async (sessionId: string, signal = new AbortController().signal) => {
      const toolSession = { sessionId, projectDir: "/", runId: "run", logger: silentLogger, signal };
      const { tools, missingSources, release } = await sources.open({ tools: [], sources: agentSources }, toolSession);
      release();
      return missingSources.length > 0 ? missingSources : tools.map(({ name }) => name);
    };
    return { sources, listTools, logger };
  }

  /** A source that opens when the test opens its gate. */
  function createSlowSource() {
    const openGate = createGate();
    const fileSource = createSource("files", ["find"]);
    const signals: AbortSignal[] = [];
    const openLate = async (session: ToolSession, signal: AbortSignal) => {
      signals.push(signal);
      await openGate.wait();
      return fileSource.open(session);
    };
    return { fileSource, signals, openGate, source: { name: "slow", open: openLate } satisfies ToolSource };
  }

  it("that opens later than a run waits continues to open, and is available to the session's next run", async (t) => {
    const { source: slowSource, openGate, signals, fileSource } = createSlowSource();
    const { listTools, logger } = createSources(t, [slowSource], { openTimeoutMs: 20 });
    assert.deepEqual(await listTools("a"), ["slow"]);
    assert.deepEqual(await listTools("a"), ["slow"]);
    openGate.open();
    assert.deepEqual(await listTools("a"), ["find"]);
    assert.deepEqual([signals.length, signals[0]?.aborted, fileSource.closedIds.length], [1, false, 0]);
    assert.deepEqual(logger.lines, [
      [
        "info",
        "tool source opened late; its tools are available to the session's next run",
        { source: "slow", session: "a" },
      ],
    ]);
  });

  it("that timed out in one session delays another session by 250 ms at most until it is open", async (t) => {
    const { source: slowSource, openGate } = createSlowSource();
    const { advance } = mockTime(t);
    const { listTools } = createSources(t, [slowSource], { openTimeoutMs: 2_000 });
    const firstResult = listTools("a");
    let hasEnded = false;
    void firstResult.then(() => (hasEnded = true));
    await waitTurns();
    advance(1_999);
    await waitTurns();
    assert.equal(hasEnded, false);
    advance(1);
    assert.deepEqual(await firstResult, ["slow"]);
    const secondResult = listTools("b");
    await waitTurns();
    advance(250);
    assert.deepEqual(await secondResult, ["slow"]);
    openGate.open();
    assert.deepEqual(await Promise.all([listTools("a"), listTools("b"), listTools("c")]), [
      ["find"],
      ["find"],
      ["find"],
    ]);
  });

  it("continues to open if the run that waits for it is cancelled", async (t) => {
    const { source: slowSource, openGate, signals } = createSlowSource();
    const { listTools } = createSources(t, [slowSource], { openTimeoutMs: 60_000 });
    const cancelController = new AbortController();
    const firstResult = listTools("a", cancelController.signal);
    cancelController.abort(new Error("cancelled"));
    await assert.rejects(firstResult, /^Error: cancelled$/);
    openGate.open();
    assert.deepEqual(await listTools("a"), ["find"]);
    assert.equal(signals.length, 1);
  });

  it("that never opens is aborted after startTimeoutMs, and opened again by the next run", async (t) => {
    const { source: slowSource, signals } = createSlowSource();
    const { listTools, logger } = createSources(t, [slowSource], { openTimeoutMs: 1, startTimeoutMs: 100 });
    assert.deepEqual(await listTools("a"), ["slow"]);
    await waitUntil(() => logger.lines.length > 0);
    const [[level, message, fields] = []] = logger.lines;
    assert.deepEqual([level, message], ["warn", "tool source could not be opened"]);
    assert.equal(String(fields?.["error"]), "TimeoutError: it was not ready within 0.1 s");
    assert.deepEqual(await listTools("a"), ["slow"]);
    assert.deepEqual(
      signals.map(({ aborted }) => aborted),
      [true, false],
    );
  });

  it("that still opens when the agent closes is aborted, and closed if it opens after all", async (t) => {
    const { source: slowSource, openGate, signals, fileSource } = createSlowSource();
    const { listTools, sources, logger } = createSources(t, [slowSource], { openTimeoutMs: 1 });
    assert.deepEqual(await listTools("a"), ["slow"]);
    const pendingClose = sources.close();
    assert.equal(signals[0]?.aborted, true);
    openGate.open();
    await pendingClose;
    assert.deepEqual([fileSource.openedSessions.length, fileSource.closedIds.length, logger.lines], [1, 1, []]);
  });

  it("of an MCP program starts one process for two sessions, which ends with the agent", linuxOnly, async (t) => {
    const folder = await tempDir(t);
    const env = { BEGUN: folder.at("begun"), GO: folder.at("go") };
    const servers = new McpServers({ env: PATH_ENV });
    const { listTools, sources, logger } = createSources(t, [servers.source(createFaultyStdioServer("late", env))], {
      openTimeoutMs: 500,
    });
    assert.deepEqual(await listTools("a"), ["mcp:hostile"]);
    assert.deepEqual(await listTools("b"), ["mcp:hostile"]);
    await folder.write({ go: "" });
    await waitUntil(() => logger.lines.length >= 2);
    for (const session of ["a", "b"]) assert.ok((await listTools(session)).includes("hostile__echo"));
    const pids = (await folder.read("begun")).trim().split(" ").map(Number);
    assert.deepEqual(pids.map(isAlive), [true]);
    await sources.close();
    assert.deepEqual(pids.map(isAlive), [false]);
  });
});
