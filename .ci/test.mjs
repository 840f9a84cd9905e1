// `npm test`: types, lint, format, build, every test. `--only FILE...` runs tests of these files and nothing else.
import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  realpathSync,
  rmSync,
  symlinkSync,
} from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import path from "node:path";
import {
  CACHE,
  COMPILED,
  ROOT,
  at,
  buildStamp,
  checkNode,
  compiledFile,
  install,
  run,
  sourceDigest,
  testFiles,
} from "./project.mjs";

/** A file that takes longer hangs; the slowest takes a fraction of it. */
const FILE_LIMIT_MS = 240_000;

const TSC = at("node_modules/typescript/bin/tsc");
/** What it declares is checked by "types". */
const BUILD = { name: "build", args: [at(".ci/build.mjs"), "--unchecked"] };
const CHECKS = [
  {
    name: "types",
    args: [TSC, "-p", ".", "--incremental", "--tsBuildInfoFile", path.join(CACHE, "check.tsbuildinfo")],
  },
  {
    name: "types of the console",
    args: [
      TSC,
      "-p",
      "adapters/web-console/app",
      "--incremental",
      "--tsBuildInfoFile",
      path.join(CACHE, "check-console.tsbuildinfo"),
    ],
  },
  {
    name: "lint",
    args: [
      at("node_modules/eslint/bin/eslint.js"),
      "--config=.ci/eslint.config.js",
      "--max-warnings=0",
      "--cache",
      "--cache-strategy=content",
      `--cache-location=${path.join(CACHE, "eslint")}`,
      ".",
    ],
  },
  {
    name: "format",
    args: [
      at("node_modules/prettier/bin/prettier.cjs"),
      "--check",
      "--log-level=warn",
      "--cache",
      `--cache-location=${path.join(CACHE, "prettier")}`,
      ".",
    ],
  },
];

checkNode();
await install();
mkdirSync(CACHE, { recursive: true });

const args = process.argv.slice(2);
const only = args[0] === "--only" ? args.slice(1) : undefined;
if (only?.length === 0) {
  process.stderr.write("usage: npm run test:only -- test/<area>/<name>.test.ts ...\n");
  process.exit(1);
}
const failed = [];
const startedAt = Date.now();
const seconds = (since) => `${((Date.now() - since) / 1000).toFixed(1)} s`;

const files = only ?? testFiles();
// Behind the installation, which brings esbuild.
if (!only) await (await import("./compile.mjs")).compile();
// One for all files, made ready beside the checks; a file that runs alone starts its own when it needs one.
const postgres = files.length > 1 && !process.env.GANTRY_TEST_POSTGRES ? startPostgres() : undefined;
if (only) await tests();
// The tests run what is built, and need no more of the checks: those fill the moments in which tests wait.
else await Promise.all([step(BUILD).then(tests), checks()]);
// Then what was built unchecked is nothing to start from.
if (failed.includes("types")) rmSync(at("dist", ".stamp.json"), { force: true });

process.stdout.write(
  failed.length === 0
    ? `\nall good in ${seconds(startedAt)}\n`
    : `\nfailed: ${failed.join(", ")} (${seconds(startedAt)})\n`,
);
process.exitCode = failed.length === 0 ? 0 : 1;

/** One after the other: each is a single thread of work, beside which tests run. */
async function checks() {
  for (const check of CHECKS) await step(check);
}

async function step({ name, args }) {
  const since = Date.now();
  const code = await run(process.execPath, args, { stdio: ["ignore", "inherit", "inherit"] });
  process.stdout.write(`${code === 0 ? "ok" : "FAILED"}  ${name} (${seconds(since)})\n`);
  if (code !== 0) failed.push(name);
}

