// A test reporter for logs: one line a file, and in full what failed.
import { readFileSync } from "node:fs";
import { SourceMap } from "node:module";
import { inspect } from "node:util";
import { sourceFile } from "./project.mjs";

/** So many files are told that took longest. */
const SLOWEST = 40;

export default async function* reporter(source) {
  const files = new Map();
  const failures = [];
  const skipped = new Map();
  const took = new Map();
  const counts = { pass: 0, fail: 0, skip: 0 };
  /** What began and has not ended, of each file: a file that hangs says no more than that it does. */
  const open = new Map();
  for await (const { type, data } of source) {
    const begun = data?.file && (open.get(data.file) ?? open.set(data.file, new Set()).get(data.file));
    if (type === "test:dequeue") begun?.add(data.name);
    if (type === "test:pass" || type === "test:fail") begun?.delete(data.name);
    if (type === "test:pass" || type === "test:fail") {
      // Suites and files are only brackets around tests.
      const isBracket = data.details?.type === "suite" || data.file === undefined || data.name === data.file;
      const file = sourceFile(data.file ?? data.name);
      const tally = files.get(file) ?? { pass: 0, fail: 0 };
      files.set(file, tally);
      if (data.nesting === 0) took.set(file, (took.get(file) ?? 0) + (data.details?.duration_ms ?? 0));
      if (type === "test:fail") {
        const error = data.details?.error;
        const onlyChildren = error?.failureType === "subtestsFailed";
        if (!onlyChildren) {
          tally.fail++;
          counts.fail++;
          failures.push({ file, line: sourceLine(data), name: data.name, error });
          yield `FAILED  ${file}: ${data.name}\n`;
        }
      } else if (!isBracket) {
        if (data.skip !== undefined || data.todo !== undefined) {
          counts.skip++;
          const why = [data.skip, data.todo].find((reason) => typeof reason === "string" && reason !== "");
          if (why) skipped.set(why, (skipped.get(why) ?? 0) + 1);
        } else counts.pass++;
        tally.pass++;
      }
    } else if (type === "test:stderr" && data.message.trim() !== "") {
      yield `${sourceFile(data.file)}: ${data.message.trimEnd()}\n`;
    }
  }
  for (const { file, line, name, error } of failures) {
    const cause = error?.cause ?? error;
    const text = cause instanceof Error ? (cause.stack ?? String(cause)) : inspect(cause, { depth: 6 });
    yield `\n${file}:${line ?? 0}  ${name}\n${text.replace(/^/gm, "    ")}\n`;
    const begun = [...(open.get(name) ?? [])].filter((other) => other !== name);
    if (begun.length > 0) yield `    had begun: ${begun.join(", ")}\n`;
    if (cause instanceof Error && cause.code === "ERR_ASSERTION" && !cause.message.includes("\n")) {
      yield `    actual: ${inspect(cause.actual, { depth: 6 })}\n    expected: ${inspect(cause.expected, { depth: 6 })}\n`;
    }
  }
  const slowest = [...took].sort(([, a], [, b]) => b - a).slice(0, SLOWEST);
  yield `\nthe slowest: ${slowest.map(([file, ms]) => `${file} ${(ms / 1000).toFixed(1)} s`).join(", ")}\n`;
  for (const [why, count] of skipped) yield `\nskipped ${count}: ${why}\n`;
  yield `\n${counts.pass} passed, ${counts.fail} failed, ${counts.skip} skipped, in ${files.size} files\n`;
}

/** The line of a test in the file that was compiled. */
function sourceLine({ file, line = 0, column = 0 }) {
  try {
    const map = new SourceMap(JSON.parse(readFileSync(`${file}.map`, "utf8")));
    return (map.findEntry(line - 1, column - 1).originalLine ?? line - 1) + 1;
  } catch {
    // It was not compiled, or it is a whole file.
    return line;
  }
}
