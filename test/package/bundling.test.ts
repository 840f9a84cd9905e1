import assert from "node:assert/strict";
import { execFile, spawnSync } from "node:child_process";
import { chmodSync, cpSync, existsSync, mkdirSync, readdirSync, renameSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { nodeFileTrace } from "@vercel/nft";
import { rgPath } from "@vscode/ripgrep";
import { build as esbuild } from "esbuild";
import { rolldown } from "rolldown";
import webpack from "webpack";
import { installPackage, packPackage } from "../helpers/packed-package.js";
import { makeTempDir, type TempDir } from "../helpers/temp-dir.js";

const execFileAsync = promisify(execFile);
const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const PROGRAM = fileURLToPath(new URL("../helpers/bundled-program.mjs", import.meta.url));
/** Packages that stay outside a bundle; see docs/bundling.md. */
const EXTERNAL_PACKAGES = ["better-sqlite3", "@vscode/ripgrep", "@vscode/tree-sitter-wasm"];
/** Whether a folder that gantry searches contains a ripgrep of the system. */
const HAS_SYSTEM_RIPGREP = ["/usr/local/bin/rg", "/usr/bin/rg", "/bin/rg"].some((file) => existsSync(file));
/** Reason to skip the test that mounts a ripgrep at a system path, in its own mount namespace. */
const MOUNT_SKIP = spawnSync("bwrap", ["--dev-bind", "/", "/", "true"]).status === 0 ? false : "needs bubblewrap";
const EXPECTED_LINES = [
  "1\tconst one = 1;",
  "2\tconst two = 2;",
  "a.js",
  "2:const two = 2;",
  "from bash",
  "[exit code 0]",
  "Edited a.js: replaced at line 1.",
  "",
  "New syntax errors after this change:",
  "a.js:1: ) is missing | const one = (1;",
  "This call is not allowed: no rm",
  // Detached commands exist only on Linux.
  process.platform === "linux"
    ? "from a kept command"
    : "commands cannot outlive gantry here. Set background without detached.",
  "{ done: true }",
  "HTTP 200, 1 session",
  "closed",
];

type Format = "esm" | "cjs";
interface Bundle {
  readonly entry: string;
  readonly outdir: string;
  readonly format: Format;
  readonly isMinified: boolean;
}

/** Each bundler writes `main.mjs` or `main.cjs` to the folder, with only the usual options for a Node program. */
const BUNDLERS: Record<string, (bundle: Bundle) => Promise<void>> = {
  async esbuild({ entry, outdir, format, isMinified }) {
    const outfile = path.join(outdir, getEntryName(format));
    await esbuild({
      entryPoints: [entry],
      outfile,
      format,
      bundle: true,
      platform: "node",
      minify: isMinified,
      logLevel: "error",
    });
  },
  async rolldown({ entry, outdir, format, isMinified }) {
    const bundle = await rolldown({ input: entry, platform: "node", logLevel: "silent" });
    await bundle.write({
      dir: outdir,
      format,
      minify: isMinified,
      entryFileNames: getEntryName(format),
      chunkFileNames: `[name]-${getEntryName(format)}`,
    });
    await bundle.close();
  },
  async webpack({ entry, outdir, format, isMinified }) {
    const output = { path: outdir, filename: getEntryName(format) };
    const isModule = format === "esm";
    const compiler = webpack({
      mode: "production",
      target: "node20",
      entry,
      devtool: false,
      optimization: { minimize: isMinified },
      experiments: { outputModule: isModule },
      output: isModule ? { ...output, module: true, library: { type: "module" } } : output,
    });
    const stats = await new Promise<webpack.Stats | undefined>((resolve, reject) =>
      compiler.run((error, result) => (error ? reject(error) : resolve(result))),
    );
    assert.deepEqual(stats?.toJson({ errors: true }).errors, []);
    await new Promise((resolve) => compiler.close(resolve));
  },
};

const getEntryName = (format: Format): string => (format === "esm" ? "main.mjs" : "main.cjs");

describe("a program that bundles gantry", () => {
  let folder: TempDir;
  let movedSourcePath: string;

  before(async () => {
    folder = await makeTempDir();
    installPackage(packPackage(folder.path), folder.at("source"));
    cpSync(PROGRAM, folder.at("source/program.mjs"));
    movedSourcePath = folder.at("away");
  });
  after(() => folder.remove());

  /** Creates a folder that contains a bundle and only these packages. Resolves with the bundle's path. */
  async function createBundle(name: string, format: Format, packages: readonly string[], isMinified = false) {
    const outdir = folder.at(
      [name, format, ...(isMinified ? ["minified"] : []), ...packages.map((name) => path.basename(name))].join("-"),
    );
    if (existsSync(outdir)) return path.join(outdir, getEntryName(format));
    mkdirSync(outdir);
    await BUNDLERS[name]!({ entry: folder.at("source/program.mjs"), outdir, format, isMinified });
    for (const external of packages) {
      const link = path.join(outdir, "node_modules", external);
      mkdirSync(path.dirname(link), { recursive: true });
      symlinkSync(path.join(ROOT, "node_modules", external), link, "dir");
    }
    return path.join(outdir, getEntryName(format));
  }

  /** Runs a bundle while the installed package is moved away. Returns the text of stdout and stderr. */
  async function runBundle(
    file: string,
    flags: readonly string[] = [],
    commandPrefix: readonly string[] = [],
  ): Promise<string> {
    const env: NodeJS.ProcessEnv = { ...process.env };
    for (const name of ["NODE_OPTIONS", "NODE_TEST_CONTEXT", "NODE_PATH"]) delete env[name];
    renameSync(folder.at("source"), movedSourcePath);
    try {
      const [program = "", ...args] = [...commandPrefix, process.execPath, ...flags, file];
      const { stdout, stderr } = await execFileAsync(program, args, { cwd: "/", env });
      return stdout + stderr;
    } finally {
      renameSync(movedSourcePath, folder.at("source"));
    }
  }

  for (const name of Object.keys(BUNDLERS))
    for (const format of ["esm", "cjs"] as const)
      it(`runs when ${name} bundles it as ${format}`, async () => {
        const file = await createBundle(name, format, EXTERNAL_PACKAGES);
        assert.deepEqual((await runBundle(file)).trim().split("\n"), EXPECTED_LINES);
      });

  it("runs minified, and esbuild bundles it into a single file", async () => {
    const file = await createBundle("esbuild", "cjs", EXTERNAL_PACKAGES, true);
    assert.deepEqual(readdirSync(path.dirname(file)).sort(), ["main.cjs", "node_modules"]);
    assert.deepEqual((await runBundle(file)).trim().split("\n"), EXPECTED_LINES);
  });

  it("reports a missing better-sqlite3 with the npm command that installs it", async () => {
    const file = await createBundle("esbuild", "esm", ["@vscode/ripgrep", "@vscode/tree-sitter-wasm"]);
    await assert.rejects(runBundle(file), /better-sqlite3 .*it is not installed; .*npm install better-sqlite3/);
  });

  it("reports a missing @vscode/tree-sitter-wasm with the npm command that installs it", async () => {
    const file = await createBundle("rolldown", "esm", ["better-sqlite3", "@vscode/ripgrep"]);
    assert.match(
      await runBundle(file),
      /@vscode\/tree-sitter-wasm is not installed beside this program; run npm install @vscode\/tree-sitter-wasm there/,
    );
  });

  it("reports a missing ripgrep with the folders that gantry searches", { skip: HAS_SYSTEM_RIPGREP }, async () => {
    const file = await createBundle("rolldown", "esm", ["better-sqlite3", "@vscode/tree-sitter-wasm"]);
    assert.match(
      await runBundle(file),
      /^.*needs ripgrep, which is not installed .*rg is in \/usr\/bin or \/usr\/local\/bin/m,
    );
  });

  it("searches with the system's ripgrep if @vscode/ripgrep is missing", { skip: MOUNT_SKIP }, async () => {
    const file = await createBundle("rolldown", "esm", ["better-sqlite3", "@vscode/tree-sitter-wasm"]);
    const nodeMount = ["--ro-bind", process.execPath, process.execPath];
    const ripgrepMount = ["--tmpfs", "/usr/local/bin", "--ro-bind", rgPath, "/usr/local/bin/rg"];
    const output = await runBundle(file, [], ["bwrap", "--dev-bind", "/", "/", ...ripgrepMount, ...nodeMount, "--"]);
    assert.match(output, /^2:const two = 2;$/m);
  });

  it("runs in a simulated main process of Electron", { skip: process.platform === "win32" }, async () => {
    const file = await createBundle("webpack", "cjs", EXTERNAL_PACKAGES);
    const appFolder = path.dirname(file);
    // The executable of an Electron application acts as Node only with this environment variable.
    writeFileSync(
      path.join(appFolder, "app"),
      `#!/bin/sh\ntest "$ELECTRON_RUN_AS_NODE" = 1 && exec '${process.execPath}' "$@"\n`,
    );
    chmodSync(path.join(appFolder, "app"), 0o755);
    writeFileSync(
      path.join(appFolder, "electron.cjs"),
      `Object.defineProperty(process, "versions", { value: { ...process.versions, electron: "37.0.0" } });
      process.execPath = ${JSON.stringify(path.join(appFolder, "app"))};`,
    );
    assert.deepEqual(
      (await runBundle(file, ["-r", path.join(appFolder, "electron.cjs")])).trim().split("\n"),
      EXPECTED_LINES,
    );
  });

  it("runs from the files that Next.js traces for a standalone build", async () => {
    const base = folder.at("source");
    const includedPaths = ["better-sqlite3", "@vscode"].map((name) => `node_modules/${name}`);
    const { fileList } = await nodeFileTrace([folder.at("source/program.mjs")], { base });
    const standalone = folder.at("standalone");
    for (const file of fileList) cpSync(path.join(base, file), path.join(standalone, file));
    // Copies the packages like the documented outputFileTracingIncludes.
    for (const name of includedPaths) cpSync(path.join(ROOT, name), path.join(standalone, name), { recursive: true });
    assert.deepEqual((await runBundle(path.join(standalone, "program.mjs"))).trim().split("\n"), EXPECTED_LINES);
  });

  it("can require the package from CommonJS", async () => {
    const script = 'const { Agent } = require("gantry"); console.log(Agent.name);';
    const { stdout } = await execFileAsync(process.execPath, ["-e", script], { cwd: folder.at("source") });
    assert.equal(stdout.trim(), "Agent");
  });
});
