import assert from "node:assert/strict";
import { it } from "node:test";
import type { CommandOutput } from "../../../src/cli/command.js";
import { Progress, formatProgressLine, formatBytes } from "../../../src/cli/progress.js";

const DONE = { count: 12_345, bytes: 45_200_000, fraction: 0.12345, total: 100_000 };
const TIMES = { seconds: 60, rate: 12_300_000 };

it("progressLine shows sessions, time left, bytes and rate, and a bar if the line is long enough", () => {
  assert.equal(
    formatProgressLine(DONE, TIMES, 120),
    `[${"=".repeat(5)}${" ".repeat(35)}]  12,345/100,000 sessions  7:07 left  45.2 MB  12.3 MB/s`,
  );
  assert.equal(formatProgressLine(DONE, TIMES, 54), "12,345/100,000 sessions  7:07 left  45.2 MB");
  assert.equal(formatProgressLine({ count: 3, bytes: 10 }, { seconds: 1, rate: undefined }, 80), "3 sessions  10 B");
  assert.match(formatProgressLine({ ...DONE, fraction: 0.001 }, TIMES, 120), /16:39:00 left/);
});

it("progressLine never fills the width of the terminal", () => {
  for (let columns = 1; columns < 200; columns++)
    for (const part of [undefined, 0, 0.5, 1, 1.5]) {
      const line = formatProgressLine({ ...DONE, fraction: part }, TIMES, columns);
      assert.ok(line.length < Math.max(columns, 1) || line === "", `${columns}: ${line}`);
    }
});

it("size formats bytes with a unit from B to TB", () => {
  assert.deepEqual([0, 999, 1000, 1_234_567, 5e12, 5e15].map(formatBytes), [
    "0 B",
    "999 B",
    "1.0 kB",
    "1.2 MB",
    "5.0 TB",
    "5000.0 TB",
  ]);
});

it("Progress draws only on a terminal, skips quick updates, and clears its line before a report", () => {
  const screen: string[] = [];
  const output = (columns: number | undefined): CommandOutput => ({
    columns,
    isStdoutTerminal: false,
    draw: (text) => void screen.push(text),
    report: (line) => void screen.push(`${line}\n`),
    write: async () => undefined,
    redirectConsoleToStderr: () => undefined,
  });
  const pipedProgress = new Progress(output(undefined));
  pipedProgress.show(DONE);
  pipedProgress.report("a line");
  pipedProgress.clear();
  const disabledProgress = new Progress(output(80), false);
  disabledProgress.show(DONE);
  disabledProgress.clear();
  assert.deepEqual(screen.splice(0), ["a line\n"]);
  const terminalProgress = new Progress(output(80));
  terminalProgress.show(DONE);
  terminalProgress.show({ ...DONE, count: 12_346 });
  terminalProgress.report("a line");
  terminalProgress.clear();
  assert.equal(screen.length, 3, "what comes at once is drawn once");
  assert.match(screen[0]?.replace("\u001b[K", "<clear>") ?? "", /^\r\[.*12,345\/100,000 sessions.*<clear>$/);
  assert.deepEqual(screen.slice(1), ["\r\u001b[K", "a line\n"]);
});
