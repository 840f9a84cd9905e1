import assert from "node:assert/strict";
import { once } from "node:events";
import { chmod, chown, mkdir, readdir, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import Database from "better-sqlite3";
import type { Finding } from "../../../src/cli/doctor/finding.js";
import { startFakeModelServer, type FakeStep } from "../../helpers/fake-model-server.js";
import { runGantry, startServer, type GantryOptions } from "../../helpers/server.js";
import { createServerConfig, startModelServer } from "../../helpers/server-runs.js";
import { tempDir, type TempDir } from "../../helpers/temp-dir.js";

type Config = Record<string, unknown>;

/** A set-up under construction. All breaks of a group share one process of `gantry doctor`. */
interface SetUp {
  readonly t: TestContext;
  readonly config: Config;
  readonly providers: Config[];
  readonly tools: unknown[];
  readonly servers: Config;
  readonly env: Record<string, string>;
  readonly flags: string[];
  readonly home: TempDir;
  readonly project: TempDir;
}

/** One broken set-up: the finding that must name it, and a text of the finding that identifies the break. */
interface Break {
  readonly name: string;
  readonly id: string;
  readonly text: RegExp;
  readonly status?: "warning" | "error";
  readonly apply: (setUp: SetUp) => unknown;
}

const section = ({ config }: SetUp, name: string): Config => (config[name] ??= {}) as Config;

/** Adds a provider. `listing`: answer to the request for the models; undefined: the list `models`. */
async function addProvider(
  { t, providers }: SetUp,
  name: string,
  listing: FakeStep | undefined,
  models: readonly string[] = ["m1"],
): Promise<void> {
  const server = await startFakeModelServer({ models });
  server.listing = listing;
  t.after(() => server.close());
  providers.push({ name, driver: "openai", base_url: server.baseUrl, api_key: "canary-provider-key" });
}

/** Adds a provider whose server sends its list of models with this `Date`, after a delay. */
async function addListServer({ t, providers }: SetUp, name: string, dateMs: number, delayMs: number): Promise<void> {
  const server = createServer((_request, response) => {
    response.setHeader("Date", new Date(dateMs).toUTCString());
    response.setHeader("Content-Type", "application/json");
    // Time: the check measures the time of an answer.
    setTimeout(() => response.end('{"object":"list","data":[{"id":"m","object":"model"}]}'), delayMs);
  });
  const base_url = `http://127.0.0.1:${await listen(t, server)}/v1`;
  providers.push({ name, driver: "openai", base_url, api_key: "k" });
}

async function listen(t: TestContext, server: ReturnType<typeof createServer>): Promise<number> {
  t.after(() => server.close());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

const PLUGIN_HEAD = 'export default { gantry: 1, kind: "tool", name: "p", parse: (raw) => raw, useClass: class { ';
const BAD_TOOL = `${PLUGIN_HEAD}
  name = "bad"; description = ""; inputSchema = { type: "object" }; kind = "other"; parallel = true; needsPermission = false;
  parse() { return {}; } describe() { return {}; } async run() { return { text: "x" }; } } };`;

const MANY_BREAKS: readonly Break[] = [
  {
    name: "home folder with mode 0755",
    id: "home.mode",
    text: /mode 755/,
    apply: ({ home }) => chmod(home.path, 0o755),
  },
  {
    name: "file of the store with mode 0644",
    id: "home.file-mode",
    text: /sessions\.db \(644\)/,
    apply: async ({ home }) => {
      await writeFile(join(home.path, "sessions.db"), "this is no database, but it is long enough".repeat(10));
      await chmod(join(home.path, "sessions.db"), 0o644);
    },
  },
  { name: "damaged store", id: "store.damaged", text: /damaged or not a database/, apply: () => undefined },
  { name: "config with keys and mode 0644", id: "config.mode", text: /mode 644/, apply: () => undefined },
  {
    name: "blank required header",
    id: "exposure.blank-header",
    text: /server\.required_headers\.X-Key/,
    apply: (setUp) => (section(setUp, "server")["required_headers"] = { "X-Key": "" }),
  },
  {
    name: "port in use",
    id: "exposure.port",
    text: /EADDRINUSE/,
    apply: async (setUp) => {
      const server = createServer((_request, response) => response.end("other"));
      section(setUp, "server")["port"] = await listen(setUp.t, server);
    },
  },
  {
    name: "project folder is the home folder of the user",
    id: "project.folder",
    text: /every file below it/,
    apply: ({ env, project }) => (env["HOME"] = project.path),
  },
  {
    name: "missing project root",
    id: "project.roots",
    text: /missing-root/,
    apply: (setUp) => (section(setUp, "server")["project_roots"] = ["./missing-root"]),
  },
  {
    name: "git is not on the PATH",
    id: "machine.git",
    text: /not on the PATH/,
    apply: ({ env, project }) => (env["PATH"] = project.path),
  },
  {
    name: "commands without a sandbox",
    id: "tools.sandbox",
    text: /without a sandbox/,
    apply: (setUp) => (section(setUp, "tools")["bash"] = { sandbox: "off" }),
  },
  {
    name: "provider rejects the key",
    id: "provider.key",
    text: /^locked .*401/,
    apply: (setUp) => addProvider(setUp, "locked", { status: 401, error: "wrong key" }),
  },
  {
    name: "provider without a key",
    id: "provider.key",
    text: /keyless has no key/,
    apply: ({ providers }) => providers.push({ provider: "openai", name: "keyless" }),
  },
  {
    name: "provider is unreachable",
    id: "provider.unreachable",
    text: /^down /,
    apply: ({ providers }) =>
      providers.push({
        name: "down",
        driver: "openai",
        base_url: "http://127.0.0.1:9/v1",
        api_key: "k",
        max_retries: 0,
      }),
  },
  {
    name: "provider without models",
    id: "provider.models",
    text: /^empty /,
    apply: (setUp) => addProvider(setUp, "empty", undefined, []),
  },
  {
    name: "wrong clock",
    id: "machine.clock",
    text: /Date header of tardy/,
    apply: (setUp) => addListServer(setUp, "tardy", Date.now() - 3_600_000, 0),
  },
  {
    name: "command of an MCP server does not exist",
    id: "mcp.command",
    text: /missing-program/,
    apply: ({ servers }) => (servers["absent"] = { command: "/missing-program" }),
  },
  {
    name: "MCP server crashes",
    id: "mcp.server",
    text: /crashing/,
    apply: ({ servers }) => (servers["crashing"] = { command: process.execPath, args: ["-e", "process.exit(3)"] }),
  },
  { name: "unknown tool", id: "tools.unknown", text: /reed/, apply: ({ tools }) => tools.push("reed") },
  {
    name: "missing plugin",
    id: "plugin.load",
    text: /missing-plugin/,
    apply: ({ tools }) => tools.push("./missing-plugin.mjs"),
  },
  {
    name: "plugin throws at its import",
    id: "plugin.load",
    text: /throws\.mjs.*no luck/,
    apply: async ({ tools, home }) => {
      await home.write({ "throws.mjs": 'throw new Error("no luck");' });
      tools.push("./throws.mjs");
    },
  },
  {
    name: "plugin fails its checks",
    id: "plugin.check",
    text: /bad\.mjs/,
    apply: async ({ tools, home }) => {
      await home.write({ "bad.mjs": BAD_TOOL });
      tools.push("./bad.mjs");
    },
  },
];

const createStore = (path: string, work: (db: Database.Database) => void): void => {
  const db = new Database(path);
  work(db);
  db.close();
};

const GROUPS: Readonly<Record<string, readonly Break[]>> = {
  "a server on loopback with many faults": MANY_BREAKS,
  "a server that other machines can reach": [
    {
      name: "exposed without authentication",
      id: "exposure.bind",
      text: /does not start.*0\.0\.0\.0/,
      apply: (setUp) => Object.assign(section(setUp, "server"), { host: "0.0.0.0", port: 0 }),
    },
    {
      name: "mode auto without a sandbox on an exposed address",
      id: "tools.mode",
      text: /any command/,
      apply: (setUp) => (section(setUp, "tools")["bash"] = { sandbox: "off" }),
    },
    {
      name: "store of a newer version",
      id: "store.version",
      text: /newer gantry/,
      apply: ({ home }) =>
        createStore(join(home.path, "sessions.db"), (db) => {
          db.pragma("application_id = 1734438516");
          db.pragma("user_version = 9999");
          db.exec("CREATE TABLE t (x)");
        }),
    },
    {
      name: "no model provider",
      id: "provider.none",
      text: /offline guide/,
      apply: () => undefined,
    },
  ],
  "a config with an unknown key": [
    {
      name: "invalid config",
      id: "config.invalid",
      text: /config\.json: server\.prot: unknown key/,
      apply: (setUp) => (section(setUp, "server")["prot"] = 1),
    },
    {
      name: "native part of SQLite is missing",
      id: "node.sqlite",
      text: /npm rebuild|cannot be loaded/,
      apply: async ({ env, home }) => {
        const hook = join(home.path, "hook.cjs");
        const code = `const Module = require("module"); const load = Module._load;
          Module._load = function (name, ...rest) {
            if (String(name).endsWith("better_sqlite3.node"))
              throw Object.assign(new Error("was compiled against NODE_MODULE_VERSION 1. This requires NODE_MODULE_VERSION 2."), { code: "ERR_DLOPEN_FAILED" });
            return load.call(this, name, ...rest);
          };`;
        await writeFile(hook, code);
        env["NODE_OPTIONS"] = `--require=${hook}`;
      },
    },
  ],
  "a config with a variable that is not set": [
    {
      name: "unset variable",
      id: "config.variable",
      text: /GANTRY_MISSING_KEY/,
      apply: ({ providers }) => providers.push({ provider: "openai", api_key: "${GANTRY_MISSING_KEY}" }),
    },
    {
      name: "home folder of another user",
      id: "home.owner",
      text: /uid 12345/,
      apply: ({ home }) => (process.getuid?.() === 0 ? chown(home.path, 12345, 12345) : undefined),
    },
  ],
  "a store of JSON files": [
    {
      name: "damaged line in a JSON store",
      id: "store.damaged",
      text: /cannot be parsed.*1 of 1 files/,
      apply: async (setUp) => {
        setUp.config["session"] = { driver: "json" };
        await mkdir(join(setUp.home.path, "sessions"));
        await writeFile(join(setUp.home.path, "sessions", "s.json"), '{"half":');
      },
    },
    {
      name: "exposed with server.insecure",
      id: "exposure.insecure",
      text: /run commands as you/,
      apply: (setUp) => Object.assign(section(setUp, "server"), { host: "0.0.0.0", port: 0, insecure: true }),
    },
    {
      name: "slow provider",
      id: "provider.slow",
      text: /^sluggish /,
      apply: (setUp) => addListServer(setUp, "sluggish", Date.now(), 3_200),
    },
  ],
  "a config file that does not exist": [
    {
      name: "missing config file",
      id: "config.unreadable",
      text: /no-such\.json/,
      apply: ({ flags }) => flags.push("--config", "/no-such.json"),
    },
    {
      name: "home folder is a file",
      id: "home.writable",
      text: /not a folder/,
      apply: async ({ env, project }) => {
        await project.write({ file: "" });
        env["GANTRY_HOME"] = join(project.path, "file");
      },
    },
  ],
};

async function runDoctor(t: TestContext, options: Omit<GantryOptions, "args">, flags: readonly string[] = []) {
  const { code, stdout, stderr } = await runGantry(t, ["doctor", "--json", ...flags], options);
  assert.notEqual(stdout, "", stderr);
  const report = JSON.parse(stdout) as { version: string; node: string; findings: Finding[] };
  return { code, stdout, stderr, ...report };
}

async function createSetUp(t: TestContext): Promise<SetUp> {
  const [home, project] = [await tempDir(t), await tempDir(t)];
  await chmod(home.path, 0o700);
  return { t, config: {}, providers: [], tools: ["*"], servers: {}, env: {}, flags: [], home, project };
}

/** Paths, sizes, modes and times of all files below a folder. */
async function listFiles(folder: string): Promise<string[]> {
  const names = await readdir(folder, { recursive: true });
  const lines = names.map(async (name) => {
    const { size, mode, mtimeMs } = await stat(join(folder, name));
    return `${name} ${size} ${mode} ${mtimeMs}`;
  });
  return (await Promise.all(lines)).filter((line) => !/^(compiled|tsx)/.test(line)).sort();
}

describe("gantry doctor on broken set-ups", { concurrency: 3 }, () => {
  for (const [groupName, breaks] of Object.entries(GROUPS))
    it(`finds ${breaks.length} breaks of ${groupName}, each with its remedy`, async (t) => {
      const setUp = await createSetUp(t);
      for (const { apply } of breaks) await apply(setUp);
      const { config, providers, tools, servers, home, project, env, flags } = setUp;
      const file = join(home.path, "config.json");
      const content = { ...config, providers, agent: { tools }, mcp_servers: servers };
      await writeFile(file, JSON.stringify(content), { mode: 0o644 });
      await chmod(file, 0o644);
      const filesBefore = await listFiles(home.path);
      const options = { home: home.path, projectDir: project.path, env };
      const { code, findings, stdout } = await runDoctor(t, options, flags);
      for (const { name, id, text } of breaks) {
        if (id === "home.owner" && process.getuid?.() !== 0) continue;
        const matches = findings.filter(
          (finding) => finding.id === id && text.test(`${finding.title} ${finding.detail} ${finding.remedy}`),
        );
        const problems = findings.filter(({ status }) => status === "warning" || status === "error");
        assert.equal(matches.length, 1, `${name}: ${JSON.stringify(problems, null, 1)}`);
        assert.match(matches[0]!.status, /^(warning|error)$/, name);
        assert.ok(matches[0]!.remedy.length > 10, name);
      }
      assert.equal(code, findings.some(({ status }) => status === "error") ? 1 : 0);
      assert.doesNotMatch(stdout, /canary/);
      assert.deepEqual(await listFiles(home.path), filesBefore);
    });

  it("finds a lease and a run of a server that was killed", async (t) => {
    const modelServer = await startModelServer(t, { fallback: { say: [{ text: "Hm" }, { stall: true }] } });
    const config = createServerConfig(modelServer);
    const server = await startServer(t, { config });
    const body = '{"message":"hi","background":true}';
    assert.equal((await server.fetch("/api/run", { method: "POST", body })).status, 202);
    await modelServer.waitForRequest(1);
    await server.stop("SIGKILL");
    const { code, findings } = await runDoctor(t, { home: server.home, projectDir: server.projectDir, config });
    const storeFindings = findings.filter(({ id }) => id === "store.leases" || id === "store.runs");
    assert.deepEqual(
      storeFindings.map(({ id, status, detail }) => [id, status, detail.slice(0, 6)]),
      [
        ["store.leases", "warning", "1 leas"],
        ["store.runs", "warning", "1 runs"],
      ],
    );
    assert.equal(code, 0);
  });

  it("exits with 0 on a healthy set-up and does not disturb a running server", async (t) => {
    const modelServer = await startModelServer(t);
    const mcpServer = {
      command: process.execPath,
      args: ["test/helpers/faulty-mcp-server.mjs", "tools"],
      enabled: false,
    };
    const config = { ...createServerConfig(modelServer), mcp_servers: { off: mcpServer } };
    const server = await startServer(t, { config });
    const port = new URL(server.url).port;
    const sendRun = () => server.fetch("/api/run", { method: "POST", body: '{"message":"hi"}' });
    assert.equal((await sendRun()).status, 200);
    const text = await runGantry(t, ["doctor", "--port", port], {
      home: server.home,
      projectDir: server.projectDir,
      config,
    });
    assert.equal(text.code, 0, text.stdout);
    assert.match(text.stdout, new RegExp(`gantry is running on port ${port}`));
    assert.match(text.stdout, /lab answers: \d+ models/);
    assert.match(text.stdout, /sessions\.db is intact: 1 sessions/);
    assert.match(text.stdout.replace(/\s+/g, " "), /\d\.\d MiB, \d\.\d MiB of them free for new sessions/);
    assert.match(text.stdout, /\d+ ok, \d+ warnings, 0 errors, \d+ skipped\n$/);
    for (const line of text.stdout.split("\n"))
      assert.ok(line.length <= 80 || !line.trim().includes(" ") || /\/\S{30}/.test(line), line);
    assert.equal((await sendRun()).status, 200);
    assert.doesNotMatch(server.stderr, / error |lease|locked|store/);
  });
});

it("the tables contain at least 25 broken set-ups", () => {
  assert.ok(Object.values(GROUPS).flat().length + 2 >= 25);
});
