// Runs test suites with `node --test` and tsx. Usage: test.mjs [--group] SUITE|FILE|FOLDER ... A suite is a folder of
// `test`, or one of STEPS below. `--group` runs all suites in one `node --test`, in parallel with the steps. Without it
// they run one after the other. Fails if a test leaves a process or a temporary file.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, readlinkSync, realpathSync } from "node:fs";
import { rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { CACHE, SOURCE_FLAGS, inRoot, checkNode, install, run } from "./project.mjs";
import { listTestFiles, listStoreTests } from "./project.mjs";

/** Time limit of one test and of one test process. It ends hanging tests; tests on a slow machine take far less. */
const TEST_LIMIT_MS = 900_000;
/** Maximum number of test processes. Tests wait for sockets, processes or the disk during about half of their time. */
const CONCURRENCY = 6;
/** Suites whose files share processes: their tests start no process and measure nothing process-wide. */
const BATCHED_SUITES = new Set(["unit"]);
/** Number of processes for a batched suite. Each loads the sources again, for about 6 s of CPU time. */
const BATCH_COUNT = 4;

const getPackagePath = (name) => inRoot("node_modules", name);
/** TypeScript 7 checks in a third of the time. ESLint and the build of declarations still need the API of version 6. */
const tscArgs = (project, name) => [
  ...[getPackagePath("typescript-native/bin/tsc"), "-p", project, "--noEmit", "--incremental"],
  ...["--tsBuildInfoFile", path.join(CACHE, `${name}.tsbuildinfo`)],
];
const eslintArgs = (files) => [
  ...[getPackagePath("eslint/bin/eslint.js"), "--config=.ci/eslint.config.js", "--max-warnings=0", "--no-warn-ignored"],
  ...["--cache", "--cache-strategy=content", `--cache-location=${path.join(CACHE, "eslint")}`, ...files],
];
const prettierArgs = (files) => [
  ...[getPackagePath("prettier/bin/prettier.cjs"), "--check", "--log-level=warn", "--ignore-unknown"],
  ...["--cache", `--cache-location=${path.join(CACHE, "prettier")}`, ...files],
];
/** Node commands that are not tests. The commands of one step run at the same time. */
const STEPS = {
  types: () => [tscArgs(".", "check"), tscArgs("adapters/web-console/app", "check-console")],
  lint: () => [eslintArgs(["."]), prettierArgs(["."])],
  "lint:changed": async () => {
    const files = await listChangedFiles();
    const scripts = files.filter((file) => /\.(ts|tsx|js|mjs|cjs)$/.test(file));
    return [...(scripts.length > 0 ? [eslintArgs(scripts)] : []), ...(files.length > 0 ? [prettierArgs(files)] : [])];
  },
};

checkNode();
await install();
mkdirSync(CACHE, { recursive: true });

const isGroup = process.argv.includes("--group");
const names = process.argv.slice(2).filter((arg) => arg !== "--group");
const failures = [];
/** Reports of all failing tests. Printed again at the end, because a long log is often cut in the middle. */
let failingTests = "";
const runStartMs = Date.now();

const steps = names.filter((name) => name in STEPS);
const suites = names.filter((name) => !(name in STEPS));
if (suites.length > 0) {
  // Child processes of tests run this build. Only package tests need its declarations.
  const build = [inRoot(".ci/build.mjs"), ...(suites.includes("package") ? [] : ["--js"])];
  await reportResult("build", () => run(process.execPath, build));
}
if (failures.length === 0) {
  if (isGroup) await Promise.all([...steps.map(runStep), runTests(suites)]);
  else for (const name of names) await (name in STEPS ? runStep(name) : runTests([name]));
}
process.stdout.write(failingTests);
process.stdout.write(failures.length === 0 ? "\nall good" : `\nfailed: ${failures.join(", ")}`);
process.stdout.write(` (${names.join(" ")}, ${formatSeconds(runStartMs)})\n`);
process.exitCode = failures.length === 0 ? 0 : 1;

function formatSeconds(startMs) {
  return `${((Date.now() - startMs) / 1000).toFixed(1)} s`;
}

async function reportResult(name, runWork) {
  const startMs = Date.now();
  const code = await runWork();
  process.stdout.write(`${code === 0 ? "ok" : "FAILED"}  ${name} (${formatSeconds(startMs)})\n`);
  if (code !== 0) failures.push(name);
}

async function runStep(name) {
  const commands = await STEPS[name]();
  await reportResult(name, async () =>
    Math.max(0, ...(await Promise.all(commands.map((args) => run(process.execPath, args))))),
  );
}

/** Runs the given suites, files and folders in one `node --test`. */
async function runTests(selections) {
  const tempFolder = mkdtempSync(path.join(realpathSync(tmpdir()), "gt-"));
  keepTsxCache(tempFolder);
  const env = { ...process.env, GANTRY_TEST_DIST: "1", TMPDIR: tempFolder, TEMP: tempFolder, TMP: tempFolder };
  let files = selections.flatMap(selectTestFiles);
  const usesPostgres = selections.includes("postgres");
  if (usesPostgres) {
    env.STORES = "postgres";
    const listTests = (folder) => listStoreTests().filter((file) => file.startsWith(folder));
    files.push(...writeBatches(listTests("test/unit/"), "postgres"), ...listTests("test/integration/"));
  }
  const server = usesPostgres && !env.GANTRY_TEST_POSTGRES ? startPostgresServer(env) : undefined;
  const url = await server?.url;
  if (url) env.GANTRY_TEST_POSTGRES = url;
  const report = path.join(CACHE, "test-report.txt");
  const reporters = ["stdout", report].map((file) => ["--test-reporter=spec", `--test-reporter-destination=${file}`]);
  // The batches compute all the time. The other files follow, so that all cores are busy until the end.
  const concurrency = selections.some((selection) => BATCHED_SUITES.has(selection)) ? BATCH_COUNT : CONCURRENCY;
  const flags = [`--test-concurrency=${concurrency}`, `--test-timeout=${TEST_LIMIT_MS}`, ...reporters.flat()];
  const name = selections.join(" ");
  await reportResult(`${name}: ${files.length} processes of tests`, async () => {
    const options = { env, stdio: ["ignore", "inherit", "inherit"] };
    const code = await run(process.execPath, [...SOURCE_FLAGS, "--test", ...flags, ...files], options);
    if (code !== 0) failingTests += readFileSync(report, "utf8").split("failing tests:")[1] ?? "";
    return code;
  });
  await server?.stop();
  await reportLeftovers(tempFolder, name);
}

/** Test files of a suite, file or folder, relative to the root. Returns batch files for suites that share processes. */
function selectTestFiles(selection) {
  if (existsSync(inRoot("test", selection)) && !selection.includes("/")) {
    const files = listTestFiles(`test/${selection}`);
    return BATCHED_SUITES.has(selection) ? writeBatches(files, selection) : files;
  }
  const file = path.relative(inRoot(), path.resolve(selection)).split(path.sep).join("/");
  return file.endsWith(".test.ts") ? [file] : listTestFiles(file);
}

/** Writes files that import several test files each, so that one process loads the sources for all of them. */
function writeBatches(files, name) {
  const folder = path.join(CACHE, "batches");
  mkdirSync(folder, { recursive: true });
  const count = Math.min(BATCH_COUNT, files.length);
  return Array.from({ length: count }, (_, batch) => {
    const file = path.join(folder, `${name}-${batch + 1}.mjs`);
    // Puts neighbouring files in different batches, because tests of one module take similar time.
    const members = files.filter((_file, index) => index % count === batch);
    const imports = members.map((member) => `import "${pathToFileURL(inRoot(member)).href}";\n`);
    const helper = pathToFileURL(inRoot("test/helpers/batch-process.ts")).href;
    imports.push(`import { keepProcessUntilTestsEnd } from "${helper}";\nkeepProcessUntilTestsEnd();\n`);
    writeFileSync(file, imports.join(""));
    return file;
  });
}

async function listChangedFiles() {
  const listGitFiles = async (...args) => {
    const child = spawn("git", [...args, "-z"], { cwd: inRoot(), stdio: ["ignore", "pipe", "inherit"] });
    const chunks = await child.stdout.toArray();
    return Buffer.concat(chunks).toString().split("\0").filter(Boolean);
  };
  const trackedFiles = await listGitFiles("diff", "--name-only", "--diff-filter=d", "HEAD");
  return [...trackedFiles, ...(await listGitFiles("ls-files", "--others", "--exclude-standard"))];
}

/** Starts a PostgreSQL server, which also ends if this process is killed. `url` is undefined if none is installed. */
function startPostgresServer(env) {
  const args = [...SOURCE_FLAGS, inRoot("test/helpers/postgres-server.ts")];
  const child = spawn(process.execPath, args, { env, stdio: ["pipe", "pipe", "ignore"] });
  const closeEvent = once(child, "close");
  child.stdin.on("error", () => undefined);
  const url = Promise.race([once(child.stdout, "data"), closeEvent.then(() => [])]).then(([line]) =>
    line instanceof Buffer ? JSON.parse(line.toString()).url : undefined,
  );
  const stop = async () => {
    child.stdin.end();
    await closeEvent;
  };
  return { url, stop };
}

/** tsx caches compiled files in the temporary folder. This link keeps the cache after the run. */
function keepTsxCache(tempFolder) {
  if (!process.geteuid) return;
  const cache = path.join(CACHE, "tsx");
  mkdirSync(cache, { recursive: true });
  symlinkSync(cache, path.join(tempFolder, `tsx-${process.geteuid()}`), "dir");
}

/** Reports a failure for processes and files that tests have left. Kills the processes and removes the files. */
async function reportLeftovers(tempFolder, name) {
  for (const { pid, command } of await findLeftProcesses(tempFolder)) {
    failures.push(`${name}: process left behind`);
    process.stdout.write(`left behind: process ${pid}: ${command}\n`);
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // The process has already ended.
    }
  }
  const entries = readdirSync(tempFolder, { recursive: true });
  const files = entries.filter((file) => !/^(tsx-|node-compile-cache|v8-compile-cache)/.test(file)).slice(0, 20);
  if (files.length > 0) {
    failures.push(`${name}: files left behind`);
    process.stdout.write(`left behind in the temporary folder: ${files.join(", ")}\n`);
  }
  rmSync(tempFolder, { recursive: true, force: true });
}

/** Finds processes with this run's temporary folder in their environment or as working directory (Linux only). */
async function findLeftProcesses(tempFolder) {
  const findProcesses = () => {
    if (process.platform !== "linux") return [];
    return readdirSync("/proc").flatMap((pid) => {
      if (!/^\d+$/.test(pid)) return [];
      try {
        const environment = readFileSync(`/proc/${pid}/environ`, "latin1");
        if (!environment.includes(tempFolder) && !readlinkSync(`/proc/${pid}/cwd`).startsWith(tempFolder)) return [];
        const command = readFileSync(`/proc/${pid}/cmdline`, "latin1").split("\0").join(" ").trim();
        // A process without a command line is a zombie and runs nothing.
        return command === "" ? [] : [{ pid: Number(pid), command }];
      } catch {
        // The process belongs to another user, or has ended.
        return [];
      }
    });
  };
  // A killed process may take a moment to disappear.
  for (let attempt = 0; attempt < 50 && findProcesses().length > 0; attempt++) {
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return findProcesses();
}
