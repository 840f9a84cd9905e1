// `npm run bench`: measures whole processes of gantry, compared with minimal reference programs. Not part of the tests,
// because the result depends on the machine.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import * as prettier from "prettier";
import { Bench, ROOT } from "./bench.js";
import { describeMachine, measureNoise, formatNoise } from "./machine.js";
import { describeCommit } from "./measured-commit.js";
import { HELP, parseOptions, type CommandOptions } from "./options.js";
import { endAllProcesses, endOnSignals } from "./processes.js";
import { profile } from "./profile.js";
import { formatMarkdown, createResult, formatTable, formatVerdict, type Result } from "./report.js";
import { getRow } from "./rows.js";
import { SCENARIOS } from "./scenarios.js";

const args = process.argv.slice(2);
if (args.includes("--help") || args.includes("-h")) {
  process.stdout.write(HELP);
  process.exit();
}
const { options, commitLines } = readArguments();
endOnSignals();
if (options.product === path.resolve(ROOT))
  execFileSync(process.execPath, [path.join(ROOT, ".ci/build.mjs"), "--js"], { stdio: "inherit" });
if (options.profile !== undefined) {
  const bench = await Bench.create(options);
  console.log(await profile(bench, options.profile));
  await bench.close();
  process.exit();
}
const startMs = performance.now();
const noiseBefore = measureNoise();
const machineLines = describeMachine(options.node);
console.log(`${machineLines.join("; ")}\nbefore: ${formatNoise(noiseBefore)}\n`);

const results: Result[] = [];
const skippedRows: string[] = [];
const bench = await Bench.create(options);
try {
  for (const scenario of SCENARIOS) {
    const requestedRows = scenario.rows.filter((row) => bench.isRowRequested(row));
    if (requestedRows.length === 0) continue;
    const skipReason = await scenario.getSkipReason?.();
    if (skipReason !== undefined) {
      for (const row of requestedRows) {
        skippedRows.push(`${getRow(row).title}: not measured, because ${skipReason}`);
        console.log(`SKIP  ${getRow(row).title}: ${skipReason}`);
      }
      continue;
    }
    for (const measurement of await scenario.run(bench)) {
      if (!bench.isRowRequested(measurement.row)) continue;
      const result = createResult(measurement);
      results.push(result);
      console.log(formatVerdict(result));
    }
  }
} finally {
  await bench.close();
  endAllProcesses();
}
const noiseAfter = measureNoise();
const seconds = ((performance.now() - startMs) / 1000).toFixed(0);
const noiseLines = [`before: ${formatNoise(noiseBefore)}`, `after: ${formatNoise(noiseAfter)}`];
console.log(`\n${formatTable(results)}\n${noiseLines.join("\n")}\n${seconds} s`);

if (options.json !== undefined)
  writeFileSync(
    options.json,
    `${JSON.stringify({ machine: machineLines, noise: { before: noiseBefore, after: noiseAfter }, results }, null, 2)}\n`,
  );
if (options.markdown !== undefined) {
  const tablePattern = /(<!-- bench:begin -->\n)[^]*?(\n<!-- bench:end -->)/;
  const text = readFileSync(options.markdown, "utf8");
  if (!tablePattern.test(text))
    throw new Error(`${options.markdown} has no marks <!-- bench:begin --> and <!-- bench:end -->`);
  const machineLine = [...machineLines, ...noiseLines].join("; ");
  const resultTable = `\n${formatMarkdown(results, [...commitLines, machineLine], skippedRows)}\n`;
  const newText = text.replace(tablePattern, (_all, begin: string, finish: string) => begin + resultTable + finish);
  const format = await prettier.resolveConfig(options.markdown);
  writeFileSync(options.markdown, await prettier.format(newText, { ...format, filepath: options.markdown }));
}
if (options.check && results.some(({ pass }) => !pass)) process.exitCode = 1;

/** Parses the arguments. Ends the program with a message if the run is not possible, before it takes minutes. */
function readArguments(): { options: CommandOptions; commitLines: string[] } {
  try {
    const parsedOptions = parseOptions(args);
    return { options: parsedOptions, commitLines: parsedOptions.write ? [describeCommit()] : [] };
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    process.exit(1);
  }
}
