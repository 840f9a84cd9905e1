import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createLogger, ProviderError } from "gantry";
import { redact } from "../../../src/base/redact.js";

describe("the logger", () => {
  it("omits entries below its level", () => {
    const lines: string[] = [];
    const logger = createLogger({ level: "warn", write: (line) => lines.push(line) });
    logger.info("no");
    logger.warn("yes", { a: 1 });
    assert.equal(lines.length, 1);
    assert.match(lines[0] ?? "", /^\d{4}-\d\d-\d\dT[\d:.]+Z warn yes {"a":1}$/);
  });

  it("redacts configured secrets and values that look like keys, in the message and in nested fields", () => {
    const lines: string[] = [];
    const logger = createLogger({ level: "debug", write: (line) => lines.push(line), secrets: () => ["hunter22"] });
    logger.error("oops hunter22", {
      error: new Error("Bearer abcdefgh12345678"),
      deep: { key: "sk-abcdefghijklmnopqrstuvwx" },
    });
    const output = lines.join("\n");
    for (const secret of ["hunter22", "abcdefgh12345678", "sk-abcdef"]) assert.ok(!output.includes(secret), secret);
    assert.match(output, /\[redacted\]/);
  });

  it("logs the name, stack and cause of an error", () => {
    const lines: string[] = [];
    const logger = createLogger({ level: "debug", write: (line) => lines.push(line) });
    logger.error("oops", { error: new ProviderError("p", "server", "x", { cause: new Error("connection reset") }) });
    assert.match(
      lines[0] ?? "",
      /"name":"ProviderError".*"stack":".*"cause":\{"name":"Error","message":"connection reset"/,
    );
  });

  it("redacts a secret in the form in which JSON escapes it", () => {
    const lines: string[] = [];
    const logger = createLogger({ level: "debug", write: (line) => lines.push(line), secrets: () => ['pass"word\\1'] });
    logger.error("oops", { header: 'pass"word\\1' });
    assert.match(lines[0] ?? "", /"header":"\[redacted\]"/);
  });

  it("writes one line without control characters, also for circular fields", () => {
    const lines: string[] = [];
    const logger = createLogger({ level: "debug", write: (line) => lines.push(line) });
    const circularFields: Record<string, unknown> = {};
    circularFields["self"] = circularFields;
    logger.info("forged\n2026-01-01T00:00:00.000Z error break-in\u2028\u001b[2J", circularFields);
    assert.equal(lines.length, 1);
    // eslint-disable-next-line no-control-regex
    assert.doesNotMatch(lines[0] ?? "", /[\n\r\u2028\u001b]/);
  });

  it("uses redact, which hides keys of known formats and keeps ordinary hyphenated words", () => {
    for (const key of [
      "sk-proj-abcdefghijklmnop1234",
      "AIzaSyA1234567890abcdefghijklmnopqrstuv",
      "ghp_abcdefghijklmnop1234567",
      "gsk_abcdefghijklmnopqrst",
    ]) {
      assert.ok(!redact(`the key ${key} is`).includes(key), key);
    }
    assert.equal(
      redact("task-force and risk-averse-people-everywhere"),
      "task-force and risk-averse-people-everywhere",
    );
  });
});
