import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, it, type TestContext } from "node:test";
import type { ToolContext } from "gantry";
import type { OpenTools, McpServer } from "gantry/plugin";
import { McpServers } from "gantry/adapters/mcp-tools";
import { pause, waitUntil } from "../../helpers/server-runs.js";
import {
  startFaultyHttpServer,
  createFaultyStdioServer,
  isAlive,
  createRecordingLogger,
  openToolSource,
  PATH_ENV,
} from "../../helpers/mcp-servers.js";
import { tempDir } from "../../helpers/temp-dir.js";
import { callTool, createToolContext } from "../../helpers/tool-context.js";

type Question = Parameters<ToolContext["askUser"]>[0];
const LINUX_ONLY = { skip: process.platform === "linux" ? false : "needs /proc" };

/** Functions that start the same server. */
const START_SERVER_BY_TRANSPORT = {
  "over stdio": (_t: TestContext, behavior: string, env?: Record<string, string>) =>
    Promise.resolve<McpServer>(createFaultyStdioServer(behavior, env)),
  "over HTTP": async (t: TestContext, behavior: string, env?: Record<string, string>): Promise<McpServer> =>
    (await startFaultyHttpServer(t, behavior, env)).server,
};

function createServers(logger = createRecordingLogger()) {
  return { servers: new McpServers({ env: PATH_ENV, logger }), logger };
}

async function call(openTools: OpenTools, name: string, input: unknown = {}, changes: Partial<ToolContext> = {}) {
  const tool = openTools.tools.find((candidate) => candidate.name === `hostile__${name}`);
  assert.ok(tool, `there is no ${name}`);
  return callTool(tool, input, createToolContext("/", changes));
}

const REJECTION_WARNING = "MCP server offered invalid tools or prompts; ignored";
const assertRejects = (promise: Promise<unknown>, message: RegExp) => assert.rejects(promise, { message });

