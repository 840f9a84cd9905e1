// Shared functions of the scripts. This file imports no package, because it runs before dependencies are installed.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { mkdir, rename, rm } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";

export const ROOT = fileURLToPath(new URL("..", import.meta.url)).replace(/[\\/]$/, "");
export const CACHE = path.join(ROOT, "node_modules", ".cache", "gantry");
/** Node flags for a program that imports the sources. */
export const SOURCE_FLAGS = ["--import=tsx", "--conditions=@gantry/source"];
export const inRoot = (...parts) => path.join(ROOT, ...parts);

/** Exits with a one-line error if this Node is older than the package supports. */
export function checkNode() {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  if ((major === 20 && minor >= 19) || (major === 22 && minor >= 3) || major > 22) return;
  const minVersion = major > 20 ? "22.3" : "20.19";
  process.stderr.write(`gantry needs Node ${minVersion} or later; this is ${process.version} (${process.execPath})\n`);
  process.exit(1);
}

function readJson(file) {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch {
    return undefined;
  }
}

/** Whether node_modules matches the lock file. Compares content, because dates change with every checkout. */
export function isInstalled() {
  const lockedPackages = readJson(inRoot("package-lock.json"))?.packages;
  const installedPackages = readJson(inRoot("node_modules", ".package-lock.json"))?.packages;
  if (!lockedPackages || !installedPackages) return false;
  return Object.entries(lockedPackages).every(([name, entry]) => {
    if (name === "" || (entry.optional && !installedPackages[name])) return true;
    return installedPackages[name]?.version === entry.version && installedPackages[name]?.integrity === entry.integrity;
  });
}

/** Lists the files below a folder, as sorted paths relative to the root. */
export function listFiles(folder) {
  if (!existsSync(inRoot(folder))) return [];
  const entries = readdirSync(inRoot(folder), { recursive: true, withFileTypes: true });
  const paths = entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => path.join(parentPath, name));
  return paths.map((file) => path.relative(ROOT, file).replaceAll("\\", "/")).sort();
}

/** Replaces a folder with the output of `writeFolder`. Processes that use the old folder keep their open files. */
export async function replaceFolder(folder, writeFolder) {
  const newFolder = inRoot(`.dist-${process.pid}`);
  const oldFolder = `${newFolder}-old`;
  try {
    await rm(newFolder, { recursive: true, force: true });
    await writeFolder(newFolder);
    if (existsSync(folder)) await rename(folder, oldFolder);
    await mkdir(path.dirname(folder), { recursive: true });
    await rename(newFolder, folder);
  } finally {
    await Promise.all([newFolder, oldFolder].map((folder) => rm(folder, { recursive: true, force: true })));
  }
}

/** Computes a digest of all inputs of the build. */
export function sourceDigest() {
  const hash = createHash("sha256");
  const scripts = listFiles(".ci").filter((file) => !/\/(test|soak|nodes|eslint\.config|run)\b/.test(file));
  const sources = ["src", "adapters"].flatMap(listFiles);
  const files = [...sources, ...scripts, "package.json", "package-lock.json", "tsconfig.json"];
  for (const file of files) hash.update(`${file}\0`).update(readFileSync(inRoot(file)));
  return hash.digest("hex");
}

/** Whether dist is built from the current sources, and has declarations if `types` is set. */
export function isBuilt(types = false) {
  const stamp = readJson(inRoot("dist", ".stamp.json"));
  return stamp?.digest === sourceDigest() && (stamp.types || !types);
}

/** Returns the command of the npm that runs this script, which may differ from the npm on the path. */
export function npmCommand() {
  const { npm_execpath: script } = process.env;
  return script?.endsWith(".js") ? [process.execPath, script] : [process.platform === "win32" ? "npm.cmd" : "npm"];
}

/** Lists every `*.test.ts` below a folder, because Node 20 does not expand patterns. */
export function listTestFiles(folder = "test") {
  return listFiles(folder).filter((file) => file.endsWith(".test.ts"));
}

/** Lists the test files that run once for each store of `STORES` (test/helpers/stores.ts, server-stores.ts). */
export function listStoreTests() {
  const storesPattern = /\b(?:ALL_|QUICK_|SERVER_)?STORES\b.*helpers\/(?:server-)?stores\.js"/;
  return listTestFiles().filter((file) => storesPattern.test(readFileSync(inRoot(file), "utf8")));
}

/** Runs a command until it exits, with its output sent to `stdio`. Resolves with the exit code. */
export function run(command, args, { stdio = "inherit", env = process.env, cwd = ROOT } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd, env, stdio, shell: command.endsWith(".cmd") });
    child.once("error", reject);
    child.once("close", (code) => resolve(code ?? 1));
  });
}

/** Waits for all promises of `promises`. Then throws one error with the messages of all failures. */
export async function settleAll(promises) {
  const results = await Promise.allSettled(Object.values(promises));
  const failures = Object.keys(promises).flatMap((name, i) => (results[i].reason ? [[name, results[i].reason]] : []));
  if (failures.length === 0) return results.map(({ value }) => value);
  throw new Error(failures.map(([name, error]) => `${name}: ${error.message ?? error}`).join("\n"));
}

/** Installs from the lock file if needed. Writes only to stderr, because stdout belongs to the command that follows. */
export async function install() {
  if (isInstalled()) return;
  process.stderr.write("installing dependencies (the first time this takes a minute or two)\n");
  const [command, ...args] = npmCommand();
  // The build needs the development packages, even if NODE_ENV is "production".
  const code = await run(command, [...args, "ci", "--include=dev", "--no-audit", "--no-fund"], {
    stdio: ["ignore", process.stderr, process.stderr],
  });
  if (code !== 0) {
    process.stderr.write("npm ci failed; its messages are above\n");
    process.exit(code);
  }
}
