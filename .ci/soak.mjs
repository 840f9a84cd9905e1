// `npm run soak`: the long forms of the tests that look for what is rare. SEED, and the counts below, can be set.
import { CACHE, at, checkNode, install, run, testFiles } from "./project.mjs";
import { mkdirSync, readFileSync } from "node:fs";

checkNode();
await install();
mkdirSync(CACHE, { recursive: true });

const seed = Number(process.env.SEED ?? Date.now() % 1_000_000);
const SEEDS = Number(process.env.SEEDS ?? 20);
/** What is above stores; `npm test` has it over two of them. */
const overStores = testFiles().filter((file) =>
  /\bSTORES\b.*helpers\/stores\.js"/.test(readFileSync(at(file), "utf8")),
);
const STEPS = [
  ["what is above stores, over each of them", overStores, { STORES: "all" }],
  ...Array.from({ length: SEEDS }, (_, n) => [
    `10,000 random operations on each driver, seed ${seed + n}`,
    "test/sessions/session-drivers.test.ts",
    { SEED: seed + n, RUNS: 1, STEPS: 10_000 },
  ]),
  ["kill -9 of a server, 20 times on each driver", "test/reliability/kill.test.ts", { SEED: seed, TRIALS: 20 }],
  ["kill -9 of a writer, 100 times (sqlite)", "test/sqlite-driver/processes.test.ts", { SEED: seed, TRIALS: 100 }],
  ["kill -9 of a writer, 100 times (postgres)", "test/postgres-driver/processes.test.ts", { SEED: seed, TRIALS: 100 }],
  ["kill -9 of a writer, 100 times (json)", "test/lowdb-json-driver/processes.test.ts", { SEED: seed, TRIALS: 100 }],
  ["four servers with 50 prompts each on one store", "test/reliability/processes.test.ts", { PROMPTS: 50 }],
  [
    "a page that follows a session through 200 schedules on each driver",
    "test/live/processes.test.ts",
    { SEED: seed, SCHEDULES: 200, STEPS: 10 },
  ],
  [
    "three replicas, 64 clients with 20 turns each, one killed or drained every 5 s; 20 kills beside watchers",
    "test/reliability/replicas.test.ts",
    { SEED: seed, STORES: "all", CLIENTS: 64, TURNS: 20, EVERY: 5_000, ROUNDS: 20 },
  ],
  [
    "a database that is away for 20 s under load; its connections cut 200 times",
    "test/reliability/replicas-outage.test.ts",
    { SEED: seed, CLIENTS: 32, TURNS: 12, DOWN: 20, CUTS: 200 },
  ],
  [
    "a lease of a dead host that ends by itself",
    "test/reliability/replicas-hosts.test.ts",
    { STORES: "all", LEASES: 1 },
  ],
  ["ACP before replicas on each store", "test/reliability/replicas-acp.test.ts", { STORES: "all" }],
  ["the whole kit through a pooler", "test/postgres-driver/pooler.test.ts", { STORES: "all" }],
  ["the same key asked of two servers at once, 100 times", "test/reliability/left-runs.test.ts", { KEYS: 100 }],
  ["schedules of watchers in one process", "test/live/watch.test.ts", { SEED: seed, SCHEDULES: 100 }],
  [
    "100 turns whose connection breaks at every fifth",
    "test/ai-sdk-provider/many-turns.test.ts",
    { SEED: seed, TURNS: 100 },
  ],
  ["each page of the examples in each browser", "test/live/page.test.ts", { BROWSERS: "all" }],
  ["any run at any door of a session answered and cancelled at any other", "test/live/doors.test.ts", { DOORS: "all" }],
  ["5,000 mutated frames on each wire", "test/reliability/mutations.test.ts", { SEED: seed, FRAMES: 5_000 }],
  [
    "10,000 texts for a shell: every program that bash starts was told before",
    "test/hostile/command-line.test.ts",
    { SEED: seed, TEXTS: 10_000 },
  ],
  ["10,000 calls of each file tool while a parent folder flips", "test/files/race.test.ts", { CALLS: 10_000 }],
];

const failed = [];
for (const [name, file, env] of STEPS) {
  const since = Date.now();
  const values = Object.fromEntries(Object.entries(env).map(([key, value]) => [key, String(value)]));
  const code = await run(
    process.execPath,
    [
      "--import=tsx",
      "--conditions=@gantry/source",
      "--test",
      `--test-reporter=${at(".ci/reporter.mjs")}`,
      ...[file].flat(),
    ],
    { stdio: ["ignore", "inherit", "inherit"], env: { ...process.env, ...values } },
  );
  process.stdout.write(`${code === 0 ? "ok" : "FAILED"}  ${name} (${((Date.now() - since) / 1000).toFixed(0)} s)\n`);
  if (code !== 0)
    failed.push(
      `${Object.entries(values)
        .map(([key, value]) => `${key}=${value}`)
        .join(" ")} ${[file].flat().join(" ")}`,
    );
}
process.stdout.write(failed.length === 0 ? "\nall good\n" : `\nfailed:\n${failed.join("\n")}\n`);
process.exitCode = failed.length === 0 ? 0 : 1;
