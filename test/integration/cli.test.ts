import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { constants, copyFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { once } from "node:events";
import { readFile, rm, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { toFlag, type CommandDescription } from "../../src/cli/command-description.js";
import { COMMAND_DESCRIPTIONS } from "../../src/cli/descriptions/command-descriptions.js";
import { gantryCommand } from "../helpers/source-paths.js";
import { createFolderFor } from "../helpers/other-user.js";
import { FULL_DISK_COMMAND, runGantry, startServer } from "../helpers/server.js";
import { tempDir } from "../helpers/temp-dir.js";

const FULL_DISK_SKIP = process.platform === "linux" ? false : "needs /dev/full";

/** Asserts one line on stderr, nothing on stdout, and exit code 1. */
function assertRefused(run: { code: number | null; stdout: string; stderr: string }, pattern: RegExp): void {
  assert.equal(run.code, 1, run.stderr);
  assert.equal(run.stdout, "");
  assert.match(run.stderr, pattern);
  assert.equal(run.stderr.trim().split("\n").length, 1, run.stderr);
}

describe("gantry", () => {
  it("prints the flags of serve with --help, and the package version with --version", async (t) => {
    const help = await runGantry(t, ["serve", "--help"]);
    assert.equal(help.code, 0);
    for (const flag of [
      "--host",
      "--port",
      "--config",
      "--transport",
      "--session-driver",
      "--insecure",
      "--help",
      "--version",
      "--acp",
      "--stdio",
    ]) {
      assert.ok(help.stdout.includes(flag), flag);
    }
    const { version } = JSON.parse(await readFile(new URL("../../package.json", import.meta.url), "utf8")) as {
      version: string;
    };
    assert.equal((await runGantry(t, ["--version"])).stdout.trim(), version);
  });

  it("prints the help of each command and the version in every spelling of the request, with exit code 0", async (t) => {
    const { stdout: version } = await runGantry(t, ["--version"]);
    const readOutput = async (...args: string[]) => {
      const { code, stdout, stderr } = await runGantry(t, args);
      assert.deepEqual([code, stderr], [0, ""], args.join(" "));
      return stdout;
    };
    const help = await readOutput("--help");
    for (const { name, summary } of COMMAND_DESCRIPTIONS.flatMap((command) =>
      command.commands ? Object.values<CommandDescription>(command.commands) : command,
    ))
      assert.match(help, new RegExp(`^  gantry ${name} +${summary.replace(/[()]/g, "\\$&")}$`, "m"));
    for (const args of [["-h"], ["help"], ["--json", "--help"]]) assert.equal(await readOutput(...args), help);
    const wordCountKinds = new Set<boolean>();
    for (const description of COMMAND_DESCRIPTIONS.flatMap((command): CommandDescription[] => [
      command,
      ...Object.values(command.commands ?? {}),
    ])) {
      const nameWords = description.name.split(" ");
      const helpText = await readOutput(...nameWords, "--help");
      assert.ok(helpText.startsWith(`gantry ${description.name}: ${description.summary}\n`), helpText);
      for (const [key, { description: flagDescription }] of Object.entries(description.flags))
        assert.ok(helpText.includes(toFlag(key)) && helpText.includes(flagDescription), key);
      // The other forms of help are parsed in the same way for all one-word names and for all two-word names.
      if (wordCountKinds.has(nameWords.length > 1)) continue;
      wordCountKinds.add(nameWords.length > 1);
      assert.equal(await readOutput(...nameWords, "-h", "--no-such-flag"), helpText);
      assert.equal(await readOutput("help", ...nameWords), helpText);
    }
    for (const args of [["-v"], ["version"], ["serve", "--version"], ["sessions", "export", "-v"]])
      assert.equal(await readOutput(...args), version, args.join(" "));
  });

  it("exits with 2 without a terminal and names gantry run and gantry serve", async (t) => {
    for (const args of [[], ["chat"]]) {
      const { code, stdout, stderr } = await runGantry(t, args);
      assert.deepEqual([code, stdout], [2, ""], args.join(" "));
      assert.match(stderr, /^gantry: chat needs a terminal; in scripts use: gantry run "prompt".*gantry serve\n$/);
    }
  });

  it("exits with 1 if stdout cannot be written", { skip: FULL_DISK_SKIP }, async (t) => {
    for (const args of [["--help"], ["completion", "bash"], ["sessions", "list", "--json"], ["sessions", "export"]]) {
      const { code, stderr } = await runGantry(t, args, { commandPrefix: FULL_DISK_COMMAND });
      assert.equal(code, 1, args.join(" "));
      assert.match(stderr, /^gantry: .*ENOSPC.*\n$/, args.join(" "));
    }
  });

  it("exits with an error after a partial write to stdout", { skip: FULL_DISK_SKIP }, async (t) => {
    const folder = await tempDir(t);
    const file = folder.at("out");
    const completeRun = await runGantry(t, ["completion", "bash"]);
    // Limits the file size: a write beyond the limit is partial.
    const limitedSizePrefix = ["bash", "-c", `ulimit -c 0 -f 1; exec "$@" > '${file}'`, "bash"];
    const limitedRun = await runGantry(t, ["completion", "bash"], {
      commandPrefix: limitedSizePrefix,
      env: { TSX_DISABLE_CACHE: "1" },
    });
    const writtenText = await folder.read("out");
    assert.ok(
      writtenText !== "" &&
        writtenText.length < completeRun.stdout.length &&
        completeRun.stdout.startsWith(writtenText),
    );
    assert.notEqual(limitedRun.code, 0);
  });

  it("rejects unknown flags, duplicate flags and invalid flag values in one line", async (t) => {
    const cases: [string[], RegExp][] = [
      [["serve", "--host-foo", "x"], /unknown flag --host-foo \(see gantry serve --help\)/],
      [["serve", "--hots", "x"], /unknown flag --hots; did you mean --host\?/],
      [["serve", "--search", "x"], /unknown flag --search of gantry serve: it belongs to gantry sessions list/],
      [
        ["sessions", "import", "--output", "x"],
        /--output of gantry sessions import: it belongs to gantry sessions export/,
      ],
      [["sessions", "list", "--limit", "x"], /--limit: expected a number, got "x"/],
      [["sessions", "list", "--limit", "-1"], /--limit: expected a number that is not below 0, got "-1"/],
      [["serve", "-p", "1"], /unknown flag -p/],
      [["serve", "--host", "a", "--host", "b"], /--host was given twice/],
      [["serve", "--port"], /--port needs a value/],
      [["serve", "--host", "--port", "0"], /--host needs a value/],
      [["serve", "--help=yes"], /--help takes no value/],
      [["serve", "--insecure=yes"], /--insecure takes no value/],
    ];
    for (const [args, pattern] of cases) assertRefused(await runGantry(t, args), pattern);
  });

  it("reports the required version on an old Node in one line", async (t) => {
    for (const [version, requiredVersion] of [
      ["18.20.4", "20.19"],
      ["22.2.0", "22.3"],
    ]) {
      const folder = await tempDir(t, {
        "old.mjs": `Object.defineProperty(process, "versions", { value: { ...process.versions, node: "${version}" } });
Object.defineProperty(process, "version", { value: "v${version}" });`,
      });
      const run = await runGantry(t, ["serve"], { env: { NODE_OPTIONS: `--import=${folder.at("old.mjs")}` } });
      assertRefused(run, new RegExp(`^gantry: needs Node ${requiredVersion} or later; this is v${version} \\(`));
    }
  });

  it(
    "has its command and flags in the process title",
    { skip: process.platform !== "linux" && "reads /proc" },
    async (t) => {
      const server = await startServer(t, { args: ["serve", "--port", "0", "--host", "127.0.0.1"] });
      const processTitle = await readFile(`/proc/${server.pid}/cmdline`, "latin1");
      assert.match(processTitle, /^gantry serve --port 0 --host 127\.0\.0\.1/);
    },
  );

  it("rejects unknown commands, subcommands and flags in one line, with control characters escaped", async (t) => {
    assertRefused(await runGantry(t, ["fly"]), /unknown command fly; expected one of .*serve/);
    assertRefused(await runGantry(t, ["sevre"]), /unknown command sevre; did you mean gantry serve\?/);
    assertRefused(await runGantry(t, ["sessions"]), /sessions: expected one of list, show/);
    assertRefused(await runGantry(t, ["sessions", "lsit"]), /did you mean gantry sessions list\?/);
    assertRefused(await runGantry(t, ["--json"]), /expected a command before --json/);
    assertRefused(await runGantry(t, ["serve", "--stdio"]), /--stdio needs --acp/);
    assertRefused(
      await runGantry(t, ["serve", "--port", "http"]),
      /--port: expected a whole number from 0 to 65535, got "http"/,
    );
    assertRefused(await runGantry(t, ["\u001b[31mfly\u202e"]), /unknown command \\u001b\[31mfly\\u202e;/);
    assertRefused(await runGantry(t, ["serve", "--\u001b[31mx"]), /unknown flag --\\u001b\[31mx /);
    const unknownFlagRun = await runGantry(t, ["serve", "--prot", "1"]);
    assert.notEqual(unknownFlagRun.code, 0);
    assert.match(unknownFlagRun.stderr + unknownFlagRun.stdout, /--prot/);
  });
});

describe("gantry without a home folder or a working directory", () => {
  const unknownUser = { uid: 54_321, gid: 54_321 };
  // Without the build, a loader reads files that the other user cannot read, and needs a working directory.
  const sourceRunSkip = gantryCommand().includes("--import") && "needs the build: npm test";
  const isRoot = process.platform === "linux" && process.getuid?.() === 0;
  const userChangeSkip = isRoot ? sourceRunSkip : "only root on Linux can change its user";
  const userPrefix = ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups"];
  /** Replaces the path of this Node by a copy that the other user can run. Empty if the user can run this Node. */
  let nodeCopyPrefix: string[] = [];
  let copyFolder: string | undefined;
  after(() => copyFolder && rm(copyFolder, { recursive: true }));
  const createCommandPrefix = (...environment: string[]) => [...userPrefix, "env", ...environment, ...nodeCopyPrefix];
  let unavailableReason: string | undefined;
  before(() => {
    if (userChangeSkip) return;
    // Returns the reason why the other user cannot run a command. Undefined: the user can run the command.
    const findFailureReason = (...command: string[]): string | undefined => {
      // Root's capabilities end with the first program that the user starts: `env`.
      const [setpriv = "", ...ids] = userPrefix;
      const { status, stderr, error } = spawnSync(setpriv, [...ids, "env", ...command], { encoding: "utf8" });
      if (status === 0) return undefined;
      const [reason = stderr] = /^.*(?:Error|denied).*$/m.exec(stderr) ?? [];
      return `user ${unknownUser.uid} cannot run ${command.join(" ")}: ${error?.message ?? reason}`;
    };
    let nodePath = process.execPath;
    if (findFailureReason(nodePath, "--version")) {
      copyFolder = createFolderFor(unknownUser);
      nodePath = path.join(copyFolder, "node");
      copyFileSync(process.execPath, nodePath, constants.COPYFILE_FICLONE);
      nodeCopyPrefix = ["sh", "-c", 'shift; exec "$0" "$@"', nodePath];
    }
    unavailableReason = findFailureReason(nodePath, ...gantryCommand(), "--version");
  });
  const argumentLists = [["run", "Hi"], ["serve", "--port", "0"], ["sessions", "list"], ["models"], ["adapters"]];

  it(
    "reports an unknown home folder for a user who is not in the user database",
    { skip: userChangeSkip },
    async (t) => {
      if (unavailableReason !== undefined) return t.skip(unavailableReason);
      for (const args of argumentLists)
        assertRefused(
          await runGantry(t, args, { commandPrefix: createCommandPrefix("-u", "HOME"), env: { GANTRY_HOME: "" } }),
          /^gantry: the home folder is unknown: set HOME or GANTRY_HOME$/m,
        );
    },
  );

  it(
    "runs with GANTRY_HOME, and denies a read if a deny rule has a path below ~ and HOME is unknown",
    { skip: userChangeSkip },
    async (t) => {
      if (unavailableReason !== undefined) return t.skip(unavailableReason);
      const [home, projectDir] = [createFolderFor(unknownUser), createFolderFor(unknownUser)];
      t.after(() => Promise.all([home, projectDir].map((folder) => rm(folder, { recursive: true }))));
      await writeFile(path.join(projectDir, "a.txt"), "alpha", { mode: 0o644 });
      const config = JSON.stringify({ permissions: { rules: [{ tool: "read", action: "deny", path: "~/.ssh/**" }] } });
      await writeFile(path.join(home, "config.json"), config, { mode: 0o644 });
      const { code, stdout, stderr } = await runGantry(t, ["run", "Read a.txt"], {
        commandPrefix: createCommandPrefix("-u", "HOME"),
        home,
        projectDir,
      });
      assert.match(stdout, /Calling `read`/);
      // Without HOME, gantry cannot determine whether the file is in the folder of the rule.
      assert.match(stderr, /^gantry: permission denied: Read a\.txt$/m);
      assert.equal(code, 4, stderr);
      const homeRun = await runGantry(t, ["run", "Read a.txt"], {
        commandPrefix: createCommandPrefix(`HOME=${projectDir}`),
        home,
        projectDir,
      });
      assert.equal(homeRun.code, 0, homeRun.stderr);
    },
  );

  it(
    "reports a deleted working directory",
    { skip: process.platform === "linux" ? sourceRunSkip : "needs Linux" },
    async (t) => {
      const deletedFolderPrefix = ["bash", "-c", 'mkdir gone && cd gone && rmdir ../gone && exec "$@"', "bash"];
      for (const args of argumentLists.slice(0, 4))
        assertRefused(
          await runGantry(t, args, { commandPrefix: deletedFolderPrefix }),
          /^gantry: the folder in which gantry was started no longer exists$/m,
        );
    },
  );
});

describe("gantry serve with an invalid setup", () => {
  it("rejects an invalid value in the config and a missing config file", async (t) => {
    const home = await tempDir(t, { "config.json": '{"server":{"port":"x"}}' });
    assertRefused(
      await runGantry(t, ["serve"], { home: home.path }),
      /^gantry: .*config\.json: server\.port: expected a whole number from 0 to 65535, got "x"$/m,
    );
    assertRefused(
      await runGantry(t, ["serve", "--config", home.at("none.json")]),
      /none\.json: cannot be read \(ENOENT\)/,
    );
  });

  it("rejects an unknown, missing, throwing or invalid adapter and an unknown adapter option", async (t) => {
    const folder = await tempDir(t, { "none.mjs": "export default 5;", "throws.mjs": "throw new Error('at import');" });
    const home = folder.path;
    const run = (config: object) =>
      runGantry(t, ["serve", "--port", "0"], { home, config: config as Record<string, unknown> });
    assertRefused(
      await run({ session: { driver: "no-such-package" } }),
      /session\.driver: unknown session-driver no-such-package: expected sqlite, json, postgres, a package/,
    );
    assertRefused(await run({ session: { driver: "./missing.mjs" } }), /session\.driver: file not found/);
    assertRefused(
      await run({ server: { transports: ["./none.mjs"] } }),
      /server\.transports\[0\]: .*is not a gantry adapter/,
    );
    assertRefused(
      await run({ server: { transports: ["./throws.mjs"] } }),
      /throws\.mjs could not be loaded: at import/,
    );
    assertRefused(await run({ session: { driver: "sqlite", pth: "x" } }), /session.*pth/);
  });

  it("rejects a port in use", async (t) => {
    const otherServer = createServer();
    otherServer.listen(0, "127.0.0.1");
    await once(otherServer, "listening");
    t.after(() => void otherServer.close());
    const { port } = otherServer.address() as AddressInfo;
    assertRefused(
      await runGantry(t, ["serve", "--port", String(port)]),
      new RegExp(`127\\.0\\.0\\.1.*${port}.*in use`),
    );
  });

  it("rejects a public address without authentication unless --insecure is set", async (t) => {
    const publicArgs = ["serve", "--port", "0", "--host", "0.0.0.0"];
    assertRefused(
      await runGantry(t, publicArgs),
      /set server\.tokens or server\.required_headers in the config, or .*--insecure.*127\.0\.0\.1/,
    );
    assertRefused(
      await runGantry(t, [...publicArgs, "--acp"]),
      /set server\.tokens or acp\.required_headers in the config, or .*--insecure/,
    );
    const server = await startServer(t, { args: ["serve", "--port", "0", "--host", "0.0.0.0", "--insecure"] });
    assert.match(server.stdout, /^http server listening on http:\/\/0\.0\.0\.0:\d+\n$/);
    assert.match(
      server.stderr,
      /no authentication: every client that can reach http:\/\/0\.0\.0\.0:[1-9]\d* can run .*; server\.tokens or server\.required_headers requires/,
    );
  });

  it("reports an incompatible or missing SQLite addon with a rebuild command, and does not listen", async (t) => {
    const incompatibleError = [
      "The module '/x/better_sqlite3.node'",
      "was compiled against a different Node.js version using",
      "NODE_MODULE_VERSION 115. This version of Node.js requires",
      "NODE_MODULE_VERSION 127. Please try re-compiling",
    ].join("\n");
    const missingError = `Object.assign(new Error("Cannot find module '/x/better_sqlite3.node'"), { code: "MODULE_NOT_FOUND" })`;
    const folder = await tempDir(t, {
      "other.mjs": `process.dlopen = () => { throw new Error(${JSON.stringify(incompatibleError)}); };`,
      "none.mjs": `process.dlopen = () => { throw ${missingError}; };`,
    });
    const run = (file: string) =>
      runGantry(t, ["serve", "--port", "0"], { env: { NODE_OPTIONS: `--import=${folder.at(file)}` } });
    const remedy =
      /\(npm rebuild better-sqlite3 --prefix "?([^"]+?)"?\), or keep sessions elsewhere \(--session-driver json\)/;
    const incompatibleRun = await run("other.mjs");
    assert.deepEqual([incompatibleRun.code, incompatibleRun.stdout], [1, ""], incompatibleRun.stderr);
    assert.match(incompatibleRun.stderr, /it was built for another Node version \(module version 115, required 127\)/);
    const [, prefix = ""] = remedy.exec(incompatibleRun.stderr) ?? [];
    // The command must also work in another folder.
    await stat(path.join(prefix, "node_modules/better-sqlite3/package.json"));
    const missingRun = await run("none.mjs");
    assert.deepEqual([missingRun.code, missingRun.stdout], [1, ""], missingRun.stderr);
    assert.match(missingRun.stderr, /its native part is missing/);
    assert.match(missingRun.stderr, remedy);
  });

  it("rejects a session file that is no database and leaves it unchanged", async (t) => {
    const home = await tempDir(t, {
      "sessions.db": "this is no database, and it is long enough to be taken for a file of one",
    });
    const run = await runGantry(t, ["serve", "--port", "0"], { home: home.path });
    assert.equal(run.code, 1, run.stderr);
    assert.match(run.stderr, /sessions\.db/);
    assert.match(await home.read("sessions.db"), /^this is no database/);
  });
});

describe("gantry serve", () => {
  it("logs its project folder and its models on stderr", async (t) => {
    const offlineServer = await startServer(t);
    await offlineServer.waitForOutput(/info working in .* with models of offline$/m, "stderr");
    assert.ok(offlineServer.stderr.includes(`working in ${offlineServer.projectDir} with`));
    const providers = [{ name: "lab", driver: "openai", base_url: "http://127.0.0.1:9/v1", api_key: "x" }];
    const singleModelServer = await startServer(t, { config: { providers, model: { provider: "lab", model: "m1" } } });
    await singleModelServer.waitForOutput(/info working in .* with the model lab\/m1$/m, "stderr");
  });

  it("exits with 1 if its address cannot be written to stdout", { skip: FULL_DISK_SKIP }, async (t) => {
    const { code, stderr } = await runGantry(t, ["serve", "--port", "0"], { commandPrefix: FULL_DISK_COMMAND });
    assert.equal(code, 1, stderr);
    assert.match(stderr, /error standard output not writable; stopping .*ENOSPC/);
  });

  it("prints its address, makes its home folder private, and exits with 0 on SIGTERM, SIGINT and SIGHUP", async (t) => {
    for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) {
      const server = await startServer(t);
      assert.match(server.stdout, /^http server listening on http:\/\/127\.0\.0\.1:\d+\n$/);
      assert.equal((await stat(server.home)).mode & 0o777, 0o700);
      assert.deepEqual(await server.stop(signal), { code: 0, signal: null });
      await assert.rejects(server.fetch("/api/health"));
    }
  });

  it("prefers flags to the config", async (t) => {
    const server = await startServer(t, {
      config: { server: { port: 1 } },
      args: ["serve", "--port", "0", "--session-driver", "sqlite"],
    });
    assert.equal((await server.fetch("/api/health")).status, 200);
  });

  it("reads the API key of a provider from its own environment variable, not from that of another provider", async (t) => {
    const key = "canary-usual-key";
    const runAdapters = async (provider: object) =>
      runGantry(t, ["adapters", "--json"], { config: { providers: [provider] }, env: { OPENAI_API_KEY: key } });
    const sameProviderRun = await runAdapters({ provider: "openai" });
    assert.equal(sameProviderRun.code, 0, sameProviderRun.stdout + sameProviderRun.stderr);
    assert.ok(!(sameProviderRun.stdout + sameProviderRun.stderr).includes(key));
    const otherProviderRun = await runAdapters({ provider: "groq" });
    assert.notEqual(otherProviderRun.code, 0);
    assert.match(
      otherProviderRun.stdout + otherProviderRun.stderr,
      /providers\[0\]\.api_key: expected the key of Groq/,
    );
    const server = await startServer(t, {
      config: { providers: [{ provider: "openai" }] },
      env: { OPENAI_API_KEY: key },
    });
    assert.equal((await server.fetch("/api/health")).status, 200);
  });

  it("reads no configuration from the project folder", async (t) => {
    const server = await startServer(t, {
      files: { "config.json": '{"server":{"nonsense":1}}', ".gantry/config.json": '{"server":{"nonsense":1}}' },
    });
    assert.equal((await server.fetch("/api/health")).status, 200);
  });
});
