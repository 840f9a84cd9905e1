import assert from "node:assert/strict";
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, symlinkSync } from "node:fs";
import { connect } from "node:net";
import path from "node:path";
import { after, before, describe, it, type TestContext } from "node:test";
import { promisify } from "node:util";
import { install, pack } from "../helpers/packed-package.js";
import { makeTempDir, type TempDir } from "../helpers/temp.js";

const run = promisify(execFile);

/** Templates of the guides, by the folder that each creates. */
const GUIDES = {
  "gantry-lines": "transport",
  "gantry-file-driver": "driver",
  "gantry-house-model": "provider",
  "gantry-dice": "tool",
  "gantry-audit": "hook",
};

/** One config with the results of all guides, including the options of the guides' own configs. */
const CONFIG = {
  server: { port: 0, transports: ["koa-http-api", { transport: "../gantry-lines/index.js", port: 0 }] },
  session: { driver: "../gantry-file-driver/index.js", path: "store.json" },
  providers: [{ driver: "../gantry-house-model/index.js", url: "" }],
  agent: { tools: ["*", { tool: "../gantry-dice/index.js", sides: 2 }] },
  hooks: [{ hook: "../gantry-audit/index.js", file: "audit.jsonl" }],
};

describe("third-party adapters with a globally installed gantry", () => {
  /** An npm prefix: `lib/node_modules/gantry`, and `bin/gantry` as a link to it. */
  let prefix: TempDir;
  let tarball: string;
  let gantry: string;
  const programs: ChildProcess[] = [];

  before(async () => {
    prefix = await makeTempDir("gantry prefix ");
    tarball = pack(prefix.path);
    const installed = install(tarball, prefix.at("lib"));
    mkdirSync(prefix.at("bin"));
    gantry = prefix.at("bin", "gantry");
    symlinkSync(path.join(installed, "dist/src/cli.js"), gantry);
  });
  after(() => prefix.remove());

  const environment = (home: string): NodeJS.ProcessEnv => {
    const env: NodeJS.ProcessEnv = { ...process.env, GANTRY_HOME: home, npm_config_offline: "true" };
    for (const name of ["NODE_OPTIONS", "NODE_TEST_CONTEXT", "NODE_PATH"]) delete env[name];
    return env;
  };

  /** A folder with the results of all guides, written by the installed program. */
  async function createAdapters(t: TestContext): Promise<TempDir> {
    const folder = await makeTempDir();
    t.after(async () => {
      // Hooks of a test run in the order of registration, and a closing server writes into this folder.
      await Promise.all(programs.splice(0).map(end));
      await folder.remove();
    });
    for (const [name, template] of Object.entries(GUIDES))
      await run(process.execPath, [gantry, "new", template, name], {
        cwd: folder.path,
        env: environment(folder.at("home")),
      });
    return folder;
  }

  async function end(child: ChildProcess): Promise<void> {
    if (child.exitCode !== null || !child.kill()) return;
    await once(child, "close");
  }

  /** Starts a program. Resolves when its output matches `pattern`. It ends with the folder of `createAdapters`. */
  async function started(command: string[], cwd: string, home: string, pattern: RegExp) {
    const child = spawn(process.execPath, command, { cwd, env: environment(home), stdio: ["ignore", "pipe", "pipe"] });
    programs.push(child);
    let output = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (output += text));
    while (!pattern.test(output)) {
      if (child.exitCode !== null) throw new Error(`it ended:\n${output}`);
      await Promise.race([once(child.stdout, "data"), once(child.stderr, "data"), once(child, "close")]);
    }
    return { match: pattern.exec(output) ?? [], output: () => output };
  }

  /**
   * Runs the results of all guides in one server. Resolves with what a client of the line transport receives, and with
   * the stored sessions.
   */
  async function served(folder: TempDir) {
    const home = folder.at("home");
    mkdirSync(home);
    // The page's port may be in use on this machine.
    const model = (await folder.read("gantry-house-model/model.js")).replace("4002", "0");
    await folder.write({
      "gantry-house-model/model.js": model.replace(
        /\.listen\((.*)\);/,
        ".listen($1, function () { console.log(this.address().port); });",
      ),
    });
    const { match: modelServer } = await started(["gantry-house-model/model.js"], folder.path, home, /^(\d+)$/m);
    const [provider] = CONFIG.providers;
    const config = { ...CONFIG, providers: [{ ...provider, url: `http://127.0.0.1:${modelServer[1]}` }] };
    await folder.write({ "work/config.json": JSON.stringify(config) });
    const listed = await run(process.execPath, [gantry, "adapters", "--config", folder.at("work/config.json")], {
      cwd: folder.path,
      env: environment(home),
    }).catch((error: { stdout: string; stderr: string }) => error);
    assert.doesNotMatch(listed.stdout + listed.stderr, /cannot be used/);
    const server = await started(
      [gantry, "serve", "--config", folder.at("work/config.json")],
      folder.at("work"),
      home,
      /listening on tcp:\/\/127\.0\.0\.1:(\d+)/,
    );
    const socket = connect(Number(server.match[1]), "127.0.0.1", () =>
      socket.write(`${JSON.stringify({ text: "Roll." })}\n`),
    );
    let received = "";
    for await (const text of socket.setEncoding("utf8")) {
      received += text as string;
      if (/"(done|error)"/.test(received)) break;
    }
    const { documents } = JSON.parse(await folder.read("work/store.json")) as { documents: { key: string }[] };
    const stored = documents.filter(({ key }) => key.startsWith("head/")).length;
    assert.match(await folder.written("work/audit.jsonl"), /"runId":.*"cost":0/);
    return { received, stored, output: server.output() };
  }

  it("run together in one server without their own copy of gantry", async (t) => {
    const { received, stored, output } = await served(await createAdapters(t));
    assert.match(received, /The dice say [234]\./, output);
    assert.equal(stored, 1);
  });

  it("pass gantry check without their own copy of gantry", async (t) => {
    const folder = await createAdapters(t);
    await Promise.all(
      Object.keys(GUIDES).map(async (name) => {
        const { scripts } = JSON.parse(await folder.read(`${name}/package.json`)) as { scripts: { check: string } };
        const { stdout } = await run(process.execPath, [gantry, ...scripts.check.split(" ").slice(1)], {
          cwd: folder.at(name),
          env: environment(folder.at("home")),
        });
        assert.match(stdout, /^\d+ checks: \d+ passed$/m, name);
      }),
    );
  });

  it("pass their tests and run together in one server with their own copy of gantry", async (t) => {
    const folder = await createAdapters(t);
    install(tarball, folder.path);
    await Promise.all(
      Object.keys(GUIDES).map(async (name) => {
        mkdirSync(folder.at(name, "node_modules"));
        symlinkSync(folder.at("node_modules", "gantry"), folder.at(name, "node_modules", "gantry"), "dir");
        const { stdout } = await run(process.execPath, ["--test", "--test-reporter=tap"], {
          cwd: folder.at(name),
          env: environment(folder.path),
          maxBuffer: 1 << 26,
        }).catch((error: { stdout: string }) => error);
        assert.match(stdout, /^# fail 0$/m, `${name}: ${stdout}`);
      }),
    );
    const { received, stored, output } = await served(folder);
    assert.match(received, /The dice say [234]\./, output);
    assert.equal(stored, 1);
  });

  it("are rejected with the config key if their own copy of gantry decorated the class", async (t) => {
    const folder = await makeTempDir();
    t.after(() => folder.remove());
    install(tarball, folder.path);
    const odd = `import { defineAdapter, inject, injectable, OPTIONS } from "gantry/plugin";
      class Odd { constructor(options) { this.options = options; } }
      inject(OPTIONS)(Odd, undefined, 0);
      injectable()(Odd);
      export default defineAdapter({ kind: "tool", name: "odd", use: Odd });`;
    await folder.write({
      "odd.mjs": odd,
      "config.json": '{ "server": { "port": 0 }, "agent": { "tools": ["./odd.mjs"] } }',
    });
    const error = await run(process.execPath, [gantry, "serve", "--config", folder.at("config.json")], {
      cwd: folder.path,
      env: environment(folder.at("home")),
    }).then(
      () => assert.fail("it serves"),
      (error: { code: number; stderr: string }) => error,
    );
    assert.equal(error.code, 1);
    assert.match(error.stderr, /agent\.tools\[0\]: \.\/odd\.mjs .*@injectable\(\) of the running gantry, .*use create/);
  });
});