for (const [transport, startServer] of Object.entries(START_SERVER_BY_TRANSPORT))
  describe(`an MCP server ${transport}`, () => {
    it("answers 500 calls, up to 9 at the same time, from one process", async (t) => {
      const { servers } = createServers();
      const openTools = await openToolSource(t, servers.source(await startServer(t, "kind")), "/");
      const pids = new Set<string>();
      for (let round = 0; round < 50; round++) {
        const texts = Array.from({ length: 9 }, (_, i) => `${round}.${i}`);
        const results = await Promise.all(texts.map((text) => call(openTools, "echo", { text })));
        assert.deepEqual(
          results.map(({ text }) => text),
          texts,
        );
        pids.add((await call(openTools, "pid")).text);
      }
      assert.equal(pids.size, 1);
    });

    it("has only tools whose schema is not nested too deeply; a result that is nested too deeply fails its call", async (t) => {
      const { servers, logger } = createServers();
      const openTools = await openToolSource(t, servers.source(await startServer(t, "bottomless")), "/");
      assert.deepEqual(
        openTools.tools.filter(({ name }) => name === "hostile__bottomless"),
        [],
      );
      assert.match(JSON.stringify(logger.lines), /bottomless.*the input schema is nested too deeply/);
      await assertRejects(call(openTools, "big"), /^hostile: the response is nested too deeply\.$/);
      assert.equal((await call(openTools, "echo", { text: "on" })).text, "on");
    });

    it("returns failures, images, resources and shortened text; an invalid result fails its call", async (t) => {
      const { servers } = createServers();
      const openTools = await openToolSource(t, servers.source(await startServer(t, "kind")), "/");
      assert.deepEqual(await call(openTools, "fail"), { text: "it could not", parts: [], failed: true });
      const { text, parts } = await call(openTools, "image");
      assert.deepEqual(parts, [{ type: "image", mediaType: "image/png", data: "iVBORw0KGgo=" }]);
      assert.equal(
        text,
        [
          "[an image of the type image/tiff, which cannot be shown]",
          "[audio of the type audio/wav, which cannot be played]",
          "[h://r]",
          "embedded",
          "[h://b: 3 bytes of the type a/b, which cannot be shown]",
          "[a resource: h://l, link]",
          "[content of the type hologram, which cannot be shown]",
          "[an invalid content block]",
        ].join("\n"),
      );
      assert.match(
        (await call(openTools, "big")).text,
        /^x{15000}\n\[\.\.\. 1018576 characters omitted: .*\]\nx{15000}$/,
      );
      await assertRejects(call(openTools, "broken"), /^hostile: /);
      await assertRejects(call(openTools, "broken", { both: true }), /^hostile: /);
      assert.equal((await call(openTools, "read_resource")).text, "h://a  a\nh://b c  ");
      assert.equal((await call(openTools, "read_resource", { uri: "h://a" })).text, "[h://a]\nits text");
    });

    it("reports the progress of a call", async (t) => {
      const { servers } = createServers();
      const openTools = await openToolSource(t, servers.source(await startServer(t, "kind")), "/");
      const progressTexts: string[] = [];
      await call(openTools, "progress", {}, { progress: (text) => void progressTexts.push(text) });
      assert.deepEqual(progressTexts, ["1/3 step 1\n", "2/3 step 2\n", "3/3 step 3\n"]);
    });

    it("elicits values from the user field by field; without a user the elicitation is declined", async (t) => {
      const { servers } = createServers();
      const openTools = await openToolSource(t, servers.source(await startServer(t, "kind")), "/");
      const questions: Question[] = [];
      const answers = ["Ada", "many", "36", "blue", "yes"];
      const askUser = (request: Question) => {
        questions.push(request);
        return Promise.resolve(answers.shift());
      };
      const { text } = await call(openTools, "ask", {}, { askUser });
      assert.deepEqual(JSON.parse(text), {
        action: "accept",
        content: { name: "Ada", age: 36, colour: "blue", sure: true },
      });
      assert.deepEqual(
        questions.map(({ title, choices }) => [title.split("\n").slice(1).join(" "), choices]),
        [
          ["Name", undefined],
          ["age", undefined],
          ['age ("many" is not valid; expected a whole number)', undefined],
          ["colour", ["red", "blue"]],
          ["sure", ["yes", "no"]],
        ],
      );
      assert.match(questions[0]?.title ?? "", /^hostile asks: Who\?\n/);
      assert.deepEqual(JSON.parse((await call(openTools, "ask")).text), { action: "decline" });
    });

    it("receives a decline for an elicitation while calls of two sessions are open; the user is not asked", async (t) => {
      const { servers } = createServers();
      const source = servers.source(await startServer(t, "kind"));
      const [firstTools, secondTools] = await Promise.all([
        openToolSource(t, source, "/", "one"),
        openToolSource(t, source, "/", "two"),
      ]);
      const callController = new AbortController();
      const hangingCall = call(firstTools, "hang", {}, { sessionId: "one", signal: callController.signal });
      const askUser = () => assert.fail("no user is asked");
      const { text } = await call(secondTools, "ask", {}, { sessionId: "two", askUser });
      assert.deepEqual(JSON.parse(text), { action: "decline" });
      callController.abort(new Error("enough"));
      await assertRejects(hangingCall, /^enough$/);
    });

    it("that elicits endlessly in a call has 32 forms shown, one at a time, until the call times out", async (t) => {
      const { servers } = createServers();
      const mcpServer = await startServer(t, "kind");
      const openTools = await openToolSource(t, servers.source(mcpServer, { timeout: 2 }), "/");
      let [questionCount, openQuestions, maxOpenQuestions] = [0, 0, 0];
      const askUser = async () => {
        questionCount += 1;
        maxOpenQuestions = Math.max(maxOpenQuestions, (openQuestions += 1));
        await new Promise(setImmediate);
        openQuestions -= 1;
        return "so";
      };
      await assertRejects(call(openTools, "nag", {}, { askUser }), /^hostile did not answer within 2 s/);
      assert.deepEqual([questionCount, maxOpenQuestions], [32, 1]);
    });

    it("has no queued forms shown after their call ends", async (t) => {
      const openTools = await openToolSource(t, createServers().servers.source(await startServer(t, "kind")), "/");
      let [questionCount, openQuestions, maxOpenQuestions] = [0, 0, 0];
      const askUser = async () => {
        questionCount += 1;
        maxOpenQuestions = Math.max(maxOpenQuestions, (openQuestions += 1));
        await new Promise(setImmediate);
        openQuestions -= 1;
        return "so";
      };
      assert.equal((await call(openTools, "nag", { at_once: true }, { askUser })).text, "never mind");
      assert.equal(maxOpenQuestions, 1);
      const earlierCount = questionCount;
      await call(openTools, "echo", {}, { askUser });
      assert.equal(questionCount, earlierCount);
    });

    it("receives notifications/cancelled for a cancelled call and answers the next call", async (t) => {
      const folder = await tempDir(t);
      const { servers } = createServers();
      const openTools = await openToolSource(
        t,
        servers.source(await startServer(t, "kind", { CANCELLED: folder.at("cancelled") })),
        "/",
      );
      const callController = new AbortController();
      const hangingCall = call(openTools, "hang", {}, { signal: callController.signal });
      await call(openTools, "echo");
      callController.abort(new Error("enough"));
      await assertRejects(hangingCall, /^enough$/);
      await waitUntil(async () => /requestId/.test(await readFile(folder.at("cancelled"), "utf8").catch(() => "")));
      assert.equal((await call(openTools, "echo", { text: "on" })).text, "on");
    });

    it("that does not answer within the timeout fails the call and answers the next call", async (t) => {
      const { servers } = createServers();
      const openTools = await openToolSource(t, servers.source(await startServer(t, "kind"), { timeout: 3 }), "/");
      await assertRejects(call(openTools, "hang"), /^hostile did not answer within 3 s; the tool may have run\.$/);
      assert.equal((await call(openTools, "echo", { text: "on" })).text, "on");
    });

    it("changes its tools with 20,000 list_changed notifications, which log their invalid entries once", async (t) => {
      const { servers, logger } = createServers();
      const openTools = await openToolSource(t, servers.source(await startServer(t, "kind")), "/");
      const initialTools = openTools.tools;
      assert.equal(openTools.tools, initialTools);
      await call(openTools, "change", { times: 20_000 });
      await waitUntil(() => openTools.tools.some(({ name }) => name === "hostile__new"));
      await assertRejects(callTool(openTools.tools.at(-2)!, {}, createToolContext("/")), /^hostile: no tool new\.$/);
      // On a loaded machine, a listing may time out, which is logged once.
      const messages = logger.lines.filter(([level]) => level !== "debug").map(([, message]) => message);
      const listingFailure = "MCP server listing failed; the previous listing stays in use";
      assert.ok(messages.filter((message) => message === listingFailure).length <= 1);
      assert.deepEqual(
        messages.filter((message) => message !== listingFailure),
        [REJECTION_WARNING],
      );
    });

    it("that floods the client with notifications does not block the event loop", async (t) => {
      const { servers } = createServers();
      const openTools = await openToolSource(t, servers.source(await startServer(t, "kind")), "/");
      let turnCount = 0;
      const timer = setInterval(() => (turnCount += 1), 1);
      assert.equal((await call(openTools, "flood")).text, "flooded");
      clearInterval(timer);
      assert.ok(turnCount > 1, `${turnCount} turns of the event loop during the flood`);
      assert.equal((await call(openTools, "echo", { text: "on" })).text, "on");
    });

    it("that sends a response of 9 MB fails the call and answers the next call", async (t) => {
      const { servers } = createServers();
      const openTools = await openToolSource(t, servers.source(await startServer(t, "kind")), "/");
      await assertRejects(call(openTools, "endless"), /hostile: /);
      assert.equal((await call(openTools, "echo", { text: "on" })).text, "on");
    });

    it("that offers invalid tools and prompts has these renamed, cleaned or ignored, with one warning", async (t) => {
      const { servers, logger } = createServers();
      const openTools = await openToolSource(t, servers.source(await startServer(t, "lies")), "/");
      const toolNames = openTools.tools.map(({ name }) => name);
      assert.deepEqual(
        toolNames.map((name) => name.replace(/_[0-9a-f]{8}$/, "_#")),
        [
          "hostile__good",
          `hostile__${"x".repeat(46)}_#`,
          "hostile__delete_all_rm_-rf_#",
          "hostile__delete_all__rm_-rf_#",
          "hostile__long",
          "hostile__hidden",
          "hostile__none",
          "hostile__arms",
          "hostile__looks-around",
          "hostile__read_resource",
        ],
      );
      assert.equal(new Set(toolNames).size, toolNames.length);
      const origins = openTools.tools.map(({ origin }) => origin);
      for (const toolName of ["delete all; rm -rf", "x".repeat(100)])
        assert.ok(origins.includes(`mcp:hostile/${toolName}`), toolName);
      assert.ok(toolNames.every((name) => /^[a-zA-Z0-9_-]{1,64}$/.test(name)));
      const findTool = (name: string) => openTools.tools.find((candidate) => candidate.name === `hostile__${name}`);
      assert.equal(findTool("long")?.description.length, 2_048);
      assert.equal(findTool("hidden")?.description, "Is[8m hidden.\nSo.");
      assert.deepEqual(findTool("none")?.inputSchema, { type: "object", properties: {} });
      assert.deepEqual(findTool("arms")?.inputSchema, {
        type: "object",
        properties: { a: { type: "string" }, b: { type: "array", items: {} } },
      });
      assert.deepEqual(findTool("looks-around")?.inputSchema, {
        type: "object",
        properties: { a: { type: "string" }, b: { type: "array", items: {} } },
      });
      const [[level, message, fields] = ["", "", {}], ...otherLines] = logger.lines.filter(
        ([lineLevel]) => lineLevel !== "debug",
      );
      assert.deepEqual(
        [level, message, otherLines],
        ["warn", "MCP server offered invalid tools or prompts; ignored", []],
      );
      assert.match(String(fields["left"]), /^"good": duplicate tool name; .*; and \d+ more$/s);
      assert.deepEqual(
        openTools.prompts?.map(({ name, hint, description }) => [
          name.replace(/_[0-9a-f]{8}$/, "_#"),
          hint,
          description,
        ]),
        [
          ["hostile:review", "<file> [how]", "Reviews. Two lines."],
          ["hostile:odd_name__#", "", ""],
        ],
      );
    });

    it("offers at most 2,048 of 10,000 tools, and read_resource", async (t) => {
      const { servers } = createServers();
      const openTools = await openToolSource(t, servers.source(await startServer(t, "crowd")), "/");
      assert.equal(openTools.tools.length, 2049);
    });

    it("with an endless tools/list of one tool per page offers 64 tools, and read_resource", async (t) => {
      const { servers } = createServers();
      const openTools = await openToolSource(t, servers.source(await startServer(t, "endless-list")), "/");
      assert.equal(openTools.tools.length, 65);
    });

    it("with an endless tools/list of 30,000 tools per page offers 2,048 tools, and read_resource", async (t) => {
      const { servers } = createServers();
      const openTools = await openToolSource(t, servers.source(await startServer(t, "pages")), "/");
      assert.equal(openTools.tools.length, 2049);
    });

    for (const [problem, behavior, expectedCause] of [
      ["an error response to tools/list", "untold", /^not today$/],
      ["a response to tools/list without tools", "listless", /^the response to tools\/list has no tools$/],
      ["an unsupported protocol version", "old", /^Server's protocol version is not supported: 1999-01-01$/],
    ] as const)
      it(`fails to open with the cause: ${problem}`, async (t) => {
        const { servers } = createServers();
        const source = servers.source(await startServer(t, behavior));
        await assertRejects(
          source.open({ sessionId: "s", projectDir: "/" }, new AbortController().signal),
          expectedCause,
        );
      });

    it("that never answers initialize fails to open with the reason of the abort signal", async (t) => {
      const { servers } = createServers();
      const source = servers.source(await startServer(t, "silent"));
      const callController = new AbortController();
      const openPromise = source.open({ sessionId: "s", projectDir: "/" }, callController.signal);
      // Time: the server has probably started after the pause. The result is the same before the start.
      await pause(100);
      callController.abort(new Error("enough"));
      await assertRejects(openPromise, /^enough$/);
      // The message of the platform's own abort reason cannot be changed.
      await assert.rejects(source.open({ sessionId: "s", projectDir: "/" }, AbortSignal.timeout(10)), {
        name: "TimeoutError",
      });
    });

    it("offers prompts with positional, quoted and named arguments", async (t) => {
      const { servers } = createServers();
      const openTools = await openToolSource(t, servers.source(await startServer(t, "kind")), "/");
      const [reviewPrompt] = openTools.prompts ?? [];
      assert.ok(reviewPrompt);
      const getPromptArguments = async (argumentText: string) =>
        JSON.parse((await reviewPrompt.prompt(argumentText, new AbortController().signal)).text) as unknown;
      assert.deepEqual(await getPromptArguments("a.ts with great care"), { file: "a.ts", how: "with great care" });
      assert.deepEqual(await getPromptArguments('"a file.ts"'), { file: "a file.ts" });
      assert.deepEqual(await getPromptArguments("how='so so' x=1"), { how: "so so", file: "x=1" });
      await assertRejects(getPromptArguments("how=so"), /^file: expected a value after \/review$/);
    });

    it("offers only the configured tools, and its annotations are used only if the server is trusted", async (t) => {
      const { servers } = createServers();
      const mcpServer = await startServer(t, "kind");
      const getKinds = async (options: Parameters<McpServers["source"]>[1]) =>
        (await openToolSource(t, servers.source(mcpServer, options), "/")).tools.map((tool) => [
          tool.name,
          tool.origin,
          tool.kind,
          tool.parallel,
          tool.needsPermission,
        ]);
      assert.deepEqual(await getKinds({ tools: ["echo", "p?d"] }), [
        ["hostile__echo", "mcp:hostile/echo", "other", false, true],
        ["hostile__pid", "mcp:hostile/pid", "other", false, true],
      ]);
      assert.deepEqual(await getKinds({ tools: ["e*o", "pid"], trusted: true }), [
        ["hostile__echo", "mcp:hostile/echo", "read", true, false],
        ["hostile__pid", "mcp:hostile/pid", "other", false, true],
      ]);
      // `wipe` is read-only and destructive, `note` is neither destructive nor open-world, `post` may be open-world.
      const names = ["wipe", "note", "post"];
      const getPermissions = async (trusted: boolean) =>
        (await getKinds({ tools: names, trusted })).map(([, , kind, , needsPermission]) => [kind, needsPermission]);
      const guarded = ["other", true];
      assert.deepEqual(await getPermissions(false), [guarded, guarded, guarded]);
      assert.deepEqual(await getPermissions(true), [guarded, ["other", false], guarded]);
    });
  });

describe("the process of an MCP server", () => {
  it("is shared by the sessions of a folder and ends with the last session", LINUX_ONLY, async (t) => {
    const folder = await tempDir(t);
    const { servers } = createServers();
    const source = servers.source(createFaultyStdioServer("kind"));
    assert.equal(servers.source(createFaultyStdioServer("kind")), source);
    const [firstTools, secondTools, otherFolderTools] = await Promise.all([
      openToolSource(t, source, "/", "one"),
      openToolSource(t, source, "/", "two"),
      openToolSource(t, source, folder.path, "three"),
    ]);
    const getPid = async (openTools: OpenTools) => Number((await call(openTools, "pid")).text);
    const pids = await Promise.all([firstTools, secondTools, otherFolderTools].map(getPid));
    assert.equal(pids[0], pids[1]);
    assert.notEqual(pids[0], pids[2]);
    await firstTools.close();
    assert.equal(await getPid(secondTools), pids[0]);
    await secondTools.close();
    assert.deepEqual(pids.map(isAlive), [false, false, true]);
  });

  it("receives only PATH, PWD, GANTRY_CALL and the configured environment variables", async (t) => {
    const { servers } = createServers();
    const openTools = await openToolSource(t, servers.source(createFaultyStdioServer("kind", { OWN: "1" })), "/");
    const { text } = await call(openTools, "env");
    const variableNames = Object.keys(JSON.parse(text) as object).sort();
    assert.deepEqual(
      variableNames.filter((name) => name !== "GANTRY_CALL"),
      ["OWN", "PATH", "PWD"].filter((name) => variableNames.includes(name)),
    );
  });

  it("that exits during a call fails the call and restarts for the next call, with a delay after a second exit", async (t) => {
    const { servers, logger } = createServers();
    const openTools = await openToolSource(t, servers.source(createFaultyStdioServer("kind")), "/");
    const { text: firstPid } = await call(openTools, "pid");
    await assertRejects(call(openTools, "die"), /^hostile: the server exited with code 7; the tool may have run\.$/);
    const { text: restartedPid } = await call(openTools, "pid");
    assert.notEqual(restartedPid, firstPid);
    await assertRejects(call(openTools, "die"), /exited with code 7/);
    await assertRejects(call(openTools, "echo"), /^hostile: the server exited with code 7 \(next attempt in 1 s\)\.$/);
    await waitUntil(async () => (await call(openTools, "echo", { text: "on" }).catch(() => undefined))?.text === "on");
    assert.deepEqual(
      logger.lines.filter(([level]) => level !== "debug").map(([, message]) => message),
      [
        "MCP server offered invalid tools or prompts; ignored",
        ...Array.from({ length: 2 }, () => "MCP server exited; it restarts on the next call"),
      ],
    );
  });

  it("that is killed restarts for the next call", LINUX_ONLY, async (t) => {
    const { servers } = createServers();
    const openTools = await openToolSource(t, servers.source(createFaultyStdioServer("kind")), "/");
    const pid = Number((await call(openTools, "pid")).text);
    const hangingCall = call(openTools, "hang");
    await call(openTools, "echo");
    process.kill(pid, "SIGKILL");
    await assertRejects(hangingCall, /^hostile: the server was terminated by SIGKILL; the tool may have run/);
    assert.notEqual(Number((await call(openTools, "pid")).text), pid);
  });

  it("that cannot start reports the cause with secrets redacted, and delays the next attempt after two failures", async () => {
    const { servers } = createServers();
    const openServer = (server: McpServer) =>
      servers.source(server).open({ sessionId: "s", projectDir: "/" }, new AbortController().signal);
    await assertRejects(
      openServer({ ...createFaultyStdioServer("kind"), command: "no-such-program" }),
      /^command no-such-program or the working directory of hostile was not found/,
    );
    const failingServer = createFaultyStdioServer("dies", { SECRET_KEY: "abcdef0123456789" });
    for (let i = 0; i < 2; i++)
      await assertRejects(
        openServer(failingServer),
        /^the server exited with code 3; stderr: cannot start with \[redacted\]$/,
      );
    await assertRejects(
      openServer(failingServer),
      /^the server exited with code 3; stderr: cannot start with \[redacted\] \(next attempt in 1 s\)$/,
    );
  });

  it("that did not start in time delays the next attempt; an aborted attempt does not", async () => {
    const { servers } = createServers();
    const openServer = (signal: AbortSignal) =>
      servers.source(createFaultyStdioServer("silent")).open({ sessionId: "s", projectDir: "/" }, signal);
    await assertRejects(openServer(AbortSignal.abort(new Error("cancelled"))), /^cancelled$/);
    await assert.rejects(openServer(AbortSignal.timeout(300)), { name: "TimeoutError" });
    await assertRejects(
      openServer(new AbortController().signal),
      /^the server did not start in time \(next attempt in 1\d\d s\)$/,
    );
  });

  it("that prints invalid messages still answers calls", async (t) => {
    const { servers } = createServers();
    const openTools = await openToolSource(t, servers.source(createFaultyStdioServer("garbage")), "/");
    assert.equal((await call(openTools, "echo", { text: "on" })).text, "on");
  });

  it("that prints an endless line fails to open with the limit of 8 MB", async () => {
    const { servers } = createServers();
    const source = servers.source(createFaultyStdioServer("one-line"));
    await assertRejects(
      source.open({ sessionId: "s", projectDir: "/" }, new AbortController().signal),
      /^the server sent a message larger than 8 MB/,
    );
  });

  it(
    "ends with its child process although both ignore SIGTERM, and its last stderr is logged",
    LINUX_ONLY,
    async (t) => {
      const folder = await tempDir(t);
      const { servers, logger } = createServers();
      const openTools = await openToolSource(
        t,
        servers.source(createFaultyStdioServer("stubborn", { PIDS: folder.at("pids") })),
        "/",
      );
      const pids = (await folder.read("pids")).split(" ").map(Number);
      assert.deepEqual(pids.map(isAlive), [true, true]);
      await openTools.close();
      assert.deepEqual(pids.map(isAlive), [false, false]);
      const [, , fields] = logger.lines.find(([, message]) => message === "MCP server exited") ?? [];
      assert.match(String(fields?.["stderr"]), /^e{4000,4096}\nlast words$/);
    },
  );
});

describe("an MCP server at a URL", () => {
  it("that has lost its session answers the next call", async (t) => {
    const { servers } = createServers();
    const { server, kill } = await startFaultyHttpServer(t, "forgets");
    const openTools = await openToolSource(t, servers.source(server), "/");
    await call(openTools, "echo");
    await kill("SIGUSR2");
    // Time: the signal has probably arrived after the pause. The call also succeeds before the signal.
    await pause(50);
    assert.equal((await call(openTools, "echo", { text: "on" })).text, "on");
  });

  it("that is killed fails its calls, and answers calls after a restart", async (t) => {
    const { servers } = createServers();
    const firstServer = await startFaultyHttpServer(t, "kind");
    const openTools = await openToolSource(t, servers.source(firstServer.server), "/");
    const brokenCall = assertRejects(call(openTools, "hang"), /^hostile: the response was incomplete\.$/);
    await call(openTools, "echo");
    await firstServer.kill();
    await brokenCall;
    await assertRejects(call(openTools, "echo"), /^hostile: the server is unreachable \(ECONNREFUSED\)\.$/);
    await startFaultyHttpServer(t, "kind", { PORT: new URL(firstServer.server.url).port });
    assert.equal((await call(openTools, "echo", { text: "on" })).text, "on");
  });

  it("works over HTTP with SSE, with and without type sse; a closed event stream fails the call", async (t) => {
    const { servers } = createServers();
    const { server, kill } = await startFaultyHttpServer(t, "sse");
    for (const mcpServer of [server, { ...server, type: "sse" as const }]) {
      const openTools = await openToolSource(t, servers.source(mcpServer), "/");
      assert.equal((await call(openTools, "echo", { text: "so" })).text, "so");
      if (!("type" in mcpServer)) await openTools.close();
      else {
        const endedCall = assertRejects(
          call(openTools, "hang"),
          /^hostile: the event stream ended; the tool may have run/,
        );
        await call(openTools, "echo");
        await kill();
        await endedCall;
      }
    }
  });

  it("receives the configured headers, which are not sent to the target of a redirect", async (t) => {
    const folder = await tempDir(t);
    const { servers } = createServers();
    const redirectTarget = await startFaultyHttpServer(t, "kind", { SEEN: folder.at("other") });
    const { server } = await startFaultyHttpServer(t, "elsewhere", {
      SEEN: folder.at("own"),
      ELSEWHERE: redirectTarget.server.url,
    });
    const headers = { Authorization: "Bearer abc123def456" };
    await assertRejects(
      servers.source({ ...server, headers }).open({ sessionId: "s", projectDir: "/" }, new AbortController().signal),
      /Redirect to http:\/\/127\.0\.0\.1:\d+\/mcp not followed/,
    );
    assert.match(await folder.read("own"), /"authorization":"Bearer abc123def456"/);
    await assert.rejects(folder.read("other"));
    await openToolSource(t, servers.source({ ...redirectTarget.server, headers }), "/");
    assert.match(await folder.read("other"), /"authorization":"Bearer abc123def456"/);
  });

  it("that sets extreme retry delays for its event stream is polled at a limited rate", async (t) => {
    const folder = await tempDir(t);
    const { servers } = createServers();
    const { server } = await startFaultyHttpServer(t, "again", { SEEN: folder.at("seen") });
    const openTools = await openToolSource(t, servers.source(server), "/");
    const countRequests = async () => (await folder.read("seen")).match(/^GET /gm)?.length ?? 0;
    await waitUntil(async () => (await countRequests()) >= 2);
    const [earlierCount, startMs] = [await countRequests(), performance.now()];
    // Time: this test measures the rate of requests.
    await pause(600);
    const extraRequests = (await countRequests()) - earlierCount;
    assert.ok(
      extraRequests < 4 * Math.ceil((performance.now() - startMs) / 600),
      `${extraRequests} requests, more than 3 per 600 ms`,
    );
    assert.equal((await call(openTools, "echo", { text: "on" })).text, "on");
  });

  it("that returns HTTP 400 fails the call after one request; a result nested too deeply fails its call", async (t) => {
    const folder = await tempDir(t);
    const { servers } = createServers();
    const { server } = await startFaultyHttpServer(t, "picky", { SEEN: folder.at("seen") });
    const openTools = await openToolSource(t, servers.source(server), "/");
    const countRequests = async () => (await folder.read("seen")).match(/^POST /gm)?.length ?? 0;
    const earlierCount = await countRequests();
    await assertRejects(call(openTools, "fail"), /^hostile: HTTP status 400: say\[31m why\.$/);
    assert.equal((await countRequests()) - earlierCount, 1);
    await assertRejects(call(openTools, "big"), /^hostile: the response is nested too deeply\.$/);
  });

  it("that returns HTTP 401 fails to open with a hint to set the authentication headers", async (t) => {
    const { servers } = createServers();
    const { server } = await startFaultyHttpServer(t, "forbidden");
    await assertRejects(
      servers.source(server).open({ sessionId: "s", projectDir: "/" }, new AbortController().signal),
      /^HTTP status 401: set the authentication headers in the config of the server$/,
    );
  });

  it("that sends an endless response fails to open with the limit of 8 MB", async (t) => {
    const { servers } = createServers();
    const { server } = await startFaultyHttpServer(t, "fat");
    await assertRejects(
      servers.source(server).open({ sessionId: "s", projectDir: "/" }, new AbortController().signal),
      /^the server sent a message larger than 8 MB$/,
    );
  });
});
