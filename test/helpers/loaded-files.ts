import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, statSync } from "node:fs";
import { builtinModules } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { openPane } from "./pane.js";
import { spawnGantry, type GantryServer } from "./server.js";
import { makeTempDir, type Hooks } from "./temp.js";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const DIST = path.join(ROOT, "dist");
const PROBE = fileURLToPath(new URL("./loaded-probe.cjs", import.meta.url));

/** Modules that a process of the build has loaded. */
export interface Loaded {
  /** Files of `dist` with their sizes, by path relative to it. */
  files: Map<string, number>;
  /** Packages whose code is in these files. */
  packages: string[];
  /** Node modules that an empty program does not load. */
  builtins: string[];
}

interface LoadedOptions {
  args: readonly string[];
  until: RegExp;
  config?: Record<string, unknown>;
}

/** Modules that the built `gantry` has loaded when its stdout first matches `until`. `ask` triggers that output. */
export async function loadedBy(
  t: Hooks,
  options: LoadedOptions & { ask?: (server: GantryServer) => void },
): Promise<Loaded> {
  const { args, config = {}, until } = options;
  const { env, read, remove } = await probe(until);
  const server = await spawnGantry(t, { from: "dist", args, config, env }).finally(() => t.after(remove));
  options.ask?.(server);
  await server.output(until);
  const loaded = read();
  await server.stop();
  return loaded;
}

/** The same in a terminal. */
export async function loadedInTerminal(t: Hooks, { args, config = {}, until }: LoadedOptions): Promise<Loaded> {
  const { env, read, remove } = await probe(until);
  const pane = await openPane(t, { from: "dist", args, config, env }).finally(() => t.after(remove));
  await pane.until(until);
  return read();
}

/**
 * Environment of a process that records what it has loaded, with a reader of the record. Call `remove` in a hook after
 * the one that ends the process, because the process writes its coverage when it ends.
 */
async function probe(until: RegExp) {
  const folder = await makeTempDir();
  mkdirSync(folder.at("coverage"));
  const env = {
    NODE_OPTIONS: `--require ${JSON.stringify(PROBE)}`,
    NODE_V8_COVERAGE: folder.at("coverage"),
    PROBE_UNTIL: until.source,
    PROBE_OUT: folder.at("loaded.json"),
  };
  return { env, read: () => readLoaded(env.PROBE_OUT), remove: () => folder.remove() };
}

function readLoaded(file: string): Loaded {
  const loaded = JSON.parse(readFileSync(file, "utf8")) as { urls: string[]; builtins: string[] };
  const files = loaded.urls.map((url) => fileURLToPath(url)).filter((url) => url.startsWith(`${DIST}${path.sep}`));
  const empty = builtinsOf(execFileSync(process.execPath, ["--input-type=module", "-e", EMPTY], { env: {} }));
  return {
    files: new Map(files.map((file) => [path.relative(DIST, file), statSync(file).size])),
    packages: [...new Set(files.flatMap(packagesIn))].sort(),
    builtins: publicOnes(loaded.builtins).filter((name) => !empty.includes(name)),
  };
}

const EMPTY = 'process.stdout.on("error", () => {}); process.stdout.write(JSON.stringify(process.moduleLoadList));';

function builtinsOf(list: Buffer): string[] {
  return publicOnes(JSON.parse(list.toString("utf8")) as string[]);
}

function publicOnes(list: readonly string[]): string[] {
  const names = list.map((entry) => entry.replace(/^NativeModule /, ""));
  return names.filter((name) => builtinModules.includes(name) && !name.startsWith("_")).sort();
}

/** Packages whose code is in a file of the build. */
export function packagesIn(file: string): string[] {
  const { sources } = JSON.parse(readFileSync(`${file}.map`, "utf8")) as { sources: string[] };
  return sources.flatMap((source) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(source)?.[1] ?? []);
}
