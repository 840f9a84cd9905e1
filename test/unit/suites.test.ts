import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { ROOT } from "../helpers/source-paths.js";

const { scripts } = JSON.parse(readFileSync(path.join(ROOT, "package.json"), "utf8")) as {
  scripts: Record<string, string>;
};
const files = readdirSync(path.join(ROOT, "test"), { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => path.relative(ROOT, path.join(entry.parentPath, entry.name)).split(path.sep).join("/"));
const testFiles = files.filter((file) => file.endsWith(".test.ts"));
const readText = (file: string): string => readFileSync(path.join(ROOT, file), "utf8");

/** An import of a helper that starts Node processes, a browser, a terminal or a database. */
const PROCESS_HELPER_IMPORT =
  /helpers\/(server|server-stores|child|acp-process|replicas|server-group|balancer|browser|console|terminal-pane|packed-package|haproxy|pgbouncer|postgres)\.js"/;
/** A measurement of the whole process, which also runs the other test files of a batch. */
const PROCESS_MEASUREMENT = /helpers\/operation-recorder\.js"|process\.(memoryUsage|cpuUsage|resourceUsage)/;

describe("the test suites", () => {
  it("contain each test file in a folder that npm test or npm run test:all runs", () => {
    const scriptArguments = `${scripts["test"]} ${scripts["test:all"]}`.split(" ");
    const suites = new Set(scriptArguments.filter((argument) => !argument.includes("/") && !argument.startsWith("-")));
    assert.deepEqual(
      testFiles.filter((file) => !suites.has(file.split("/")[1] ?? "")),
      [],
    );
    for (const suite of ["integration", "postgres", "browser", "terminal", "package", "docs"])
      assert.equal(scripts[`test:${suite}`], `node .ci/test.mjs ${suite}`);
  });

  it("start no process in test/unit and test/isolated", () => {
    const violations = testFiles.filter(
      (file) => /^test\/(unit|isolated)\//.test(file) && PROCESS_HELPER_IMPORT.test(readText(file)),
    );
    assert.deepEqual(violations, []);
  });

  it("import fast-check only in test/helpers/fast-check.ts", () => {
    const importers = files.filter((file) => file.endsWith(".ts") && /from "fast[-]check"/.test(readText(file)));
    assert.deepEqual(importers, ["test/helpers/fast-check.ts"]);
  });

  it("measure no memory or CPU use of the process in test/unit", () => {
    const thisFile = "test/unit/suites.test.ts";
    const unitTests = testFiles.filter((file) => file.startsWith("test/unit/") && file !== thisFile);
    assert.deepEqual(
      unitTests.filter((file) => PROCESS_MEASUREMENT.test(readText(file))),
      [],
    );
  });

  it("explain each wait for time in a comment with `Time:`, at most three lines above the wait", () => {
    const waitPattern = /\b(sleep|pause)\(\w|\bsetTimeout\((?!\))/;
    const mockedTimePattern = /\.mock\.|mock\.timers|apis: \[/;
    const violations = testFiles.flatMap((file) => {
      const lines = readText(file).split("\n");
      return lines.flatMap((line, index) =>
        waitPattern.test(line) &&
        !mockedTimePattern.test(line) &&
        !lines
          .slice(Math.max(0, index - 3), index + 1)
          .join()
          .includes("Time:")
          ? [`${file}:${index + 1} ${line.trim()}`]
          : [],
      );
    });
    assert.deepEqual(violations, []);
  });

  it("contain no focused, skipped or todo test", () => {
    const focusPattern = /\b(it|test|describe)\.(only|skip|todo)\(|\b(only|skip|todo): true\b/;
    assert.deepEqual(
      testFiles.filter((file) => focusPattern.test(readText(file))),
      [],
    );
  });

  it("are run by scripts in .ci that have at most 1,400 lines in total", () => {
    const scriptPaths = readdirSync(path.join(ROOT, ".ci"), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => path.join(entry.parentPath, entry.name));
    const lineCounts = scriptPaths.map((file) => readFileSync(file, "utf8").split("\n").length - 1);
    const totalLineCount = lineCounts.reduce((total, count) => total + count, 0);
    assert.ok(totalLineCount <= 1_400, `${totalLineCount} lines in .ci: remove something before you add more`);
  });
});