async function tests() {
  // A temporary folder of this run alone: what is left in it, or still runs with it, was left behind by a test.
  const temporary = mkdtempSync(path.join(realpathSync(tmpdir()), "gt-"));
  const env = { ...process.env, TMPDIR: temporary, TEMP: temporary, TMP: temporary };
  // Compiled, where the processes that they start are of the build: what those load by path are sources. Else by tsx.
  const isCompiled = !only && buildStamp()?.digest === sourceDigest();
  if (isCompiled) Object.assign(env, { GANTRY_TEST_DIST: "1", GANTRY_TEST_COMPILED: COMPILED });
  else keepTsxCache(temporary);
  const url = await postgres?.url;
  if (url) env.GANTRY_TEST_POSTGRES = url;
  const since = Date.now();
  const code = await run(
    process.execPath,
    [
      isCompiled ? "--enable-source-maps" : "--import=tsx",
      "--conditions=@gantry/source",
      at(".ci/run-tests.mjs"),
      // Half of a test is waiting, for a process, a disk or a clock.
      String(2 * Math.max(2, availableParallelism())),
      String(FILE_LIMIT_MS),
      process.stdout.isTTY || (only && !process.env.GANTRY_TEST_BRIEF) ? "spec" : "brief",
      ...(isCompiled ? files.map((file) => compiledFile(path.relative(ROOT, path.resolve(file)))) : files),
    ],
    { stdio: ["ignore", "inherit", "inherit"], env },
  );
  process.stdout.write(`${code === 0 ? "ok" : "FAILED"}  ${files.length} test files (${seconds(since)})\n`);
  if (code !== 0) failed.push("tests");
  await postgres?.stop();

  const left = await leftProcesses(temporary);
  if (left.length > 0) {
    failed.push("processes left behind");
    for (const { pid, command } of left) {
      process.stdout.write(`left behind: process ${pid}: ${command}\n`);
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // It ended meanwhile.
      }
    }
  }
  const names = readdirSync(temporary).filter((name) => !/^(tsx-|node-compile-cache|v8-compile-cache)/.test(name));
  if (names.length > 0) {
    failed.push("files left behind");
    process.stdout.write(`left behind in the temporary folder: ${names.join(", ")}\n`);
  }
  rmSync(temporary, { recursive: true, force: true });
}

/**
 * A private PostgreSQL server, which ends with this process however that ends. Its URL is undefined where it cannot be
 * started: then the tests that need one say what is missing.
 */
function startPostgres() {
  const server = "test/helpers/postgres-server.ts";
  const script = only ? ["--import=tsx", at(server)] : [compiledFile(server)];
  const child = spawn(process.execPath, ["--conditions=@gantry/source", ...script], {
    stdio: ["pipe", "pipe", "ignore"],
  });
  const ended = once(child, "close");
  child.stdin.on("error", () => undefined);
  const url = Promise.race([once(child.stdout, "data"), ended.then(() => [])]).then(([line]) =>
    line instanceof Buffer ? JSON.parse(line.toString()).url : undefined,
  );
  const stop = async () => {
    child.stdin.end();
    await ended;
  };
  return { url, stop };
}

/** tsx keeps what it compiled in the temporary folder; lead it to a lasting one. */
function keepTsxCache(temporary) {
  const kept = path.join(CACHE, "tsx");
  mkdirSync(kept, { recursive: true });
  const name = process.geteuid ? `tsx-${process.geteuid()}` : undefined;
  if (name) symlinkSync(kept, path.join(temporary, name), "dir");
}

/** Processes that still have this run's temporary folder in their environment or as their folder (Linux alone). */
async function leftProcesses(temporary) {
  const look = () => {
    if (process.platform !== "linux") return [];
    const found = [];
    for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
      try {
        const environment = readFileSync(`/proc/${pid}/environ`, "latin1");
        if (!environment.includes(temporary) && !readlinkSync(`/proc/${pid}/cwd`).startsWith(temporary)) continue;
        found.push({ pid: Number(pid), command: readFileSync(`/proc/${pid}/cmdline`, "latin1").split("\0").join(" ") });
      } catch {
        // Another user's, or gone.
      }
    }
    // Zombies have no command line any more; they wait for their parent and run nothing.
    return found.filter(({ command }) => command.trim() !== "");
  };
  // The last killed ones get a moment to go.
  for (let attempt = 0; attempt < 20 && look().length > 0; attempt++) {
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return look();
}
