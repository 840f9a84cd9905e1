import assert from "node:assert/strict";
import { it } from "node:test";
import { StoreError, type Logger } from "gantry";
import { isUnavailable, throttleOutageLogs } from "../../../src/sessions/outage.js";
import { mockTime } from "../../helpers/fake-time.js";

const UNAVAILABLE_ERROR = new StoreError("away", { isUnavailable: true });

/** Returns a logger and the lines that pass its throttle: level, message, and number of occurrences. */
function createThrottledLogger(): { logger: Logger; lines: string[] } {
  const lines: string[] = [];
  const createWrite =
    (level: string) =>
    (message: string, fields: Readonly<Record<string, unknown>> = {}): void =>
      void lines.push(`${level} ${message} ${typeof fields["times"] === "number" ? fields["times"] : 1}`);
  const plainLogger = {
    debug: createWrite("debug"),
    info: createWrite("info"),
    warn: createWrite("warn"),
    error: createWrite("error"),
  };
  return { logger: throttleOutageLogs(plainLogger), lines };
}

it("throttleOutageLogs logs each warning and error of an outage once, and debug lines and other errors every time", () => {
  const { logger, lines } = createThrottledLogger();
  for (let n = 0; n < 1000; n++) {
    logger.error("a request failed", { error: UNAVAILABLE_ERROR, path: `/api/${n}` });
    logger.warn("lease not renewed", { error: UNAVAILABLE_ERROR });
  }
  for (let n = 0; n < 2; n++) {
    logger.error("a request failed", { error: new StoreError("broken") });
    logger.error("a request failed", { error: new StoreError("full", { isFull: true }) });
    logger.error("a request failed");
    logger.debug("a request failed", { error: UNAVAILABLE_ERROR });
  }
  assert.deepEqual(lines, [
    "error a request failed 1",
    "warn lease not renewed 1",
    ...Array.from({ length: 2 }, () => [
      ...Array<string>(3).fill("error a request failed 1"),
      "debug a request failed 1",
    ]).flat(),
  ]);
});

it("throttleOutageLogs repeats a message after 60 s with the number of occurrences", (t) => {
  const { advance } = mockTime(t);
  const { logger, lines } = createThrottledLogger();
  for (let n = 0; n < 4; n++) logger.error("a request failed", { error: UNAVAILABLE_ERROR });
  advance(59_999);
  logger.error("a request failed", { error: UNAVAILABLE_ERROR });
  advance(2);
  logger.error("a request failed", { error: UNAVAILABLE_ERROR });
  advance(60_001);
  logger.error("a request failed", { error: UNAVAILABLE_ERROR });
  assert.deepEqual(lines, ["error a request failed 1", "error a request failed 5", "error a request failed 1"]);
});

it("isUnavailable checks the fields of an error, not its class", () => {
  assert.ok(isUnavailable(UNAVAILABLE_ERROR));
  assert.ok(isUnavailable(Object.assign(new Error("x"), { code: "store", isUnavailable: true })));
  for (const otherError of [
    new StoreError("x"),
    new Error("x"),
    undefined,
    Object.assign(new Error("x"), { code: "store" }),
  ])
    assert.ok(!isUnavailable(otherError));
});
