import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, it, type TestContext } from "node:test";
import type { ToolContext } from "gantry";
import type { OpenTools, McpServer } from "gantry/plugin";
import { McpServers } from "gantry/adapters/mcp-tools";
import { pause, until } from "../../helpers/lab.js";
import { hostileAddress, hostileProgram, isLiving, noted, opened, PLAIN } from "../../helpers/mcp.js";
import { tempDir } from "../../helpers/temp.js";
import { callTool, toolContext } from "../../helpers/tool-context.js";

type Question = Parameters<ToolContext["askUser"]>[0];
const linux = { skip: process.platform === "linux" ? false : "needs /proc" };

/** Both transports of the same server. */
const WAYS = {
  "over stdio": (_t: TestContext, how: string, env?: Record<string, string>) =>
    Promise.resolve<McpServer>(hostileProgram(how, env)),
  "over HTTP": async (t: TestContext, how: string, env?: Record<string, string>): Promise<McpServer> =>
    (await hostileAddress(t, how, env)).server,
};

function serversOf(logger = noted()) {
  return { servers: new McpServers({ env: PLAIN, logger }), logger };
}

async function call(open: OpenTools, name: string, input: unknown = {}, changes: Partial<ToolContext> = {}) {
  const tool = open.tools.find((candidate) => candidate.name === `hostile__${name}`);
  assert.ok(tool, `there is no ${name}`);
  return callTool(tool, input, toolContext("/", changes));
}

const rejects = (work: Promise<unknown>, message: RegExp) => assert.rejects(work, { message });

