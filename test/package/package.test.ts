import assert from "node:assert/strict";
import { execFile, execFileSync } from "node:child_process";
import { chownSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { listLoadedModules, listModulesInTerminal, listPackages, type LoadedModules } from "../helpers/loaded-files.js";
import { NO_TMUX } from "../helpers/terminal-pane.js";
import { SOURCE_FLAGS, sourcePath } from "../helpers/source-paths.js";
import { installPackage, NPM, packPackage } from "../helpers/packed-package.js";
import type { GantryServer } from "../helpers/server.js";
import { makeTempDir, type TempDir } from "../helpers/temp-dir.js";

const execFileAsync = promisify(execFile);
const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const packageJson = JSON.parse(readFileSync(path.join(ROOT, "package.json"), "utf8")) as {
  version: string;
};
/**
 * Adapters that a config can name. Excludes acp-shared, which two adapters share, and the terminal, which its command
 * loads.
 */
const ADAPTERS = readdirSync(path.join(ROOT, "adapters")).filter(
  (name) => name !== "acp-shared" && name !== "terminal",
);

describe("the installed npm package", () => {
  let folder: TempDir;
  let home: TempDir;
  let packageFolder: string;

  /** Runs a script as a user of the package: no condition, no loader, another working directory. */
  const runScript = async (script: string): Promise<string> => {
    const { stdout } = await execFileAsync(process.execPath, ["--input-type=module", "-e", script], {
      cwd: folder.path,
      env: createEnvironment(),
    });
    return stdout.trim();
  };
  const createEnvironment = (): NodeJS.ProcessEnv => {
    const env: NodeJS.ProcessEnv = { ...process.env, GANTRY_HOME: home.path, npm_config_offline: "true" };
    delete env.NODE_OPTIONS;
    return env;
  };

  before(async () => {
    folder = await makeTempDir();
    home = await makeTempDir();
    packageFolder = installPackage(packPackage(folder.path), folder.path, ["@types/node"]);
    await folder.write({ "package.json": '{ "name": "third-party", "private": true, "type": "module" }' });
  });

  after(async () => {
    await folder.remove();
    await home.remove();
  });

  it("contains the required files, no sources and no path of the build machine", () => {
    const files = execFileSync("find", [".", "-type", "f"], { cwd: packageFolder, encoding: "utf8" })
      .trim()
      .split("\n");
    for (const file of [
      "./package.json",
      "./README.md",
      "./LICENSE",
      "./dist/src/cli.js",
      "./dist/es/src/index.d.ts",
      "./dist/THIRD-PARTY-LICENSES.txt",
      "./dist/console/index.html",
    ]) {
      assert.ok(files.includes(file), `${file} is missing`);
    }
    assert.deepEqual(
      files.filter((file) => /^\.\/(src|test|adapters|\.ci|node_modules)\//.test(file)),
      [],
    );
    assert.equal(statSync(path.join(packageFolder, "dist/src/cli.js")).mode & 0o111, 0o111);
    for (const file of files.filter((name) => /\.(js|ts|map)$/.test(name))) {
      assert.ok(
        !readFileSync(path.join(packageFolder, file), "utf8").includes(ROOT),
        `${file} names a path of this machine`,
      );
    }
  });

  it("can be parsed by Node 12, and checks the version of Node before it loads a module", async () => {
    const { parse } = await import("acorn");
    const text = readFileSync(path.join(packageFolder, "dist/src/cli.js"), "utf8");
    // Node 12 supports this syntax and nothing later.
    parse(text, { ecmaVersion: 2019, sourceType: "script", allowHashBang: true });
    const exitIndex = text.indexOf("process.exit(1)");
    assert.ok(text.slice(0, exitIndex).includes("needs Node"));
    assert.doesNotMatch(text.slice(0, exitIndex), /require|import|getBuiltinModule/);
  });

  it("runs with npm exec", async () => {
    const [command = "npm", ...args] = NPM;
    const { stdout } = await execFileAsync(command, [...args, "exec", "--no", "--", "gantry", "--version"], {
      cwd: folder.path,
      env: createEnvironment(),
    });
    assert.equal(stdout.trim().split("\n").at(-1), packageJson.version);
  });

  it("ignores compiled code of another build and incomplete compiled code", async () => {
    await using cacheHome = await makeTempDir();
    const printVersion = async () => {
      const env = { ...createEnvironment(), GANTRY_HOME: cacheHome.path };
      const { stdout } = await execFileAsync(
        process.execPath,
        [path.join(packageFolder, "dist/src/cli.js"), "version"],
        {
          env,
        },
      );
      return stdout.trim();
    };
    assert.equal(await printVersion(), packageJson.version);
    const listFiles = () =>
      readdirSync(cacheHome.at("compiled"), { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => path.join(entry.parentPath, entry.name));
    assert.notEqual(listFiles().length, 0);
    for (const change of [
      (bytes: Buffer) => bytes.fill(0, 0, 16),
      (bytes: Buffer) => bytes.fill(0x55, 300, 4_000),
      (bytes: Buffer) => bytes.subarray(0, bytes.length / 2),
      (bytes: Buffer) => bytes.subarray(0, 128),
      () => Buffer.alloc(0),
    ]) {
      for (const file of listFiles()) writeFileSync(file, change(readFileSync(file)));
      assert.equal(await printVersion(), packageJson.version);
    }
  });

  it("leaves no part of a file of compiled code on a full disk", { skip: process.platform === "win32" }, async () => {
    await using cacheHome = await makeTempDir();
    const cliFile = path.join(packageFolder, "dist/src/cli.js");
    // A limit of the size of files, in steps of 512 or 1,024 bytes, stands for the full disk.
    const script = `trap "" XFSZ; ulimit -f 16; exec "$0" "$@"`;
    const env = { ...createEnvironment(), GANTRY_HOME: cacheHome.path };
    const { stdout } = await execFileAsync("/bin/sh", ["-c", script, process.execPath, cliFile, "version"], { env });
    assert.equal(stdout.trim(), packageJson.version);
    const files = readdirSync(cacheHome.path, { recursive: true }).map(String);
    assert.deepEqual(
      files.filter((file) => /\.bin\.\d+$/.test(file)),
      [],
    );
  });

  it("stores compiled code only in an existing home of its user", async () => {
    const cliFile = path.join(packageFolder, "dist/src/cli.js");
    const hasCompiledCode = async (owner: number) => {
      await using ownedHome = await makeTempDir();
      chownSync(ownedHome.path, owner, -1);
      await execFileAsync(process.execPath, [cliFile, "--version"], {
        env: { ...createEnvironment(), GANTRY_HOME: ownedHome.path },
      });
      return existsSync(ownedHome.at("compiled"));
    };
    const uid = process.geteuid?.() ?? 0;
    assert.equal(await hasCompiledCode(uid), true);
    // Only root can change the owner of a folder.
    if (uid === 0) assert.equal(await hasCompiledCode(65_534), false);
    const missingHome = folder.at("no-home");
    await execFileAsync(process.execPath, [cliFile, "--version"], {
      env: { ...createEnvironment(), GANTRY_HOME: missingHome },
    });
    assert.equal(existsSync(missingHome), false);
  });

  it("shares its classes between all entry points", async () => {
    const output = await runScript(`
      import * as gantry from "gantry";
      import * as plugin from "gantry/plugin";
      import * as testing from "gantry/testing";
      const adapters = ${JSON.stringify(ADAPTERS)};
      const context = { location: "here", configDir: "/", home: ${JSON.stringify(home.path)}, projectDir: "/" };
      for (const name of adapters) {
        const { default: descriptor } = await import("gantry/adapters/" + name);
        if (descriptor.gantry !== 1 || descriptor.name !== name) throw new Error(name + " is no descriptor");
        try {
          descriptor.parse({ "no such key": 1 }, context);
          throw new Error(name + " takes any key");
        } catch (error) {
          if (!(error instanceof plugin.ConfigError)) throw error;
        }
      }
      if (typeof gantry.Agent !== "function" || Object.keys(testing).length === 0) throw new Error("empty");
      const { ProviderError } = gantry;
      console.log(ProviderError.name, new ProviderError("p", "server", "x").name, adapters.length);
    `);
    assert.equal(output, `ProviderError ProviderError ${ADAPTERS.length}`);
  });

  it("exports classes and functions whose names equal the names of the exports", async () => {
    const output = await runScript(`
      const entryPoints = ["gantry", "gantry/plugin", "gantry/http", "gantry/testing", "gantry/client", ...${JSON.stringify(ADAPTERS)}.map((name) => "gantry/adapters/" + name)];
      const misnamedExports = [];
      let functionCount = 0;
      for (const entryPoint of entryPoints)
        for (const [name, value] of Object.entries(await import(entryPoint)))
          if (typeof value === "function") (functionCount += 1, value.name === name || misnamedExports.push(entryPoint + " " + name + ": " + value.name));
      const { GantryError } = await import("gantry");
      const { ConfigError } = await import("gantry/plugin");
      const error = new ConfigError("x");
      console.log(JSON.stringify({ misnamedExports, hasManyFunctions: functionCount > 50, error: String(error), stack: error.stack.split("\\n")[0], isGantryError: error instanceof GantryError }));
    `);
    assert.deepEqual(JSON.parse(output), {
      misnamedExports: [],
      hasManyFunctions: true,
      error: "ConfigError: x",
      stack: "ConfigError: x",
      isGantryError: true,
    });
  });

  it("runs an embedded agent", async () => {
    const output = await runScript(`
      import { Agent, MemoryDriver } from "gantry";
      import { OfflineProvider } from "gantry/adapters/offline-provider";
      const agent = new Agent({ providers: [new OfflineProvider({ servers: [] })], driver: new MemoryDriver() });
      const run = await agent.run({ message: "Hello" });
      const { output, iterations } = await run.result;
      await agent.close();
      console.log(iterations, /No language model is attached/.test(output));
    `);
    assert.equal(output, "1 true");
  });

  it("serves the console, and contains the licences of the console's packages", async () => {
    const output = await runScript(`
      import { Agent } from "gantry";
      import { WebConsoleTransport } from "gantry/adapters/web-console";
      import { openHttpHost } from "gantry/http";
      import { ScriptedProvider } from "gantry/testing";
      const agent = new Agent({ providers: [new ScriptedProvider([])] });
      const host = openHttpHost({ port: 0 });
      const { address } = await new WebConsoleTransport({}, host).start(agent);
      const page = await (await fetch(address)).text();
      const files = [...page.matchAll(/="([/]console[/]assets[/][^"]+)"/g)].map(([, path]) => new URL(path, address));
      const statuses = await Promise.all(files.map(async (file) => (await fetch(file)).status));
      console.log(statuses.length > 1, new Set(statuses).size, statuses[0]);
      await host.close(AbortSignal.abort());
      await agent.close();
    `);
    assert.equal(output, "true 1 200");
    const licences = readFileSync(path.join(packageFolder, "dist/THIRD-PARTY-LICENSES.txt"), "utf8");
    for (const name of ["preact", "@preact/signals", "marked", "dompurify", "highlight.js"])
      assert.match(licences, new RegExp(`^${name} \\d`, "m"));
  });

  it("runs the list tool with its worker thread", async () => {
    const output = await runScript(`
      import { builtinTools } from "gantry";
      const list = builtinTools().find(({ name }) => name === "list");
      const context = { projectDir: ${JSON.stringify(folder.path)}, signal: new AbortController().signal, state: new Map() };
      console.log((await list.run(list.parse({}), context)).text);
    `);
    assert.match(output, /^package\.json$/m);
  });

  it("returns structured output for schemas of draft 2020-12 and draft 7", async () => {
    const output = await runScript(`
      import { Agent } from "gantry";
      import { ScriptedProvider } from "gantry/testing";
      const agent = new Agent({ providers: [new ScriptedProvider(["36", "[1]"])] });
      for (const [$schema, type] of [["https://json-schema.org/draft/2020-12/schema", "integer"], ["http://json-schema.org/draft-07/schema#", "array"]])
        console.log(JSON.stringify((await (await agent.run({ message: "x", outputSchema: { $schema, type } })).result).structured));
      await agent.close();
    `);
    assert.equal(output, "36\n[1]");
  });

  it("contains a client without imports, which runs a prompt over HTTP", async () => {
    const file = path.join(packageFolder, "dist/es/adapters/koa-http-api/client/index.js");
    assert.doesNotMatch(readFileSync(file, "utf8"), /\bimport\s*[("'{*\w]|\brequire\b|\bprocess\./);
    const output = await runScript(`
      import { Agent, MemoryDriver } from "gantry";
      import { openHttpHost } from "gantry/http";
      import { KoaHttpTransport } from "gantry/adapters/koa-http-api";
      import { ScriptedProvider } from "gantry/testing";
      import { GantryClient } from "gantry/client";
      const agent = new Agent({ providers: [new ScriptedProvider(["Hello."])], driver: new MemoryDriver() });
      const logger = { debug() {}, info() {}, warn() {}, error() {} };
      const host = openHttpHost({ port: 0, logger });
      const { address } = await new KoaHttpTransport({}, host, logger).start(agent);
      const { output, model } = await new GantryClient({ url: address }).run({ message: "Hi" });
      await host.close(AbortSignal.abort());
      await agent.close();
      console.log(model, output);
    `);
    assert.equal(output, "scripted/scripted-1 Hello.");
  });

  it("contains types that compile in strict mode, for Node and for browsers", async () => {
    await folder.write({
      "check.ts": `
        import { Agent } from "gantry";
        import { ConfigError, defineAdapter, inject, OPTIONS } from "gantry/plugin";
        import type { Run, Tool } from "gantry";
        import type { ModelProvider, SessionDriver, Transport } from "gantry/plugin";
        import * as testing from "gantry/testing";
        import type { ApiMessage } from "gantry/client";
        ${ADAPTERS.map((name, index) => `import adapter${index} from "gantry/adapters/${name}";`).join("\n")}
        export const names: string[] = [${ADAPTERS.map((_, index) => `adapter${index}.name`).join(", ")}];
        export async function ask(provider: ModelProvider, driver: SessionDriver, tools: Tool[]): Promise<string> {
          const agent = new Agent({ providers: [provider], driver, tools });
          const run: Run = await agent.run({ message: "hi" });
          return (await run.result).output;
        }
        // @ts-expect-error types that were missing would accept this
        export const wrong: number = new ConfigError("x").message;
        // @ts-expect-error the same for the types of the client
        export const role: ApiMessage["role"] = "nobody";
        export type T = Transport; export const x = [testing, defineAdapter, inject, OPTIONS];
      `,
      "tsconfig.json": JSON.stringify({
        compilerOptions: {
          target: "es2023",
          lib: ["es2023", "esnext.disposable"],
          module: "nodenext",
          strict: true,
          noEmit: true,
          types: ["node"],
          skipLibCheck: false,
        },
        files: ["check.ts"],
      }),
    });
    // A page has no Node API, but its own platform.
    await folder.write({
      "page.ts": `
        import { GantryClient, SessionMirror } from "gantry/client";
        const mirror = new SessionMirror();
        for await (const event of new GantryClient({ fetch: window.fetch }).sessions.watch("a", { last: 50 })) mirror.apply(event);
        document.title = mirror.state?.session.title ?? "";
        // @ts-expect-error pages have no process
        process.exit();
      `,
      "page.json": JSON.stringify({
        compilerOptions: {
          target: "es2022",
          lib: ["es2022", "dom", "dom.iterable"],
          module: "esnext",
          moduleResolution: "bundler",
          strict: true,
          noEmit: true,
          types: [],
          skipLibCheck: false,
        },
        files: ["page.ts"],
      }),
    });
    // One process compiles both projects, so that the second reuses the loaded compiler.
    const tscFile = path.join(ROOT, "node_modules/typescript/bin/tsc");
    const { stdout } = await execFileAsync(process.execPath, [tscFile, "-b", ".", "page.json"], {
      cwd: folder.path,
    }).catch((error: { stdout: string }) => error);
    assert.equal(stdout, "");
  });
});

describe("the build", () => {
  it("passes the tests of the HTTP API and of its OpenAPI document", async () => {
    // Without the condition of the other tests, imports resolve to the build.
    const files = [
      ...["endpoints", "sse", "ending"].map((name) => sourcePath(`test/unit/koa-http-api/${name}.test.ts`)),
      sourcePath("test/docs/openapi.test.ts"),
    ];
    const flags = SOURCE_FLAGS.filter((flag) => flag !== "--conditions=@gantry/source");
    const env = { ...process.env };
    delete env.NODE_TEST_CONTEXT;
    const args = [...flags, "--test", "--test-reporter=tap", ...files];
    const { stdout } = await execFileAsync(process.execPath, args, { cwd: ROOT, env, maxBuffer: 2 ** 26 }).catch(
      (error: { stdout: string }) => error,
    );
    assert.match(stdout, /^# fail 0$/m, stdout);
    assert.match(stdout, /^# pass [1-9]\d/m, stdout);
  });
});

describe("the code that a start loads", () => {
  /** Parsing takes 1 ms for each 50 kB, and opening takes 0.5 ms for each file. Every start waits for both. */
  const LIMIT_HINT =
    "every start loads this code; import it where it is needed, or add it to a chunk in .ci/chunks.mjs " +
    "(run.cjs, tools.cjs and rare-features.cjs are deferred: a start that loads one uses code of it at once)";

  /**
   * Bounds are slightly above the sizes at the time of writing. Since the build leaves packages and package.json
   * unchanged, a start has 14 kB more of better-sqlite3 and 4 kB more of package.json, without more CPU time. The token
   * of a port, the secrets of the environment and the wait for clients added 3 to 5 kB. The container (tsyringe) added
   * 49 kB and about 4 ms of CPU, meow as the only command-line parser 64 kB and about 9 ms. Short local
   * names (.ci/pack.mjs) removed a fifth of all bytes.
   */
  function assertWithinLimits(
    loadedModules: LoadedModules,
    limits: { files: number; bytes: number; packages: string[]; builtins: string[] },
  ) {
    const bytes = [...loadedModules.files.values()].reduce((sum, size) => sum + size, 0);
    const fileList = [...loadedModules.files].map(([name, size]) => `${name} ${size}`).join(", ");
    assert.ok(loadedModules.files.size > 2, "the loaded files were recorded");
    assert.ok(
      loadedModules.files.size <= limits.files,
      `${loadedModules.files.size} files, at most ${limits.files}: ${LIMIT_HINT} (${fileList})`,
    );
    assert.ok(bytes <= limits.bytes, `${bytes} bytes of code, at most ${limits.bytes}: ${LIMIT_HINT} (${fileList})`);
    const findUnexpected = (names: readonly string[], allowedNames: readonly string[]) =>
      names.filter((name) => !allowedNames.includes(name));
    assert.deepEqual(
      findUnexpected(loadedModules.packages, limits.packages),
      [],
      `code of these packages: ${LIMIT_HINT}`,
    );
    assert.deepEqual(
      findUnexpected(loadedModules.builtins, limits.builtins),
      [],
      `these modules of Node's: ${LIMIT_HINT}`,
    );
  }

  // meow and its parser load `module` and `process`. The stored code of Node 20 needs the last two.
  const builtins = ["fs/promises", "os", "timers/promises", "module", "process", "vm", "zlib"];
  /** Modules that Node itself loads to listen. */
  const LISTENING_MODULES = ["child_process", "cluster", "dgram", "dns"];
  const commandLinePackages = [
    ...["meow", "yargs-parser", "camelcase-keys", "camelcase", "map-obj", "quick-lru"],
    ...["decamelize-keys", "decamelize", "minimist-options", "arrify", "is-plain-obj", "kind-of"],
  ];
  const packages = [
    ...["better-sqlite3", "uuid", "valibot", "tsyringe", "reflect-metadata", "tslib"],
    ...commandLinePackages,
  ];

  const config = {
    providers: [{ name: "lab", driver: "openai", base_url: "http://127.0.0.1:9/v1", api_key: "x", models: ["m1"] }],
  };

  it("is within its limits for `gantry serve` up to the listen line", async (t) => {
    const loadedModules = await listLoadedModules(t, {
      args: ["serve", "--port", "0"],
      readyPattern: /listening on/,
      config,
    });
    assertWithinLimits(loadedModules, {
      files: 4,
      bytes: 378_000,
      packages,
      builtins: [...builtins, "http", ...LISTENING_MODULES],
    });
  });

  it("is within its limits for `gantry serve --acp --stdio` up to a new session", async (t) => {
    const requestSession = ({ child, projectDir }: GantryServer) => {
      const session = { cwd: projectDir, mcpServers: [] };
      const frames = [
        { jsonrpc: "2.0", id: 1, method: "initialize", params: { protocolVersion: 1 } },
        { jsonrpc: "2.0", id: 2, method: "session/new", params: session },
      ];
      for (const frame of frames) child.stdin.write(`${JSON.stringify(frame)}\n`);
    };
    const loadedModules = await listLoadedModules(t, {
      args: ["serve", "--acp", "--stdio"],
      readyPattern: /"sessionId"/,
      config,
      trigger: requestSession,
    });
    // `perf_hooks` measures the idle time of the event loop.
    assertWithinLimits(loadedModules, { files: 4, bytes: 397_000, packages, builtins: [...builtins, "perf_hooks"] });
  });

  it("is within its limits for `gantry chat` up to the first frame", { skip: NO_TMUX }, async (t) => {
    const loadedModules = await listModulesInTerminal(t, { args: ["chat"], readyPattern: /Type a prompt/, config });
    // string-width is a stub here, which loads the package at its first call.
    const limits = { files: 4, bytes: 153_000, packages: ["string-width", ...commandLinePackages] };
    assertWithinLimits(loadedModules, {
      ...limits,
      builtins: ["perf_hooks", "tty", "module", "process", "vm", "zlib"],
    });
  });

  it("includes Koa and its parsers in one chunk for a first run over HTTP, without deferred packages", () => {
    const file = path.join(ROOT, "dist/chunks/api.cjs");
    const bundledPackages = listPackages(file);
    const usedPackages = ["@koa/router", "co-body", "koa", "koa-body", "path-to-regexp", "raw-body"];
    assert.deepEqual(
      usedPackages.filter((name) => !bundledPackages.includes(name)),
      [],
      "the file contains these packages",
    );
    // Packages that only deferred modules use: those of mime-types, formidable, cookies, http-assert and qs, and zod.
    const deferredPackages = ["mime-db", "dezalgo", "keygrip", "deep-equal", "side-channel", "zod"];
    assert.deepEqual(
      deferredPackages.filter((name) => bundledPackages.includes(name)),
      [],
      "a first run loads no deferred package; see .ci/packages.mjs",
    );
    const sources = readFileSync(`${file}.map`, "utf8");
    assert.match(sources, /iconv-lite\/encodings\/internal\.js/, "raw-body decodes UTF-8 with this module");
    assert.doesNotMatch(sources, /iconv-lite\/encodings\/(sbcs|dbcs|tables)/, "tables of other encodings");
    // 139 kB in November 2026, with short local names and iconv-lite without its tables: 500 kB that a first body loaded.
    assert.ok(statSync(file).size <= 143_000, `${statSync(file).size} bytes: ${LIMIT_HINT}`);
  });
});
