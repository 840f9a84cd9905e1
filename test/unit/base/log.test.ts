import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createLogger, ProviderError } from "gantry";
import { formatJsonEntry } from "../../../src/base/json-log.js";
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

  it("writes JSON objects with redacted fields and errors if asked, one a line", () => {
    const lines: string[] = [];
    const options = { level: "debug", write: (line: string) => lines.push(line), secrets: () => ["hunter22"] } as const;
    const logger = createLogger({ ...options, format: formatJsonEntry });
    const error = new Error("oops\n\u2028", { cause: new Error("key hunter22") });
    logger.warn("failed", { run: "r1", level: "mine", time: 1, deep: { key: 'hunter22"' }, error });
    const circularFields: Record<string, unknown> = {};
    circularFields["self"] = circularFields;
    logger.info("circular", circularFields);
    logger.debug("bare");
    const [first, second, third] = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
    const { time, error: loggedError, ...fields } = first!;
    assert.match(String(time), /^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
    assert.deepEqual(fields, { level: "warn", message: "failed", run: "r1", deep: { key: '[redacted]"' } });
    const { name, stack, cause } = loggedError as { name: string; stack: string; cause: { message: string } };
    assert.deepEqual([name, typeof stack, cause.message], ["Error", "string", "key [redacted]"]);
    // eslint-disable-next-line no-control-regex
    assert.doesNotMatch(lines.join(""), /[\n\r\u2028\u001b]/);
    assert.deepEqual(
      { ...second, time: "" },
      { time: "", level: "info", message: "circular", fields: "unserialisable" },
    );
    assert.deepEqual(Object.keys(third!), ["time", "level", "message"]);
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
