import assert from "node:assert/strict";
import { it } from "node:test";
import { createLogger } from "../../../src/base/log.js";
import { formatLogLine } from "../../../src/cli/log-lines.js";

it("a log line for a person has no JSON: time of day, level, message, fields as name=value", () => {
  const lines: string[] = [];
  const logger = createLogger({ level: "info", write: (line) => lines.push(formatLogLine(line)) });
  logger.info("working in /demo");
  logger.warn("configured model unknown; using another model", { provider: "groq", model: "", tries: 2 });
  logger.error("run {x} failed", { error: new Error("no such key"), list: ["a b", "c"] });
  const why = new Error("bad key", { cause: new Error("no such host") });
  logger.warn("nested", { run: { id: "r1", usage: { input: 3 } }, items: [{ name: "x" }], none: {}, why });
  assert.deepEqual(
    lines.map((line) => line.replace(/^\d\d:\d\d:\d\d /, "")),
    [
      "info  working in /demo",
      'warn  configured model unknown; using another model  provider=groq  model=""  tries=2',
      'error run {x} failed  error="no such key"  list="a b",c',
      'warn  nested  run.id=r1  run.usage.input=3  items.0.name=x  none=none  why="bad key: no such host"',
    ],
  );
  assert.equal(formatLogLine("gantry: something else {}"), "gantry: something else {}");
});
