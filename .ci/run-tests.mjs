// Runs test files, several at a time and each in a process of its own with the flags of this one, as `node --test` does. But
// that begins them by their names: all that start browsers at once, and before them all that ask one database.
// Usage: run-tests.mjs <files at a time> <ms for a file> <brief|spec> FILE...
import { run } from "node:test";
import { spec } from "node:test/reporters";
import brief from "./reporter.mjs";

const [atOnce, limit, told, ...files] = process.argv.slice(2);
/** Neighbours come to lie so far apart; no number of files worth a thought is a multiple of it. */
const STRIDE = 37;

const columns = Array.from({ length: Math.min(STRIDE, files.length) }, (_, first) =>
  files.filter((_, index) => index % STRIDE === first),
);
const tests = run({ files: columns.flat(), concurrency: Number(atOnce), timeout: Number(limit) });
tests.on("test:fail", ({ todo }) => {
  if (todo === undefined || todo === false) process.exitCode = 1;
});
tests.compose(told === "spec" ? new spec() : brief).pipe(process.stdout);
