// `npm run soak`: long forms of the tests that search for rare failures. SEED is the seed of the tests, SEEDS the
// number of random schedules of the drivers. A failure prints the variables and files that repeat the failed step.
import { SOURCE_FLAGS, checkNode, install, run, listStoreTests } from "./project.mjs";

checkNode();
await install();

const { SEED = Date.now() % 1_000_000, SEEDS = 20 } = process.env;
const STORES = "all";
/** Test files below `test`, without ".test.ts", and their environment variables. */
const STEPS = [
  ...Array.from({ length: Number(SEEDS) }, (_, n) => [
    "integration/sessions/random-driver-operations",
    { SEED: Number(SEED) + n, RUNS: 1, STEPS: 10_000, STORES },
  ]),
  // Killed servers and writers.
  ["integration/reliability/killed-server", { TRIALS: 20, STORES }],
  ...["sqlite", "lowdb-json"].map((name) => [`integration/${name}-driver/processes`, { TRIALS: 100 }]),
  ["postgres/postgres-driver/processes", { TRIALS: 100 }],
  // Several servers on one store.
  ["integration/reliability/processes", { SERVERS: 24, PROMPTS: 50, STORES }],
  ["integration/reliability/background-runs", { KEYS: 100, STORES }],
  ["postgres/watch/processes", { STORES, SCHEDULES: 170, SERVER_GROUPS: 4, STEPS: 6, LEASES: 1 }],
  ["postgres/reliability/replicas", { STORES, CLIENTS: 64, TURNS: 20, EVERY: 5_000, ROUNDS: 20 }],
  ["postgres/reliability/replicas-outage", { CLIENTS: 32, TURNS: 12, DOWN: 20, CUTS: 200 }],
  ["postgres/reliability/replicas-hosts", { STORES, LEASES: 1 }],
  ["postgres/reliability/replicas-acp", { STORES }],
  ["postgres/postgres-driver/pooler", { STORES }],
  // Clients, browsers and transports.
  ["unit/watch/watch", { SCHEDULES: 100 }],
  ["integration/reliability/soak", { RUNS: 10_000 }],
  ["integration/language-models/many-turns", { TURNS: 100 }],
  ["browser/watch/page", { BROWSERS: "all" }],
  ["integration/watch/all-transports", { TRANSPORTS: "all" }],
  // Hostile input.
  ...["edit", "chunks"].map((name) => [`integration/untrusted/edits/apply-${name}`, { FUZZ_RUNS: 100_000 }]),
  ...["mutations", "mcp-mutations"].map((name) => [`integration/reliability/${name}`, { FRAMES: 10_000 }]),
  ["integration/untrusted/shell-fuzz", { LINES: 200_000 }],
  ["integration/tools/trapped-clone", { RUNS: 50 }],
  ["integration/files/race", { CALLS: 10_000 }],
].map(([name, variables]) => [[`test/${name}.test.ts`], variables]);

const failures = [];
for (const [files, variables] of [[listStoreTests(), { STORES }], ...STEPS]) {
  const startMs = Date.now();
  const settings = { SEED, ...variables };
  const step = [...Object.entries(settings).map(([name, value]) => `${name}=${value}`), ...files].join(" ");
  const args = [...SOURCE_FLAGS, "--test", "--test-reporter=dot", ...files];
  const code = await run(process.execPath, args, { env: { ...process.env, ...settings } });
  process.stdout.write(`${code === 0 ? "ok" : "FAILED"}  ${step} (${((Date.now() - startMs) / 1000).toFixed(0)} s)\n`);
  if (code !== 0) failures.push(step);
}
process.stdout.write(failures.length === 0 ? "\nall good\n" : `\nfailed:\n${failures.join("\n")}\n`);
process.exitCode = failures.length === 0 ? 0 : 1;