for (const [way, server] of Object.entries(WAYS))
  describe(`an MCP server ${way}`, () => {
    it("answers 500 calls, up to 9 at the same time, from one process", async (t) => {
      const { servers } = serversOf();
      const open = await opened(t, servers.source(await server(t, "kind")), "/");
      const pids = new Set<string>();
      for (let round = 0; round < 50; round++) {
        const texts = Array.from({ length: 9 }, (_, i) => `${round}.${i}`);
        const answers = await Promise.all(texts.map((text) => call(open, "echo", { text })));
        assert.deepEqual(
          answers.map(({ text }) => text),
          texts,
        );
        pids.add((await call(open, "pid")).text);
      }
      assert.equal(pids.size, 1);
    });

    it("loses only the tool whose schema is nested too deeply; a result nested too deeply fails its call", async (t) => {
      const { servers, logger } = serversOf();
      const open = await opened(t, servers.source(await server(t, "bottomless")), "/");
      assert.deepEqual(
        open.tools.filter(({ name }) => name === "hostile__bottomless"),
        [],
      );
      assert.match(JSON.stringify(logger.lines), /bottomless.*the input schema is nested too deeply/);
      await rejects(call(open, "big"), /^hostile: the response is nested too deeply\.$/);
      assert.equal((await call(open, "echo", { text: "on" })).text, "on");
    });

    it("returns failures, images, resources and shortened text; an invalid result fails its call", async (t) => {
      const { servers } = serversOf();
      const open = await opened(t, servers.source(await server(t, "kind")), "/");
      assert.deepEqual(await call(open, "fail"), { text: "it could not", parts: [], failed: true });
      const { text, parts } = await call(open, "image");
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
      assert.match((await call(open, "big")).text, /^x{15000}\n\[\.\.\. 1018576 characters omitted: .*\]\nx{15000}$/);
      await rejects(call(open, "broken"), /^hostile: /);
      await rejects(call(open, "broken", { both: true }), /^hostile: /);
      assert.equal((await call(open, "read_resource")).text, "h://a  a\nh://b c  ");
      assert.equal((await call(open, "read_resource", { uri: "h://a" })).text, "[h://a]\nits text");
    });

    it("reports the progress of a call", async (t) => {
      const { servers } = serversOf();
      const open = await opened(t, servers.source(await server(t, "kind")), "/");
      const progressTexts: string[] = [];
      await call(open, "progress", {}, { progress: (text) => void progressTexts.push(text) });
      assert.deepEqual(progressTexts, ["1/3 step 1\n", "2/3 step 2\n", "3/3 step 3\n"]);
    });

    it("elicits values from the user field by field; without a user the elicitation is declined", async (t) => {
      const { servers } = serversOf();
      const open = await opened(t, servers.source(await server(t, "kind")), "/");
      const questions: Question[] = [];
      const answers = ["Ada", "many", "36", "blue", "yes"];
      const question = (request: Question) => {
        questions.push(request);
        return Promise.resolve(answers.shift());
      };
      const { text } = await call(open, "ask", {}, { askUser: question });
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
      assert.deepEqual(JSON.parse((await call(open, "ask")).text), { action: "decline" });
    });

    it("gets a decline for an elicitation while calls of two sessions are open, and the user is not asked", async (t) => {
      const { servers } = serversOf();
      const source = servers.source(await server(t, "kind"));
      const [firstTools, secondTools] = await Promise.all([
        opened(t, source, "/", "one"),
        opened(t, source, "/", "two"),
      ]);
      const end = new AbortController();
      const hanging = call(firstTools, "hang", {}, { sessionId: "one", signal: end.signal });
      const question = () => assert.fail("no user is asked");
      const { text } = await call(secondTools, "ask", {}, { sessionId: "two", askUser: question });
      assert.deepEqual(JSON.parse(text), { action: "decline" });
      end.abort(new Error("enough"));
      await rejects(hanging, /^enough$/);
    });

    it("that elicits endlessly in a call gets 32 forms shown, one at a time, until the call times out", async (t) => {
      const { servers } = serversOf();
      const mcpServer = await server(t, "kind");
      const open = await opened(t, servers.source(mcpServer, { timeout: 2 }), "/");
      let [questionCount, openQuestions, most] = [0, 0, 0];
      const question = async () => {
        questionCount += 1;
        most = Math.max(most, (openQuestions += 1));
        await new Promise(setImmediate);
        openQuestions -= 1;
        return "so";
      };
      await rejects(call(open, "nag", {}, { askUser: question }), /^hostile did not answer within 2 s/);
      assert.deepEqual([questionCount, most], [32, 1]);
    });

    it("gets no forms shown that are still queued when their call ends", async (t) => {
      const open = await opened(t, serversOf().servers.source(await server(t, "kind")), "/");
      let [questionCount, openQuestions, most] = [0, 0, 0];
      const question = async () => {
        questionCount += 1;
        most = Math.max(most, (openQuestions += 1));
        await new Promise(setImmediate);
        openQuestions -= 1;
        return "so";
      };
      assert.equal((await call(open, "nag", { at_once: true }, { askUser: question })).text, "never mind");
      assert.equal(most, 1);
      const before = questionCount;
      await call(open, "echo", {}, { askUser: question });
      assert.equal(questionCount, before);
    });

    it("receives notifications/cancelled for a cancelled call and answers the next call", async (t) => {
      const folder = await tempDir(t);
      const { servers } = serversOf();
      const open = await opened(t, servers.source(await server(t, "kind", { CANCELLED: folder.at("cancelled") })), "/");
      const end = new AbortController();
      const hanging = call(open, "hang", {}, { signal: end.signal });
      await call(open, "echo");
      end.abort(new Error("enough"));
      await rejects(hanging, /^enough$/);
      await until(async () => /requestId/.test(await readFile(folder.at("cancelled"), "utf8").catch(() => "")));
      assert.equal((await call(open, "echo", { text: "on" })).text, "on");
    });

    it("that does not answer within the timeout fails the call and answers the next one", async (t) => {
      const { servers } = serversOf();
      const open = await opened(t, servers.source(await server(t, "kind"), { timeout: 0.3 }), "/");
      await rejects(call(open, "hang"), /^hostile did not answer within 0\.3 s; the tool may have run\.$/);
      assert.equal((await call(open, "echo", { text: "on" })).text, "on");
    });

    it("changes its tools with 20,000 list_changed notifications, which log one line", async (t) => {
      const { servers, logger } = serversOf();
      const open = await opened(t, servers.source(await server(t, "kind")), "/");
      const before = open.tools;
      assert.equal(open.tools, before);
      await call(open, "change", { times: 20_000 });
      await until(() => open.tools.some(({ name }) => name === "hostile__new"));
      await rejects(callTool(open.tools.at(-2)!, {}, toolContext("/")), /^hostile: no tool new\.$/);
      assert.equal(logger.lines.filter(([level]) => level !== "debug").length, 1);
    });

    it("that floods the client with notifications does not block the event loop", async (t) => {
      const { servers } = serversOf();
      const open = await opened(t, servers.source(await server(t, "kind")), "/");
      let turns = 0;
      const timer = setInterval(() => (turns += 1), 1);
      assert.equal((await call(open, "flood")).text, "flooded");
      clearInterval(timer);
      assert.ok(turns > 1, `${turns} turns of the event loop during the flood`);
      assert.equal((await call(open, "echo", { text: "on" })).text, "on");
    });

    it("that sends a response of 9 MB fails the call and answers the next one", async (t) => {
      const { servers } = serversOf();
      const open = await opened(t, servers.source(await server(t, "kind")), "/");
      await rejects(call(open, "endless"), /hostile: /);
      assert.equal((await call(open, "echo", { text: "on" })).text, "on");
    });

    it("that offers invalid tools and prompts has them renamed, cleaned or ignored, with one warning", async (t) => {
      const { servers, logger } = serversOf();
      const open = await opened(t, servers.source(await server(t, "lies")), "/");
      const names = open.tools.map(({ name }) => name);
      assert.deepEqual(
        names.map((name) => name.replace(/_[0-9a-f]{8}$/, "_#")),
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
      assert.equal(new Set(names).size, names.length);
      const origins = open.tools.map(({ origin }) => origin);
      for (const toolName of ["delete all; rm -rf", "x".repeat(100)])
        assert.ok(origins.includes(`mcp:hostile/${toolName}`), toolName);
      assert.ok(names.every((name) => /^[a-zA-Z0-9_-]{1,64}$/.test(name)));
      const toolNamed = (name: string) => open.tools.find((candidate) => candidate.name === `hostile__${name}`);
      assert.equal(toolNamed("long")?.description.length, 2_048);
      assert.equal(toolNamed("hidden")?.description, "Is[8m hidden.\nSo.");
      assert.deepEqual(toolNamed("none")?.inputSchema, { type: "object", properties: {} });
      assert.deepEqual(toolNamed("arms")?.inputSchema, {
        type: "object",
        properties: { a: { type: "string" }, b: { type: "array", items: {} } },
      });
      assert.deepEqual(toolNamed("looks-around")?.inputSchema, {
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
        open.prompts?.map(({ name, hint, description }) => [name.replace(/_[0-9a-f]{8}$/, "_#"), hint, description]),
        [
          ["hostile:review", "<file> [how]", "Reviews. Two lines."],
          ["hostile:odd_name__#", "", ""],
        ],
      );
    });

    it("offers at most 256 of 10,000 tools, and read_resource", async (t) => {
      const { servers } = serversOf();
      const open = await opened(t, servers.source(await server(t, "crowd")), "/");
      assert.equal(open.tools.length, 257);
    });

    it("with an endless tools/list of one tool per page offers 64 tools, and read_resource", async (t) => {
      const { servers } = serversOf();
      const open = await opened(t, servers.source(await server(t, "endless-list")), "/");
      assert.equal(open.tools.length, 65);
    });

    it("with an endless tools/list of 30,000 tools per page offers 256 tools, and read_resource", async (t) => {
      const { servers } = serversOf();
      const open = await opened(t, servers.source(await server(t, "pages")), "/");
      assert.equal(open.tools.length, 257);
    });

    for (const [problem, how, cause] of [
      ["an error response to tools/list", "untold", /^not today$/],
      ["a response to tools/list without tools", "listless", /^the response to tools\/list has no tools$/],
      ["an unsupported protocol version", "old", /^Server's protocol version is not supported: 1999-01-01$/],
    ] as const)
      it(`fails to open with the cause: ${problem}`, async (t) => {
        const { servers } = serversOf();
        const source = servers.source(await server(t, how));
        await rejects(source.open({ sessionId: "s", projectDir: "/" }, new AbortController().signal), cause);
      });

    it("that never answers initialize fails to open with the reason of the abort signal", async (t) => {
      const { servers } = serversOf();
      const source = servers.source(await server(t, "silent"));
      const end = new AbortController();
      const opening = source.open({ sessionId: "s", projectDir: "/" }, end.signal);
      // Time: the server has probably started by then. The result is the same if it has not.
      await pause(100);
      end.abort(new Error("enough"));
      await rejects(opening, /^enough$/);
      // The message of the platform's own abort reason cannot be changed.
      await assert.rejects(source.open({ sessionId: "s", projectDir: "/" }, AbortSignal.timeout(10)), {
        name: "TimeoutError",
      });
    });

    it("offers prompts with positional, quoted and named arguments", async (t) => {
      const { servers } = serversOf();
      const open = await opened(t, servers.source(await server(t, "kind")), "/");
      const [review] = open.prompts ?? [];
      assert.ok(review);
      const promptArguments = async (words: string) =>
        JSON.parse((await review.prompt(words, new AbortController().signal)).text) as unknown;
      assert.deepEqual(await promptArguments("a.ts with great care"), { file: "a.ts", how: "with great care" });
      assert.deepEqual(await promptArguments('"a file.ts"'), { file: "a file.ts" });
      assert.deepEqual(await promptArguments("how='so so' x=1"), { how: "so so", file: "x=1" });
      await rejects(promptArguments("how=so"), /^file: expected a value after \/review$/);
    });

    it("has its readOnlyHint used only if it is trusted, and offers only the configured tools", async (t) => {
      const { servers } = serversOf();
      const mcpServer = await server(t, "kind");
      const kinds = async (use: Parameters<McpServers["source"]>[1]) =>
        (await opened(t, servers.source(mcpServer, use), "/")).tools.map((tool) => [
          tool.name,
          tool.origin,
          tool.kind,
          tool.parallel,
          tool.needsPermission,
        ]);
      assert.deepEqual(await kinds({ tools: ["echo", "p?d"] }), [
        ["hostile__echo", "mcp:hostile/echo", "other", false, true],
        ["hostile__pid", "mcp:hostile/pid", "other", false, true],
      ]);
      assert.deepEqual(await kinds({ tools: ["e*o", "pid"], trusted: true }), [
        ["hostile__echo", "mcp:hostile/echo", "read", true, false],
        ["hostile__pid", "mcp:hostile/pid", "other", false, true],
      ]);
    });
  });

describe("the process of an MCP server", () => {
  it("is shared by the sessions of a folder and ends with the last of them", linux, async (t) => {
    const folder = await tempDir(t);
    const { servers } = serversOf();
    const source = servers.source(hostileProgram("kind"));
    assert.equal(servers.source(hostileProgram("kind")), source);
    const [firstTools, secondTools, otherFolderTools] = await Promise.all([
      opened(t, source, "/", "one"),
      opened(t, source, "/", "two"),
      opened(t, source, folder.path, "three"),
    ]);
    const pidOf = async (open: OpenTools) => Number((await call(open, "pid")).text);
    const pids = await Promise.all([firstTools, secondTools, otherFolderTools].map(pidOf));
    assert.equal(pids[0], pids[1]);
    assert.notEqual(pids[0], pids[2]);
    await firstTools.close();
    assert.equal(await pidOf(secondTools), pids[0]);
    await secondTools.close();
    assert.deepEqual(pids.map(isLiving), [false, false, true]);
  });

  it("gets no environment variables except PATH, PWD, GANTRY_CALL and the configured ones", async (t) => {
    const { servers } = serversOf();
    const open = await opened(t, servers.source(hostileProgram("kind", { OWN: "1" })), "/");
    const { text } = await call(open, "env");
    const names = Object.keys(JSON.parse(text) as object).sort();
    assert.deepEqual(
      names.filter((name) => name !== "GANTRY_CALL"),
      ["OWN", "PATH", "PWD"].filter((name) => names.includes(name)),
    );
  });

  it("that exits during a call fails it and restarts for the next call, with a delay after a second exit", async (t) => {
    const { servers, logger } = serversOf();
    const open = await opened(t, servers.source(hostileProgram("kind")), "/");
    const { text: before } = await call(open, "pid");
    await rejects(call(open, "die"), /^hostile: the server exited with code 7; the tool may have run\.$/);
    const { text: after } = await call(open, "pid");
    assert.notEqual(after, before);
    await rejects(call(open, "die"), /exited with code 7/);
    await rejects(call(open, "echo"), /^hostile: the server exited with code 7 \(next attempt in 1 s\)\.$/);
    await until(async () => (await call(open, "echo", { text: "on" }).catch(() => undefined))?.text === "on");
    assert.deepEqual(
      logger.lines.filter(([level]) => level !== "debug").map(([, message]) => message),
      [
        "MCP server offered invalid tools or prompts; ignored",
        ...Array.from({ length: 2 }, () => "MCP server exited; it restarts on the next call"),
      ],
    );
  });

  it("that is killed restarts for the next call", linux, async (t) => {
    const { servers } = serversOf();
    const open = await opened(t, servers.source(hostileProgram("kind")), "/");
    const pid = Number((await call(open, "pid")).text);
    const hanging = call(open, "hang");
    await call(open, "echo");
    process.kill(pid, "SIGKILL");
    await rejects(hanging, /^hostile: the server was terminated by SIGKILL; the tool may have run/);
    assert.notEqual(Number((await call(open, "pid")).text), pid);
  });

  it("that cannot start reports the cause with secrets redacted, and delays the next attempt after two failures", async () => {
    const { servers } = serversOf();
    const open = (server: McpServer) =>
      servers.source(server).open({ sessionId: "s", projectDir: "/" }, new AbortController().signal);
    await rejects(
      open({ ...hostileProgram("kind"), command: "no-such-program" }),
      /^command no-such-program or the working directory of hostile was not found/,
    );
    const dies = hostileProgram("dies", { SECRET_KEY: "abcdef0123456789" });
    for (let i = 0; i < 2; i++)
      await rejects(open(dies), /^the server exited with code 3; stderr: cannot start with \[redacted\]$/);
    await rejects(
      open(dies),
      /^the server exited with code 3; stderr: cannot start with \[redacted\] \(next attempt in 1 s\)$/,
    );
  });

  it("that did not start in time delays the next attempt; an aborted attempt does not", async () => {
    const { servers } = serversOf();
    const open = (signal: AbortSignal) =>
      servers.source(hostileProgram("silent")).open({ sessionId: "s", projectDir: "/" }, signal);
    await rejects(open(AbortSignal.abort(new Error("cancelled"))), /^cancelled$/);
    await assert.rejects(open(AbortSignal.timeout(300)), { name: "TimeoutError" });
    await rejects(open(new AbortController().signal), /^the server did not start in time \(next attempt in 1\d\d s\)$/);
  });

  it("that prints invalid messages still answers calls", async (t) => {
    const { servers } = serversOf();
    const open = await opened(t, servers.source(hostileProgram("garbage")), "/");
    assert.equal((await call(open, "echo", { text: "on" })).text, "on");
  });

  it("that prints an endless line fails to open with the limit of 8 MB", async () => {
    const { servers } = serversOf();
    const source = servers.source(hostileProgram("one-line"));
    await rejects(
      source.open({ sessionId: "s", projectDir: "/" }, new AbortController().signal),
      /^the server sent a message larger than 8 MB/,
    );
  });

  it("ends with its child process although both ignore SIGTERM, and its last stderr is logged", linux, async (t) => {
    const folder = await tempDir(t);
    const { servers, logger } = serversOf();
    const open = await opened(t, servers.source(hostileProgram("stubborn", { PIDS: folder.at("pids") })), "/");
    const pids = (await folder.read("pids")).split(" ").map(Number);
    assert.deepEqual(pids.map(isLiving), [true, true]);
    await open.close();
    assert.deepEqual(pids.map(isLiving), [false, false]);
    const [, , fields] = logger.lines.find(([, message]) => message === "MCP server exited") ?? [];
    assert.match(String(fields?.["stderr"]), /^e{4000,4096}\nlast words$/);
  });
});

describe("an MCP server at a URL", () => {
  it("that has lost its session answers the next call", async (t) => {
    const { servers } = serversOf();
    const { server, kill } = await hostileAddress(t, "forgets");
    const open = await opened(t, servers.source(server), "/");
    await call(open, "echo");
    await kill("SIGUSR2");
    // Time: the signal has probably arrived by then. The call succeeds before it, too.
    await pause(50);
    assert.equal((await call(open, "echo", { text: "on" })).text, "on");
  });

  it("that is killed fails its calls, and answers calls after a restart", async (t) => {
    const { servers } = serversOf();
    const first = await hostileAddress(t, "kind");
    const open = await opened(t, servers.source(first.server), "/");
    const broken = rejects(call(open, "hang"), /^hostile: the response was incomplete\.$/);
    await call(open, "echo");
    await first.kill();
    await broken;
    await rejects(call(open, "echo"), /^hostile: the server is unreachable \(ECONNREFUSED\)\.$/);
    await hostileAddress(t, "kind", { PORT: new URL(first.server.url).port });
    assert.equal((await call(open, "echo", { text: "on" })).text, "on");
  });

  it("works over HTTP with SSE, with and without type sse; a closed event stream fails the call", async (t) => {
    const { servers } = serversOf();
    const { server, kill } = await hostileAddress(t, "sse");
    for (const mcpServer of [server, { ...server, type: "sse" as const }]) {
      const open = await opened(t, servers.source(mcpServer), "/");
      assert.equal((await call(open, "echo", { text: "so" })).text, "so");
      if (!("type" in mcpServer)) await open.close();
      else {
        const ended = rejects(call(open, "hang"), /^hostile: the event stream ended; the tool may have run/);
        await call(open, "echo");
        await kill();
        await ended;
      }
    }
  });

  it("receives the configured headers; the target of its redirect does not", async (t) => {
    const folder = await tempDir(t);
    const { servers } = serversOf();
    const seen = await hostileAddress(t, "kind", { SEEN: folder.at("other") });
    const { server } = await hostileAddress(t, "elsewhere", { SEEN: folder.at("own"), ELSEWHERE: seen.server.url });
    const headers = { Authorization: "Bearer abc123def456" };
    await rejects(
      servers.source({ ...server, headers }).open({ sessionId: "s", projectDir: "/" }, new AbortController().signal),
      /Redirect to http:\/\/127\.0\.0\.1:\d+\/mcp not followed/,
    );
    assert.match(await folder.read("own"), /"authorization":"Bearer abc123def456"/);
    await assert.rejects(folder.read("other"));
    await opened(t, servers.source({ ...seen.server, headers }), "/");
    assert.match(await folder.read("other"), /"authorization":"Bearer abc123def456"/);
  });

  it("that sets extreme retry delays for its event stream is polled at a limited rate", async (t) => {
    const folder = await tempDir(t);
    const { servers } = serversOf();
    const { server } = await hostileAddress(t, "again", { SEEN: folder.at("seen") });
    const open = await opened(t, servers.source(server), "/");
    const asks = async () => (await folder.read("seen")).match(/^GET /gm)?.length ?? 0;
    await until(async () => (await asks()) >= 2);
    const [before, since] = [await asks(), performance.now()];
    // Time: this test measures the rate of requests.
    await pause(600);
    const extraRequests = (await asks()) - before;
    assert.ok(extraRequests < 4 * Math.ceil((performance.now() - since) / 600), `${extraRequests} requests`);
    assert.equal((await call(open, "echo", { text: "on" })).text, "on");
  });

  it("that answers HTTP 400 fails the call after one request; a result nested too deeply fails its call", async (t) => {
    const folder = await tempDir(t);
    const { servers } = serversOf();
    const { server } = await hostileAddress(t, "picky", { SEEN: folder.at("seen") });
    const open = await opened(t, servers.source(server), "/");
    const asks = async () => (await folder.read("seen")).match(/^POST /gm)?.length ?? 0;
    const before = await asks();
    await rejects(call(open, "fail"), /^hostile: HTTP status 400: say\[31m why\.$/);
    assert.equal((await asks()) - before, 1);
    await rejects(call(open, "big"), /^hostile: the response is nested too deeply\.$/);
  });

  it("that answers HTTP 401 fails to open with a hint to set the authentication headers", async (t) => {
    const { servers } = serversOf();
    const { server } = await hostileAddress(t, "forbidden");
    await rejects(
      servers.source(server).open({ sessionId: "s", projectDir: "/" }, new AbortController().signal),
      /^HTTP status 401: set the authentication headers in the config of the server$/,
    );
  });

  it("that sends an endless response fails to open with the limit of 8 MB", async (t) => {
    const { servers } = serversOf();
    const { server } = await hostileAddress(t, "fat");
    await rejects(
      servers.source(server).open({ sessionId: "s", projectDir: "/" }, new AbortController().signal),
      /^the server sent a message larger than 8 MB$/,
    );
  });
});
