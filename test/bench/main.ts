// `npm run bench`: measures whole processes of gantry, compared with minimal reference programs. Not part of the tests,
// because the result depends on the machine.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { Bench, ROOT } from "./bench.js";
import { machine, noise, wordsOfNoise } from "./machine.js";
import { HELP, optionsOf } from "./options.js";
import { endAll, endWithSignals } from "./processes.js";
import { profile } from "./profile.js";
import { markdown, resultOf, table, verdict, type Result } from "./report.js";
import { rowOf } from "./rows.js";
import { SCENARIOS } from "./scenarios.js";

const args = process.argv.slice(2);
if (args.includes("--help") || args.includes("-h")) {
  process.stdout.write(HELP);
  process.exit();
}
const options = optionsOf(args);
endWithSignals();
if (options.product === path.resolve(ROOT))
  execFileSync(process.execPath, [path.join(ROOT, ".ci/build.mjs"), "--js"], { stdio: "inherit" });
if (options.profile !== undefined) {
  const bench = await Bench.create(options);
  console.log(await profile(bench, options.profile));
  await bench.close();
  process.exit();
}
const since = performance.now();
const before = noise();
const sitting = machine(options.node);
console.log(`${sitting.join("; ")}\nbefore: ${wordsOfNoise(before)}\n`);

const results: Result[] = [];
const bench = await Bench.create(options);
try {
  for (const scenario of SCENARIOS) {
    const requestedRows = scenario.rows.filter((row) => bench.wants(row));
    if (requestedRows.length === 0) continue;
    const lacks = await scenario.lacks?.();
    if (lacks !== undefined) {
      for (const row of requestedRows) console.log(`SKIP  ${rowOf(row).title}: ${lacks}`);
      continue;
    }
    for (const line of await scenario.run(bench)) {
      if (!bench.wants(line.row)) continue;
      const result = resultOf(line);
      results.push(result);
      console.log(verdict(result));
    }
  }
} finally {
  await bench.close();
  endAll();
}
const after = noise();
const seconds = ((performance.now() - since) / 1000).toFixed(0);
const quiet = [`before: ${wordsOfNoise(before)}`, `after: ${wordsOfNoise(after)}`];
console.log(`\n${table(results)}\n${quiet.join("\n")}\n${seconds} s`);

if (options.json !== undefined)
  writeFileSync(options.json, `${JSON.stringify({ machine: sitting, noise: { before, after }, results }, null, 2)}\n`);
if (options.markdown !== undefined) {
  const marks = /(<!-- bench:begin -->\n)[^]*?(\n<!-- bench:end -->)/;
  const text = readFileSync(options.markdown, "utf8");
  if (!marks.test(text))
    throw new Error(`${options.markdown} has no marks <!-- bench:begin --> and <!-- bench:end -->`);
  const resultTable = `\n${markdown(results, [...sitting, ...quiet])}\n`;
  writeFileSync(
    options.markdown,
    text.replace(marks, (_all, begin: string, finish: string) => begin + resultTable + finish),
  );
}
if (options.check && results.some(({ pass }) => !pass)) process.exitCode = 1;
