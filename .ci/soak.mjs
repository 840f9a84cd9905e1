// `npm run soak`: the long forms of tests that search for rare failures. SEED, SEEDS and the counts below can be set.
import { SOURCE_FLAGS, checkNode, install, run, testsOverStores } from "./project.mjs";

checkNode();
await install();

const seed = Number(process.env.SEED ?? Date.now() % 1_000_000);
const SEEDS = Number(process.env.SEEDS ?? 20);
const WRITERS = ["integration/sqlite-driver", "integration/lowdb-json-driver", "postgres/postgres-driver"];
/** What is tested, the file or files, and environment variables. */
const STEPS = [
  ["modules above the stores, over each store", testsOverStores(), { STORES: "all" }],
  ...Array.from({ length: SEEDS }, (_, n) => [
    `10,000 random operations on each driver, seed ${seed + n}`,
    "test/unit/sessions/session-drivers.test.ts",
    { SEED: seed + n, RUNS: 1, STEPS: 10_000, STORES: "all" },
  ]),
  [
    "kill -9 of a server, 20 times on each driver",
    "test/integration/reliability/kill.test.ts",
    { SEED: seed, TRIALS: 20, STORES: "all" },
  ],
  ...WRITERS.map((folder) => [
    `kill -9 of a writer, 100 times (${folder})`,
    `test/${folder}/processes.test.ts`,
    { SEED: seed, TRIALS: 100 },
  ]),
  [
    "four servers with 50 prompts each on one store",
    "test/integration/reliability/processes.test.ts",
    { PROMPTS: 50, STORES: "all" },
  ],
  [
    "a page that follows a session through 200 schedules on each driver",
    "test/postgres/live/processes.test.ts",
    { SEED: seed, SCHEDULES: 200, STEPS: 10 },
  ],
  [
    "three replicas, 64 clients with 20 turns each, one killed or drained every 5 s; 20 kills beside watchers",
    "test/postgres/reliability/replicas.test.ts",
    { SEED: seed, STORES: "all", CLIENTS: 64, TURNS: 20, EVERY: 5_000, ROUNDS: 20 },
  ],
  [
    "a database that is away for 20 s under load; its connections cut 200 times",
    "test/postgres/reliability/replicas-outage.test.ts",
    { SEED: seed, CLIENTS: 32, TURNS: 12, DOWN: 20, CUTS: 200 },
  ],
  [
    "a lease of a dead host that expires",
    "test/postgres/reliability/replicas-hosts.test.ts",
    { STORES: "all", LEASES: 1 },
  ],
  ["ACP before replicas on each store", "test/postgres/reliability/replicas-acp.test.ts", { STORES: "all" }],
  ["the whole kit through a pooler", "test/postgres/postgres-driver/pooler.test.ts", { STORES: "all" }],
  [
    "the same key asked of two servers at once, 100 times",
    "test/integration/reliability/left-runs.test.ts",
    { KEYS: 100, STORES: "all" },
  ],
  ["schedules of watchers in one process", "test/unit/live/watch.test.ts", { SEED: seed, SCHEDULES: 100 }],
  [
    "100 turns whose connection breaks at every fifth",
    "test/unit/ai-sdk-provider/many-turns.test.ts",
    { SEED: seed, TURNS: 100 },
  ],
  ["each page of the examples in each browser", "test/browser/live/page.test.ts", { BROWSERS: "all" }],
  [
    "any run on any transport, answered and cancelled on any other",
    "test/integration/live/doors.test.ts",
    { DOORS: "all" },
  ],
  [
    "5,000 mutated frames on each wire",
    "test/integration/reliability/mutations.test.ts",
    { SEED: seed, FRAMES: 5_000 },
  ],
  [
    "10,000 command lines: each program that bash starts was found by the parser",
    "test/integration/hostile/command-line.test.ts",
    { SEED: seed, TEXTS: 10_000 },
  ],
  [
    "10,000 calls of each file tool while a parent folder flips",
    "test/integration/files/race.test.ts",
    { CALLS: 10_000 },
  ],
];

const failed = [];
for (const [name, files, variables] of STEPS) {
  const since = Date.now();
  const values = Object.fromEntries(Object.entries(variables).map(([key, value]) => [key, String(value)]));
  const args = [...SOURCE_FLAGS, "--test", "--test-reporter=dot", ...[files].flat()];
  const code = await run(process.execPath, args, { env: { ...process.env, ...values } });
  process.stdout.write(`${code === 0 ? "ok" : "FAILED"}  ${name} (${((Date.now() - since) / 1000).toFixed(0)} s)\n`);
  const settings = Object.entries(values).map(([key, value]) => `${key}=${value}`);
  if (code !== 0) failed.push([...settings, ...[files].flat()].join(" "));
}
process.stdout.write(failed.length === 0 ? "\nall good\n" : `\nfailed:\n${failed.join("\n")}\n`);
process.exitCode = failed.length === 0 ? 0 : 1;
