import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { pathToFileURL } from "node:url";
import { sourcePath } from "../../helpers/source-paths.js";
import { runGantry, spawnGantry, startServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp-dir.js";

/**
 * The modules of this test use the global symbols of the tokens, because the package name `gantry` resolves only inside
 * the repository.
 */
const TOKENS = `const [OPTIONS, LOGGER, HTTP_HOST] = ["options", "logger", "http-host"].map((name) => Symbol.for("gantry." + name));`;

/** A third-party HTTP transport that mounts on the shared port. */
const mountedModule = `${TOKENS}
class Mounted {
  name = "mounted";
  constructor(options, host, logger) { Object.assign(this, { options, host, logger }); }
  async start() {
    const { prefix, greeting } = this.options;
    let end;
    const ended = new Promise((resolve) => (end = resolve));
    const origin = await this.host.mount({
      prefix, fallback: false, authenticated: false,
      handler: (request, response) => response.end(greeting),
      refuse: (request, response, refusal) => { response.statusCode = refusal.status; response.end(refusal.message); },
    });
    const { logger } = this;
    return { address: origin + prefix, ended, stop: async () => { logger.info("stopped " + prefix); end(); } };
  }
}
export default {
  gantry: 1, kind: "transport", name: "mounted",
  parse(raw, { location }) {
    if (typeof raw.prefix !== "string") throw new Error(location + ".prefix: expected a string");
    return raw;
  },
  useClass: Mounted, inject: [OPTIONS, HTTP_HOST, LOGGER],
};`;

const createTransportModule = (start: string, stop = "end()") => `
class Odd {
  name = "odd";
  async start() {
    ${start}
    let end;
    const ended = new Promise((resolve) => (end = resolve));
    return { address: "odd://here", ended, stop: async (signal) => { ${stop} } };
  }
}
export default { gantry: 1, kind: "transport", name: "odd", parse: (raw) => raw, useClass: Odd };`;

const providerModule = `${TOKENS}
class Parrot {
  idleTimeoutMs = 1000; maxRetries = 0; maxWaitMs = 60000;
  constructor(options) { this.name = options.name; this.configuredModels = [{ id: "p1", name: "P 1", ownedBy: "stranger" }]; }
  async models() { return [...this.configuredModels]; }
  async *stream(request) {
    const tools = request.tools.map(({ name }) => name).join(",");
    yield { type: "text", block: "0", text: "parrot with " + tools };
    yield { type: "finish", reason: "stop", usage: { inputTokens: 1, outputTokens: 1, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 } };
  }
  async close() {}
}
export default { gantry: 1, kind: "model-provider", name: "parrot", parse: ({ name = "parrot" }) => ({ name }), useClass: Parrot, inject: [OPTIONS] };`;

const toolModule = `${TOKENS}
class Dice {
  name = "dice"; description = "Roll dice."; inputSchema = { type: "object", properties: {} };
  kind = "other"; parallel = true; needsPermission = false;
  constructor(options) { this.sides = options.sides; }
  parse() { return {}; }
  describe() { return { title: "Roll", locations: [] }; }
  async run() { return { text: String(this.sides) }; }
}
export default { gantry: 1, kind: "tool", name: "dice", parse: ({ sides = 6 }, { location }) => {
  if (typeof sides !== "number") throw new Error(location + ".sides: expected a number");
  return { sides };
}, useClass: Dice, inject: [OPTIONS] };`;

/** Creates the module of a driver that extends gantry's memory driver. */
const createDriverModule = (gantryUrl: string) => `
import { MemoryDriver } from ${JSON.stringify(gantryUrl)};
class Mine extends MemoryDriver { name = "mine"; async open() { await super.open(); console.error("mine is open"); } }
export default { gantry: 1, kind: "session-driver", name: "mine", parse: (raw) => raw, useClass: Mine };`;

describe("plugins in the config", () => {
  it("two third-party HTTP transports share the port of the HTTP API and stop in reverse order", async (t) => {
    const home = await tempDir(t, { "mounted.mjs": mountedModule });
    const server = await startServer(t, {
      home: home.path,
      config: {
        server: {
          transports: [
            "koa-http-api",
            { transport: "./mounted.mjs", prefix: "/one", greeting: "first" },
            { transport: "./mounted.mjs", prefix: "/two", greeting: "second" },
          ],
        },
      },
    });
    await server.waitForOutput(/\/two$/m);
    assert.equal((await server.fetch("/api/health")).status, 200);
    assert.equal(await (await server.fetch("/one/x")).text(), "first");
    assert.equal(await (await server.fetch("/two")).text(), "second");
    assert.equal(new Set(server.addresses.map(({ url }) => new URL(url).port)).size, 1);
    assert.deepEqual(await server.stop(), { code: 0, signal: null });
    assert.ok(server.stderr.indexOf("stopped /two") < server.stderr.indexOf("stopped /one"), server.stderr);
    assert.match(server.stderr, /stopped \/one/);
  });

  it("a provider by path and a tool by package name are used in a run", async (t) => {
    const home = await tempDir(t, {
      "parrot.mjs": providerModule,
      "node_modules/gantry-dice/package.json": '{"name":"gantry-dice","type":"module","exports":"./index.js"}',
      "node_modules/gantry-dice/index.js": toolModule,
    });
    const server = await startServer(t, {
      home: home.path,
      config: {
        providers: [{ name: "polly", driver: "./parrot.mjs" }],
        agent: { tools: ["read", { tool: "gantry-dice", sides: 20 }] },
      },
    });
    const response = await server.fetch("/api/run", { method: "POST", body: '{"message":"hi"}' });
    assert.equal(((await response.json()) as { output: string }).output, "parrot with dice,read");
    assert.equal(response.headers.get("x-model"), "polly/p1");
  });

  it("a session driver by path stores the sessions", async (t) => {
    const gantryUrl = pathToFileURL(sourcePath("src/index.ts")).href;
    const home = await tempDir(t, { "mine.mjs": createDriverModule(gantryUrl), "parrot.mjs": providerModule });
    const server = await startServer(t, {
      home: home.path,
      from: "source",
      config: { session: { driver: "./mine.mjs" }, providers: [{ driver: "./parrot.mjs" }] },
    });
    const runResponse = await server.fetch("/api/run", { method: "POST", body: '{"message":"hi"}' });
    const id = runResponse.headers.get("x-session-id");
    assert.equal((await server.fetch(`/api/sessions/${id}`)).status, 200);
    assert.match(server.stderr, /mine is open/);
  });

  it("a transport that fails to start is named in the log, and the other transports continue", async (t) => {
    for (const start of ['throw new Error("no luck")', "await Promise.reject(new Error('no luck'));"]) {
      const home = await tempDir(t, { "odd.mjs": createTransportModule(start) });
      const server = await startServer(t, {
        home: home.path,
        config: { server: { transports: ["koa-http-api", "./odd.mjs"] } },
      });
      assert.match(
        server.stderr,
        /server\.transports\[1\]: \.\/odd\.mjs could not start: no luck; the other transports continue/,
      );
      assert.equal((await server.fetch("/api/health")).status, 200);
      assert.deepEqual(await server.stop(), { code: 0, signal: null });
    }
  });

  it("a transport that fails to start and is the only one ends gantry with exit code 1 and one line", async (t) => {
    const home = await tempDir(t, { "odd.mjs": createTransportModule('throw new Error("no luck")') });
    const run = await runGantry(t, ["serve", "--transport", "./odd.mjs"], { home: home.path });
    assert.equal(run.code, 1);
    assert.match(
      run.stderr,
      /^gantry: .*config\.json: server\.transports\[0\]: \.\/odd\.mjs could not start: no luck\n$/,
    );
  });

  it("a transport that does not stop in time is logged and abandoned, and gantry exits with 0", async (t) => {
    const home = await tempDir(t, { "odd.mjs": createTransportModule("", "await new Promise(() => {})") });
    const server = await spawnGantry(t, {
      home: home.path,
      args: ["serve", "--port", "0"],
      config: { server: { transports: ["koa-http-api", "./odd.mjs"] } },
    });
    await server.waitForOutput(/odd server listening on odd:\/\/here/);
    assert.deepEqual(await server.stop(), { code: 0, signal: null });
    assert.match(server.stderr, /the transport \.\/odd\.mjs did not stop in time; abandoned/);
  });

  it("a transport that throws when it stops is logged, and gantry exits with 0", async (t) => {
    const home = await tempDir(t, { "odd.mjs": createTransportModule("", "throw new Error('cannot stop')") });
    const server = await startServer(t, {
      home: home.path,
      config: { server: { transports: ["koa-http-api", "./odd.mjs"] } },
    });
    await server.waitForOutput(/odd:\/\/here/);
    assert.deepEqual(await server.stop(), { code: 0, signal: null });
    assert.match(server.stderr, /the transport \.\/odd\.mjs failed to stop/);
  });
});

describe("an unusable plugin", () => {
  const assertRejected = async (
    t: Parameters<typeof runGantry>[0],
    files: Record<string, string>,
    config: Record<string, unknown>,
    message: RegExp,
  ) => {
    const home = await tempDir(t, files);
    const run = await runGantry(t, ["serve", "--port", "0"], { home: home.path, config });
    assert.equal(run.code, 1, run.stderr);
    assert.match(run.stderr, message);
    assert.equal(run.stderr.trim().split("\n").length, 1, run.stderr);
  };
  const createTransportConfig = (entry: unknown) => ({ server: { transports: [entry] } });

  it("ends the start with one line that names the plugin and the key of an invalid option", async (t) => {
    await assertRejected(
      t,
      { "mounted.mjs": mountedModule },
      createTransportConfig({ transport: "./mounted.mjs" }),
      /config\.json: server\.transports\[0\]\.prefix: expected a string \(an option of \.\/mounted\.mjs\)/,
    );
    await assertRejected(
      t,
      { "dice.mjs": toolModule },
      { agent: { tools: [{ tool: "./dice.mjs", sides: "six" }] } },
      /config\.json: agent\.tools\[0\]\.sides: expected a number \(an option of \.\/dice\.mjs\)/,
    );
    await assertRejected(
      t,
      {},
      { agent: { tools: [{ tool: "read", deep: 1 }] } },
      /agent\.tools\[0\]\.deep: unknown key; expected one of tool \(options of built-in tools belong under tools\)/,
    );
  });

  it("ends the start with one line if a constructor parameter has no token", async (t) => {
    const moduleWithoutToken = createTransportModule("").replace(
      'name = "odd";',
      'name = "odd"; constructor(options) { this.options = options; }',
    );
    await assertRejected(
      t,
      { "odd.mjs": moduleWithoutToken },
      createTransportConfig("./odd.mjs"),
      /server\.transports\[0\]: \.\/odd\.mjs could not be built: every parameter of the constructor of Odd needs @inject\(TOKEN\), or a token in `inject`/,
    );
  });

  it("ends the start with one line that names the missing members of the plugin's port", async (t) => {
    await assertRejected(
      t,
      { "odd.mjs": createTransportModule("").replace("async start()", "async begin()") },
      createTransportConfig("./odd.mjs"),
      /server\.transports\[0\]: \.\/odd\.mjs is not a valid transport: start is missing/,
    );
    await assertRejected(
      t,
      { "odd.mjs": createTransportModule("").replace('kind: "transport"', 'kind: "session-driver"') },
      { session: { driver: "./odd.mjs" } },
      /session\.driver: \.\/odd\.mjs is not a valid session-driver: open, close, create, get, .*instructions, .*load is missing/,
    );
  });

  it("ends the start with one line if the plugin's kind does not fit the config key", async (t) => {
    await assertRejected(
      t,
      { "odd.mjs": createTransportModule("") },
      { session: { driver: "./odd.mjs" } },
      /session\.driver: \.\/odd\.mjs is a transport, expected a session-driver/,
    );
  });
});

describe("a single-file plugin without an installed package gantry", () => {
  it("imports gantry from the running copy; another missing package is reported as not found", async (t) => {
    const folder = await tempDir(t, {
      "hello.mjs": `
        import { defineAdapter, ToolInputError } from "gantry/plugin";
        import { say } from "gantry/testing";
        class Hello {
          name = "hello"; description = "x"; inputSchema = { type: "object" }; kind = "other"; parallel = false; needsPermission = false;
          parse(input) { if (input === null) throw new ToolInputError("no"); return input; }
          describe() { return { title: "Hello", locations: [] }; }
          async run() { return { text: typeof say }; }
        }
        export default defineAdapter({ kind: "tool", name: "hello", parse: (raw) => raw, useClass: Hello });`,
    });
    const listRun = await runGantry(t, ["adapters", "--json"], {
      config: { agent: { tools: ["*", folder.at("hello.mjs")] } },
    });
    assert.equal(listRun.code, 0, listRun.stdout + listRun.stderr);
    const otherFolder = await tempDir(t, { "other.mjs": 'import "gantry-of-somebody-else"; export default 1;' });
    const rejectedRun = await runGantry(t, ["adapters", "--json"], {
      config: { agent: { tools: [otherFolder.at("other.mjs")] } },
    });
    assert.match(rejectedRun.stdout, /Cannot find package 'gantry-of-somebody-else'/);
  });
});

describe("a plugin with a create function", () => {
  const hooksPlugin = `
    import { option } from "gantry/plugin";
    export default {
      gantry: 1, kind: "transport", name: "hooks",
      schema: option.section({
        at_path: option.text("Where.", { default: "/hooks" }),
        token: option.text("A key.", { secret: true, fits: (text) => text.length > 8, expected: "nine characters" }),
      }),
      create: async ({ atPath }, { http, logger, home, configDir, projectDir, deniedPaths }) => ({
        name: "hooks",
        async start() {
          logger.info(JSON.stringify({ home, configDir, projectDir, deniedPaths }));
          const refuse = (_request, response, { status }) => response.writeHead(status).end();
          const handler = (_request, response) => response.end("hooked");
          const origin = await http.mount({ prefix: atPath, fallback: false, authenticated: false, handler, refuse });
          let end;
          return { address: origin + atPath, ended: new Promise((resolve) => (end = resolve)), stop: async () => end() };
        },
      }),
    };`;

  it("receives its options in camelCase, the HTTP host, and gantry's folders and denied paths", async (t) => {
    const home = await tempDir(t, { "hooks.mjs": hooksPlugin });
    const config = { server: { transports: ["koa-http-api", { transport: "./hooks.mjs", at_path: "/mine" }] } };
    const server = await startServer(t, { home: home.path, config });
    await server.waitForOutput(/^hooks server listening on .*\/mine$/m);
    assert.equal(await (await server.fetch("/mine")).text(), "hooked");
    const logLine = server.stderr.split("\n").find((line) => line.includes("deniedPaths")) ?? "";
    for (const path of [home.path, home.at("config.json"), server.projectDir])
      assert.ok(logLine.includes(path), logLine);
    assert.deepEqual(await server.stop(), { code: 0, signal: null });
  });

  it("ends the start for invalid options without printing the secret, and for an error in create", async (t) => {
    const home = await tempDir(t, {
      "hooks.mjs": hooksPlugin,
      "none.mjs": hooksPlugin.replace("create: async", "create: () => { throw new Error('no luck'); }, other: async"),
    });
    const readTransportError = async (entry: object) => {
      const run = await runGantry(t, ["serve", "--port", "0"], {
        home: home.path,
        config: { server: { transports: [entry] } },
      });
      assert.equal(run.code, 1);
      return run.stderr;
    };
    assert.match(
      await readTransportError({ transport: "./hooks.mjs", token: "s3cret" }),
      /config\.json: server\.transports\[0\]\.token: expected nine characters, got string \(an option of \.\/hooks\.mjs\)\n$/,
    );
    assert.match(
      await readTransportError({ transport: "./hooks.mjs", path: "/x" }),
      /\.path: unknown key; expected one of transport, at_path, token /,
    );
    assert.match(
      await readTransportError({ transport: "./none.mjs" }),
      /server\.transports\[0\]: \.\/none\.mjs could not be built: no luck\n$/,
    );
  });
});

describe("the selection of plugins in the config", () => {
  const readStartError = async (t: Parameters<typeof runGantry>[0], config: Record<string, unknown>) => {
    const run = await runGantry(t, ["serve", "--port", "0"], { config });
    assert.deepEqual([run.code, run.stdout], [1, ""], run.stderr);
    return run.stderr;
  };
  it("rejects a transport that is listed twice", async (t) => {
    assert.match(
      await readStartError(t, {
        server: { transports: ["koa-http-api", "acp-http-sse-ws", { transport: "koa-http-api" }] },
      }),
      /config\.json: server\.transports\[2\]: expected each transport once, koa-http-api is server\.transports\[0\] too/,
    );
  });
  it("rejects an unknown tool and lists the known tools", async (t) => {
    assert.match(
      await readStartError(t, { agent: { tools: ["reed"] } }),
      /agent\.tools\[0\]: unknown tool reed: expected \*, .*bash.*read.*, a package installed in the config file's folder, or a path/,
    );
  });
});

describe("hooks in the config", () => {
  const createHooksModule = (loadMessage: string) =>
    `console.error(${JSON.stringify(loadMessage)});
     export default { gantry: 1, kind: "hooks", name: "loud", create: () => ({
       beforeModelCall: ({ purpose }) => console.error("model asked for " + purpose),
       listeners: { "run.finished": () => console.error("run finished") },
       close: () => console.error("closed"),
     }) };`;

  it("are called during a run of gantry serve and closed when the server stops", async (t) => {
    const home = await tempDir(t, { "loud.mjs": createHooksModule("loaded") });
    const server = await startServer(t, { config: { hooks: ["./loud.mjs"] }, home: home.path });
    const runResponse = await server.fetch("/api/run", { method: "POST", body: '{"message":"Hi"}' });
    assert.equal(runResponse.status, 200);
    await runResponse.text();
    assert.equal((await server.stop()).code, 0);
    const lifecycle = server.stderr.match(/^(loaded|model asked for answer|run finished|closed)$/gm);
    assert.deepEqual(lifecycle, ["loaded", "model asked for answer", "run finished", "closed"]);
  });

  it("are not loaded from a project folder", async (t) => {
    const config = '{ "hooks": ["./loud.mjs"] }';
    const project = await tempDir(t, {
      "config.json": config,
      "loud.mjs": createHooksModule("loaded"),
      ".gantry/config.json": config,
      ".gantry/loud.mjs": createHooksModule("loaded"),
    });
    const server = await startServer(t, { projectDir: project.path });
    assert.equal((await server.stop()).code, 0);
    assert.doesNotMatch(server.stderr, /loaded/);
  });
});
