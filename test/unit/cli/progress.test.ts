import assert from "node:assert/strict";
import { it } from "node:test";
import type { CommandOutput } from "../../../src/cli/command.js";
import { Progress, formatProgressLine, formatBytes } from "../../../src/cli/progress.js";

const PROGRESS = { count: 12_345, bytes: 45_200_000, fraction: 0.12345, total: 100_000 };
const TIMING = { elapsedSeconds: 60, bytesPerSecond: 12_300_000 };

it("formatProgressLine shows sessions, time left, bytes and rate, and a bar if the line is long enough", () => {
  assert.equal(
    formatProgressLine(PROGRESS, TIMING, 120),
    `[${"=".repeat(5)}${" ".repeat(35)}]  12,345/100,000 sessions  7:07 left  45.2 MB  12.3 MB/s`,
  );
  assert.equal(formatProgressLine(PROGRESS, TIMING, 54), "12,345/100,000 sessions  7:07 left  45.2 MB");
  assert.equal(
    formatProgressLine({ count: 3, bytes: 10 }, { elapsedSeconds: 1, bytesPerSecond: undefined }, 80),
    "3 sessions  10 B",
  );
  assert.match(formatProgressLine({ ...PROGRESS, fraction: 0.001 }, TIMING, 120), /16:39:00 left/);
});

it("formatProgressLine never fills the width of the terminal", () => {
  for (let columns = 1; columns < 200; columns++)
    for (const fraction of [undefined, 0, 0.5, 1, 1.5]) {
      const line = formatProgressLine({ ...PROGRESS, fraction }, TIMING, columns);
      assert.ok(line.length < Math.max(columns, 1) || line === "", `${columns}: ${line}`);
    }
});

it("formatBytes formats bytes with a unit from B to TB", () => {
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
  const createOutput = (columns: number | undefined): CommandOutput => ({
    columns,
    isStdoutTerminal: false,
    draw: (text) => void screen.push(text),
    report: (line) => void screen.push(`${line}\n`),
    write: async () => undefined,
    redirectConsoleToStderr: () => undefined,
  });
  const pipedProgress = new Progress(createOutput(undefined));
  pipedProgress.show(PROGRESS);
  pipedProgress.report("a line");
  pipedProgress.clear();
  const disabledProgress = new Progress(createOutput(80), false);
  disabledProgress.show(PROGRESS);
  disabledProgress.clear();
  assert.deepEqual(screen.splice(0), ["a line\n"]);
  const terminalProgress = new Progress(createOutput(80));
  terminalProgress.show(PROGRESS);
  terminalProgress.show({ ...PROGRESS, count: 12_346 });
  terminalProgress.report("a line");
  terminalProgress.clear();
  assert.equal(screen.length, 3, "quick updates are drawn once");
  assert.match(screen[0]?.replace("\u001b[K", "<clear>") ?? "", /^\r\[.*12,345\/100,000 sessions.*<clear>$/);
  assert.deepEqual(screen.slice(1), ["\r\u001b[K", "a line\n"]);
});
