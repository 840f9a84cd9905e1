import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, statSync } from "node:fs";
import { builtinModules } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { openPane } from "./terminal-pane.js";
import { spawnGantry, type GantryServer } from "./server.js";
import { makeTempDir, type Hooks } from "./temp-dir.js";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const DIST = path.join(ROOT, "dist");
const PROBE_FILE = fileURLToPath(new URL("./loaded-probe.cjs", import.meta.url));

/** Modules that a process of the build has loaded. */
export interface LoadedModules {
  /** Files of `dist` with their sizes, by path relative to it. */
  files: Map<string, number>;
  /** Packages whose code is in these files. */
  packages: string[];
  /** Built-in Node modules that an empty program does not load. */
  builtins: string[];
}

interface ProbeOptions {
  args: readonly string[];
  readyPattern: RegExp;
  config?: Record<string, unknown>;
}

/**
 * Modules that the built `gantry` has loaded when its stdout first matches `readyPattern`. `trigger` causes that
 * output.
 */
export async function listLoadedModules(
  t: Hooks,
  options: ProbeOptions & { trigger?: (server: GantryServer) => void },
): Promise<LoadedModules> {
  const { args, config = {}, readyPattern } = options;
  const { env, read, remove } = await prepareProbe(readyPattern);
  const server = await spawnGantry(t, { from: "dist", args, config, env }).finally(() => t.after(remove));
  options.trigger?.(server);
  await server.waitForOutput(readyPattern);
  const loadedModules = read();
  await server.stop();
  return loadedModules;
}

/** Modules that the built `gantry` has loaded in a terminal when its output first matches `readyPattern`. */
export async function listModulesInTerminal(
  t: Hooks,
  { args, config = {}, readyPattern }: ProbeOptions,
): Promise<LoadedModules> {
  const { env, read, remove } = await prepareProbe(readyPattern);
  const pane = await openPane(t, { from: "dist", args, config, env }).finally(() => t.after(remove));
  await pane.waitForScreen(readyPattern);
  return read();
}

/**
 * Environment of a process that records what it has loaded, with a reader of the record. Call `remove` in a hook after
 * the one that ends the process, because the process writes its coverage when it ends.
 */
async function prepareProbe(readyPattern: RegExp) {
  const folder = await makeTempDir();
  mkdirSync(folder.at("coverage"));
  const env = {
    NODE_OPTIONS: `--require ${JSON.stringify(PROBE_FILE)}`,
    NODE_V8_COVERAGE: folder.at("coverage"),
    PROBE_UNTIL: readyPattern.source,
    PROBE_OUT: folder.at("loaded.json"),
  };
  return { env, read: () => readRecord(env.PROBE_OUT), remove: () => folder.remove() };
}

function readRecord(file: string): LoadedModules {
  const record = JSON.parse(readFileSync(file, "utf8")) as { urls: string[]; builtins: string[] };
  const files = record.urls.map((url) => fileURLToPath(url)).filter((file) => file.startsWith(`${DIST}${path.sep}`));
  const emptyProgramBuiltins = parseBuiltins(
    execFileSync(process.execPath, ["--input-type=module", "-e", EMPTY_PROGRAM], { env: {} }),
  );
  return {
    files: new Map(files.map((file) => [path.relative(DIST, file), statSync(file).size])),
    packages: [...new Set(files.flatMap(listPackages))].sort(),
    builtins: selectPublicModules(record.builtins).filter((name) => !emptyProgramBuiltins.includes(name)),
  };
}

const EMPTY_PROGRAM =
  'process.stdout.on("error", () => {}); process.stdout.write(JSON.stringify(process.moduleLoadList));';

function parseBuiltins(output: Buffer): string[] {
  return selectPublicModules(JSON.parse(output.toString("utf8")) as string[]);
}

function selectPublicModules(entries: readonly string[]): string[] {
  const names = entries.map((entry) => entry.replace(/^NativeModule /, ""));
  return names.filter((name) => builtinModules.includes(name) && !name.startsWith("_")).sort();
}

/** Packages whose code is in a file of the build. */
export function listPackages(file: string): string[] {
  const { sources } = JSON.parse(readFileSync(`${file}.map`, "utf8")) as { sources: string[] };
  return sources.flatMap((source) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(source)?.[1] ?? []);
}
