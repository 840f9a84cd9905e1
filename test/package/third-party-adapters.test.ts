import assert from "node:assert/strict";
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, symlinkSync } from "node:fs";
import { connect } from "node:net";
import path from "node:path";
import { after, before, describe, it, type TestContext } from "node:test";
import { promisify } from "node:util";
import { installPackage, packPackage } from "../helpers/packed-package.js";
import { makeTempDir, type TempDir } from "../helpers/temp-dir.js";

const execFileAsync = promisify(execFile);

/** Templates of the guides, by the folder that each creates. */
const TEMPLATES_BY_FOLDER = {
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
  let gantryProgram: string;
  const childProcesses: ChildProcess[] = [];

  before(async () => {
    prefix = await makeTempDir("gantry prefix ");
    tarball = packPackage(prefix.path);
    const packageFolder = installPackage(tarball, prefix.at("lib"));
    mkdirSync(prefix.at("bin"));
    gantryProgram = prefix.at("bin", "gantry");
    symlinkSync(path.join(packageFolder, "dist/src/cli.js"), gantryProgram);
  });
  after(() => prefix.remove());

  const createEnvironment = (home: string): NodeJS.ProcessEnv => {
    const env: NodeJS.ProcessEnv = { ...process.env, GANTRY_HOME: home, npm_config_offline: "true" };
    for (const name of ["NODE_OPTIONS", "NODE_TEST_CONTEXT", "NODE_PATH"]) delete env[name];
    return env;
  };

  /** Creates a folder with the results of all guides, written by the installed program. */
  async function createAdapters(t: TestContext): Promise<TempDir> {
    const folder = await makeTempDir();
    t.after(async () => {
      // Hooks of a test run in the order of registration, and a closing server writes into this folder.
      await Promise.all(childProcesses.splice(0).map(endProgram));
      await folder.remove();
    });
    for (const [name, template] of Object.entries(TEMPLATES_BY_FOLDER))
      await execFileAsync(process.execPath, [gantryProgram, "new", template, name], {
        cwd: folder.path,
        env: createEnvironment(folder.at("home")),
      });
    return folder;
  }

  async function endProgram(child: ChildProcess): Promise<void> {
    if (child.exitCode !== null || !child.kill()) return;
    await once(child, "close");
  }

  /** Starts a program, which ends before the folder is removed. Resolves when the output matches `pattern`. */
  async function startProgram(command: string[], cwd: string, home: string, pattern: RegExp) {
    const child = spawn(process.execPath, command, {
      cwd,
      env: createEnvironment(home),
      stdio: ["ignore", "pipe", "pipe"],
    });
    childProcesses.push(child);
    let output = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (output += text));
    while (!pattern.test(output)) {
      if (child.exitCode !== null) throw new Error(`the program ended:\n${output}`);
      await Promise.race([once(child.stdout, "data"), once(child.stderr, "data"), once(child, "close")]);
    }
    return { match: pattern.exec(output) ?? [], output: () => output };
  }

  /**
   * Runs the results of all guides in one server. Resolves with the text that a client of the line transport
   * receives, the number of stored sessions and the output of the server.
   */
  async function runAdapters(folder: TempDir) {
    const home = folder.at("home");
    mkdirSync(home);
    // The port of the guide's model server may be in use on this machine.
    const modelSource = (await folder.read("gantry-house-model/model.js")).replace("4002", "0");
    await folder.write({
      "gantry-house-model/model.js": modelSource.replace(
        /\.listen\((.*)\);/,
        ".listen($1, function () { console.log(this.address().port); });",
      ),
    });
    const { match: modelMatch } = await startProgram(["gantry-house-model/model.js"], folder.path, home, /^(\d+)$/m);
    const [provider] = CONFIG.providers;
    const config = { ...CONFIG, providers: [{ ...provider, url: `http://127.0.0.1:${modelMatch[1]}` }] };
    await folder.write({ "work/config.json": JSON.stringify(config) });
    const listRun = await execFileAsync(
      process.execPath,
      [gantryProgram, "adapters", "--config", folder.at("work/config.json")],
      {
        cwd: folder.path,
        env: createEnvironment(home),
      },
    ).catch((error: { stdout: string; stderr: string }) => error);
    assert.doesNotMatch(listRun.stdout + listRun.stderr, /cannot be used/);
    const server = await startProgram(
      [gantryProgram, "serve", "--config", folder.at("work/config.json")],
      folder.at("work"),
      home,
      /listening on tcp:\/\/127\.0\.0\.1:(\d+)/,
    );
    const socket = connect(Number(server.match[1]), "127.0.0.1", () =>
      socket.write(`${JSON.stringify({ text: "Roll." })}\n`),
    );
    let receivedText = "";
    for await (const text of socket.setEncoding("utf8")) {
      receivedText += text as string;
      if (/"(done|error)"/.test(receivedText)) break;
    }
    const { documents } = JSON.parse(await folder.read("work/store.json")) as { documents: { key: string }[] };
    const storedCount = documents.filter(({ key }) => key.startsWith("head/")).length;
    assert.match(await folder.readWhenWritten("work/audit.jsonl"), /"runId":.*"cost":0/);
    return { receivedText, storedCount, output: server.output() };
  }

  it("run together in one server without their own copy of gantry", async (t) => {
    const { receivedText, storedCount, output } = await runAdapters(await createAdapters(t));
    assert.match(receivedText, /The dice say [234]\./, output);
    assert.equal(storedCount, 1);
  });

  it("pass gantry check without their own copy of gantry", async (t) => {
    const folder = await createAdapters(t);
    await Promise.all(
      Object.keys(TEMPLATES_BY_FOLDER).map(async (name) => {
        const { scripts } = JSON.parse(await folder.read(`${name}/package.json`)) as { scripts: { check: string } };
        const { stdout } = await execFileAsync(
          process.execPath,
          [gantryProgram, ...scripts.check.split(" ").slice(1)],
          {
            cwd: folder.at(name),
            env: createEnvironment(folder.at("home")),
          },
        );
        assert.match(stdout, /^\d+ checks: \d+ passed$/m, name);
      }),
    );
  });

  it("pass their tests and run together in one server with their own copy of gantry", async (t) => {
    const folder = await createAdapters(t);
    installPackage(tarball, folder.path);
    await Promise.all(
      Object.keys(TEMPLATES_BY_FOLDER).map(async (name) => {
        mkdirSync(folder.at(name, "node_modules"));
        symlinkSync(folder.at("node_modules", "gantry"), folder.at(name, "node_modules", "gantry"), "dir");
        const { stdout } = await execFileAsync(process.execPath, ["--test", "--test-reporter=tap"], {
          cwd: folder.at(name),
          env: createEnvironment(folder.path),
          maxBuffer: 64 * 1024 * 1024,
        }).catch((error: { stdout: string }) => error);
        assert.match(stdout, /^# fail 0$/m, `${name}: ${stdout}`);
      }),
    );
    const { receivedText, storedCount, output } = await runAdapters(folder);
    assert.match(receivedText, /The dice say [234]\./, output);
    assert.equal(storedCount, 1);
  });

  it("are rejected with the config key if their own copy of gantry decorated the class", async (t) => {
    const folder = await makeTempDir();
    t.after(() => folder.remove());
    installPackage(tarball, folder.path);
    const decoratedModule = `import { defineAdapter, inject, injectable, OPTIONS } from "gantry/plugin";
      class Odd { constructor(options) { this.options = options; } }
      inject(OPTIONS)(Odd, undefined, 0);
      injectable()(Odd);
      export default defineAdapter({ kind: "tool", name: "odd", useClass: Odd });`;
    await folder.write({
      "odd.mjs": decoratedModule,
      "config.json": '{ "server": { "port": 0 }, "agent": { "tools": ["./odd.mjs"] } }',
    });
    const error = await execFileAsync(
      process.execPath,
      [gantryProgram, "serve", "--config", folder.at("config.json")],
      {
        cwd: folder.path,
        env: createEnvironment(folder.at("home")),
      },
    ).then(
      () => assert.fail("the server starts"),
      (error: { code: number; stderr: string }) => error,
    );
    assert.equal(error.code, 1);
    assert.match(error.stderr, /agent\.tools\[0\]: \.\/odd\.mjs .*@injectable\(\) of the running gantry, .*use create/);
  });
});
