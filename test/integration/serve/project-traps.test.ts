import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmod, mkdir, readdir, symlink } from "node:fs/promises";
import { statSync } from "node:fs";
import { describe, it, type TestContext } from "node:test";
import { runGantry } from "../../helpers/server.js";
import { tempDir, type TempDir } from "../../helpers/temp-dir.js";

/** An MCP server with one tool, whose description is the working directory. */
const SERVER = `
const { createInterface } = require("node:readline");
const RESULTS = {
  initialize: { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "lab", version: "1" } },
  "tools/list": { tools: [{ name: "where", description: process.cwd(), inputSchema: { type: "object" } }] },
};
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method } = JSON.parse(line);
  if (id !== undefined) console.log(JSON.stringify({ jsonrpc: "2.0", id, result: RESULTS[method] ?? {} }));
});`;

/** Runs a package like `npx`: the package of the nearest `node_modules`, otherwise the installed package. */
const LAUNCHER = `
const { createRequire } = require("node:module");
const { join } = require("node:path");
const [, , name, installed] = process.argv;
let file = installed;
try {
  file = createRequire(join(process.cwd(), "x")).resolve(name);
} catch {}
require(file);`;

function isInstalled(program: string): boolean {
  try {
    execFileSync(program, ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/**
 * A repository with a trap in each file that a launcher searches for programs. The real server is installed elsewhere.
 */
async function createRepository(t: TestContext): Promise<TempDir> {
  const folder = await tempDir(t, {
    "installed/lib/server.cjs": `#!/usr/bin/env node\n${SERVER}`,
    "installed/lib/launcher.cjs": LAUNCHER,
  });
  const createTrapModule = (name: string): string =>
    `require("node:fs").writeFileSync(${JSON.stringify(folder.at(`ran/${name}`))}, "");`;
  const createTrapShell = (name: string): string => `#!/bin/sh\n: > '${folder.at(`ran/${name}`)}'\nexec /bin/sh "$@"\n`;
  await folder.write({
    "installed/lib/lab_server.py": `import os; os.execv(${JSON.stringify(process.execPath)}, ["node", ${JSON.stringify(folder.at("installed/lib/server.cjs"))}])`,
    "project/package.json": JSON.stringify({
      name: "clone",
      bin: { "lab-server": "own.cjs" },
      dependencies: { "lab-server": "*" },
    }),
    "project/own.cjs": createTrapModule("bin-of-the-project"),
    "project/.npmrc": `script-shell=${folder.at("project/shell.sh")}\nnode-options=--require=${folder.at("project/options.cjs")}\n`,
    "project/shell.sh": createTrapShell("script-shell"),
    "project/options.cjs": createTrapModule("node-options"),
    "project/node_modules/.bin/lab-server": `#!/usr/bin/env node\n${createTrapModule("bin")}`,
    "project/node_modules/lab-server/package.json": JSON.stringify({
      name: "lab-server",
      version: "1.0.0",
      main: "main.cjs",
      bin: "main.cjs",
    }),
    "project/node_modules/lab-server/main.cjs": `#!/usr/bin/env node\n${createTrapModule("package")}`,
    "project/lab_server.py": `open(${JSON.stringify(folder.at("ran/python"))}, "w")`,
  });
  await mkdir(folder.at("ran"));
  await mkdir(folder.at("home"));
  await mkdir(folder.at("installed/bin"));
  await symlink("../lib/server.cjs", folder.at("installed/bin/lab-server"));
  for (const name of [
    "installed/lib/server.cjs",
    "project/shell.sh",
    "project/node_modules/.bin/lab-server",
    "project/node_modules/lab-server/main.cjs",
  ])
    await chmod(folder.at(name), 0o755);
  return folder;
}

/** Starts the MCP server and returns the server's working directory. Undefined: the server did not start. */
async function readServerFolder(
  t: TestContext,
  folder: TempDir,
  server: Record<string, unknown>,
): Promise<string | undefined> {
  const { stdout } = await runGantry(t, ["mcp", "list", "--json"], {
    home: folder.at("home"),
    projectDir: folder.at("project"),
    config: { mcp_servers: { lab: server } },
  });
  const [lab] = JSON.parse(stdout) as { tools: { description: string }[] }[];
  return lab?.tools[0]?.description;
}

describe("a repository with traps for configured MCP servers", () => {
  const createServerConfigs = (folder: TempDir) => {
    const env = {
      npm_config_prefix: folder.at("installed"),
      npm_config_cache: folder.at("cache"),
      npm_config_offline: "true",
    };
    return {
      "an npx-like launcher": {
        command: process.execPath,
        args: [folder.at("installed/lib/launcher.cjs"), "lab-server", folder.at("installed/lib/server.cjs")],
      },
      "npx --no-install": { command: "npx", args: ["--no-install", "lab-server"], env },
      "npx -y": { command: "npx", args: ["-y", "lab-server"], env },
      "python -m": { command: "python3", args: ["-m", "lab_server"], env: { PYTHONPATH: folder.at("installed/lib") } },
    };
  };

  for (const launcher of ["an npx-like launcher", "npx --no-install", "npx -y", "python -m"] as const)
    it(`runs none of its own programs when a server starts by ${launcher}, except with "cwd": "<project>"`, async (t) => {
      const folder = await createRepository(t);
      const server = createServerConfigs(folder)[launcher];
      if (!isInstalled(server.command)) return t.skip(`needs ${server.command}`);
      assert.equal(await readServerFolder(t, folder, server), folder.at("home/mcp"));
      assert.deepEqual(await readdir(folder.at("ran")), []);
      assert.equal(statSync(folder.at("home/mcp")).mode & 0o777, 0o700);
      // Proves that the traps work.
      await readServerFolder(t, folder, { ...server, cwd: "<project>" });
      assert.notDeepEqual(await readdir(folder.at("ran")), []);
    });

  it('is the server\'s working directory with "cwd": "<project>"; another path is relative to the config\'s folder', async (t) => {
    const folder = await createRepository(t);
    const server = { command: process.execPath, args: [folder.at("installed/lib/server.cjs")] };
    assert.equal(await readServerFolder(t, folder, { ...server, cwd: "<project>" }), folder.at("project"));
    assert.equal(await readServerFolder(t, folder, { ...server, cwd: "../installed" }), folder.at("installed"));
  });

  it("gantry run and gantry mcp list exit with 1 if a file blocks the folder of MCP servers", async (t) => {
    const folder = await tempDir(t, {
      "home/mcp": "",
      "home/config.json": '{"mcp_servers":{"lab":{"command":"node"}}}',
    });
    for (const args of [
      ["run", "Hello"],
      ["mcp", "list"],
    ]) {
      const { code, stderr } = await runGantry(t, args, { home: folder.at("home") });
      assert.deepEqual(
        [code, stderr],
        [1, `gantry: ${folder.at("home/mcp")}: the folder of MCP servers cannot be created (EEXIST)\n`],
      );
    }
  });
});
