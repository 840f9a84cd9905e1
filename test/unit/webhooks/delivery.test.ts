// Deliveries to receivers on real sockets. The events come from the listeners, without an agent.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { it, type TestContext } from "node:test";
import type { RunRecord } from "gantry";
import { WEBHOOK_LIMITS } from "../../../adapters/webhooks/limits.js";
import { webhooksOptions } from "../../../adapters/webhooks/options.js";
import { parseRetryAfter } from "../../../adapters/webhooks/sender.js";
import { Webhooks } from "../../../adapters/webhooks/webhooks.js";
import { option } from "gantry/plugin";
import { createRecordingLogger } from "../../helpers/mcp-servers.js";
import { waitFor } from "../../helpers/wait.js";
import { answerWith, startReceiver, WEBHOOK_SECRET, type WebhookReceiver } from "../../helpers/webhook-receiver.js";

const HOUR_MS = 3_600_000;

/** Webhooks with one receiver and short delays. */
function createWebhooks(t: TestContext, url: string, limits: Partial<typeof WEBHOOK_LIMITS> = {}) {
  const logger = createRecordingLogger();
  const options = option.read(webhooksOptions, { webhooks: [{ url, secret: WEBHOOK_SECRET }] }, "");
  const testLimits = { retryDelayMs: 2, requestTimeoutMs: HOUR_MS, closeTimeoutMs: 1 };
  const webhooks = new Webhooks(options, logger, { ...WEBHOOK_LIMITS, ...testLimits, ...limits });
  t.after(() => webhooks.close());
  t.after(() => assert.doesNotMatch(JSON.stringify(logger.lines), /whsec|path-key|MDEyMzQ1/));
  /** Ends a run, with the model as its distinguishing field. */
  const endRun = (sessionId: string, model: string) => {
    const usage = { promptTokens: 1, completionTokens: 1, totalTokens: 2, cost: 0 };
    const run = { id: "r", sessionId, model, state: "failed", usage, endedBy: "", error: null } as RunRecord;
    webhooks.listeners?.["run.failed"]?.({ runId: "r", sessionId, error: new Error("x"), run });
  };
  const waitForLog = (message: RegExp) =>
    waitFor(String(message), () => logger.lines.find(([, line]) => message.test(line))?.[2]);
  return { webhooks, endRun, logger, waitForLog };
}

const listModels = ({ events }: WebhookReceiver) => events.map(({ data }) => data["model"]);

/** A receiver that holds the answers until `release` is called. */
async function startHoldingReceiver(t: TestContext) {
  let release = () => undefined as void;
  const released = new Promise<void>((resolve) => (release = resolve));
  const receiver = await startReceiver(t, (_event, response) => void released.then(() => response.end()));
  return { receiver, release };
}

async function findFreePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

it("events of a session arrive in order, also if the first attempt fails", async (t) => {
  const receiver = await startReceiver(t, (_event, response, index) => {
    response.writeHead(index < 2 ? 500 : 200).end();
  });
  const { endRun, logger, waitForLog } = createWebhooks(t, receiver.url);
  for (const model of ["a", "b", "c"]) endRun("s", model);
  await receiver.waitForEvents(5);
  assert.deepEqual(listModels(receiver), ["a", "a", "a", "b", "c"]);
  const ids = receiver.events.map(({ id }) => id);
  assert.equal(new Set(ids.slice(0, 3)).size, 1);
  assert.equal(new Set(ids).size, 3);
  await waitForLog(/succeed again/);
  const fields = { webhook: "server.webhooks[0]", receiver: new URL(receiver.url).origin };
  assert.deepEqual(logger.lines, [
    ["warn", "delivery failed; events wait and are sent again", { ...fields, reason: "answered 500" }],
    ["info", "deliveries succeed again", fields],
  ]);
});

it("sessions do not wait for each other", async (t) => {
  const receiver = await startReceiver(t, ({ data }, response) => {
    if (data["session_id"] === "fast") response.end();
  });
  const { endRun } = createWebhooks(t, receiver.url);
  endRun("slow", "a");
  await receiver.waitForEvents(1);
  endRun("slow", "b");
  for (const model of ["c", "d"]) endRun("fast", model);
  await receiver.waitForEvents(3);
  assert.deepEqual(listModels(receiver), ["a", "c", "d"]);
});

it("many sessions share the requests, without a warning of Node", async (t) => {
  const warnings: Error[] = [];
  const recordWarning = (warning: Error) => void warnings.push(warning);
  process.on("warning", recordWarning);
  t.after(() => process.off("warning", recordWarning));
  const { receiver, release } = await startHoldingReceiver(t);
  const { endRun } = createWebhooks(t, receiver.url);
  for (let i = 0; i < 200; i += 1) endRun(`s${i}`, "a");
  await receiver.waitForEvents(WEBHOOK_LIMITS.requests);
  assert.equal(receiver.events.length, WEBHOOK_LIMITS.requests);
  release();
  await receiver.waitForEvents(200);
  assert.equal(new Set(receiver.events.map(({ data }) => data["session_id"])).size, 200);
  assert.deepEqual(warnings, []);
});

it("an event waits until a receiver that refuses connections is there", async (t) => {
  const port = await findFreePort();
  const { endRun, waitForLog } = createWebhooks(t, `http://127.0.0.1:${port}/`, { maxRetryDelayMs: 5 });
  endRun("s", "a");
  assert.equal((await waitForLog(/delivery failed/))["reason"], "ECONNREFUSED");
  const receiver = await startReceiver(t, undefined, { port });
  await receiver.waitForEvents(1);
  await waitForLog(/succeed again/);
});

it("a receiver that never answers gets the event again after the time limit", async (t) => {
  const receiver = await startReceiver(t, (_event, response, index) => void (index > 0 && response.end()));
  const { endRun, waitForLog } = createWebhooks(t, receiver.url, { requestTimeoutMs: 200 });
  endRun("s", "a");
  await receiver.waitForEvents(2);
  assert.equal((await waitForLog(/delivery failed/))["reason"], "no answer within 200 ms");
});

it("a receiver that never reads only delays its own events", async (t) => {
  const server = createServer({ pauseOnConnect: true }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const sockets = new Set<{ destroy(): void }>();
  server.on("connection", (socket) => sockets.add(socket.on("error", () => undefined)));
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const { endRun, waitForLog } = createWebhooks(t, `http://127.0.0.1:${port}/`, { requestTimeoutMs: 100 });
  endRun("s", "a".repeat(1_000_000));
  assert.equal((await waitForLog(/delivery failed/))["reason"], "no answer within 100 ms");
});

it("an endless answer counts by its status", async (t) => {
  const receiver = await startReceiver(t, (_event, response) => {
    const write = () => {
      while (!response.destroyed && response.write("x".repeat(65_536)));
    };
    response.on("drain", write);
    write();
  });
  const { endRun } = createWebhooks(t, receiver.url);
  for (const model of ["a", "b"]) endRun("s", model);
  await receiver.waitForEvents(2);
  assert.deepEqual(listModels(receiver), ["a", "b"]);
});

it("redirects are not followed", async (t) => {
  const target = await startReceiver(t);
  const receiver = await startReceiver(t, (_event, response, index) => {
    response.writeHead(index === 0 ? 307 : 200, { Location: target.url }).end();
  });
  const { endRun, waitForLog } = createWebhooks(t, receiver.url);
  endRun("s", "a");
  await receiver.waitForEvents(2);
  assert.equal((await waitForLog(/delivery failed/))["reason"], "answered 307");
  assert.equal(target.events.length, 0);
});

it("410 disables the receiver until the restart", async (t) => {
  const receiver = await startReceiver(t, answerWith(410));
  const { endRun, logger, waitForLog, webhooks } = createWebhooks(t, receiver.url);
  for (const model of ["a", "b"]) endRun("s", model);
  assert.equal((await waitForLog(/disabled/))["events"], 2);
  endRun("s", "c");
  await webhooks.close();
  assert.deepEqual(listModels(receiver), ["a"]);
  assert.equal(logger.lines.length, 1);
});

it("Retry-After delays the next attempt", async (t) => {
  const receiver = await startReceiver(t, (_event, response, index) => {
    response.writeHead(index === 0 ? 503 : 200, { "Retry-After": "1" }).end();
  });
  const { endRun } = createWebhooks(t, receiver.url);
  endRun("s", "a");
  const [first, second] = await receiver.waitForEvents(2);
  // A timer may fire up to 1 ms early.
  assert.ok(second!.receivedAtMs - first!.receivedAtMs >= 990);
  const date = new Date(Date.now() + HOUR_MS).toUTCString();
  const delayMs = parseRetryAfter(date);
  assert.ok(delayMs > HOUR_MS - 60_000 && delayMs <= HOUR_MS, String(delayMs));
  for (const header of [undefined, "", "soon", "-1", new Date(0).toUTCString()])
    assert.equal(parseRetryAfter(header), 0);
});

it("a full queue drops new events, and the log has their number", async (t) => {
  for (const limits of [{ events: 2 }, { bytes: 500 }]) {
    const { receiver, release } = await startHoldingReceiver(t);
    const { endRun, logger, waitForLog } = createWebhooks(t, receiver.url, limits);
    for (const model of ["a", "b", "c", "d", "e"]) endRun("s", model);
    assert.deepEqual(
      logger.lines.map(([level, message]) => [level, message]),
      [["warn", "queue full; new events are dropped"]],
    );
    release();
    await receiver.waitForEvents(2);
    // The queue has room when the answer has been read.
    await waitFor("room in the queue", () => {
      endRun("s", "f");
      return receiver.events.length > 2 ? true : undefined;
    });
    assert.deepEqual(listModels(receiver).slice(0, 3), ["a", "b", "f"]);
    const dropped = (await waitForLog(/queue was full/))["events"] as number;
    assert.ok(dropped >= 3);
  }
});

it("an event is dropped at its maximum age, and the next one is sent", async (t) => {
  const receiver = await startReceiver(t, ({ data }, response) => {
    response.writeHead(data["model"] === "a" ? 400 : 200).end();
  });
  const { endRun, waitForLog } = createWebhooks(t, receiver.url, { maxAgeMs: 0 });
  for (const model of ["a", "b"]) endRun("s", model);
  const [first] = await receiver.waitForEvents(2);
  assert.deepEqual(listModels(receiver), ["a", "b"]);
  const { id, type, session, reason } = await waitForLog(/event dropped/);
  assert.deepEqual([id, type, session, reason], [first?.id, "run.failed", "s", "answered 400"]);
});

it("an event whose content is rejected 5 times is dropped with one warning, and the next one is sent", async (t) => {
  const receiver = await startReceiver(t, ({ data }, response) => {
    response.writeHead(data["model"] === "a" ? 400 : 200).end();
  });
  const { endRun, logger, waitForLog } = createWebhooks(t, receiver.url);
  for (const model of ["a", "b"]) endRun("s", model);
  await waitForLog(/succeed again/);
  assert.deepEqual(listModels(receiver), ["a", "a", "a", "a", "a", "b"]);
  assert.deepEqual(
    logger.lines.map(([, message]) => message),
    [
      "delivery failed; events wait and are sent again",
      "event dropped; no attempt succeeded",
      "deliveries succeed again",
    ],
  );
});

it("an event is sent again after answers that do not reject its content", async (t) => {
  const statuses = [401, 403, 404, 408, 425, 429, 500, 401, 403, 404, 503, 204];
  const receiver = await startReceiver(t, (_event, response, index) => {
    response.writeHead(statuses[index] ?? 204).end();
  });
  const { endRun, waitForLog } = createWebhooks(t, receiver.url, { maxRetryDelayMs: 5 });
  endRun("s", "a");
  await waitForLog(/succeed again/);
  assert.equal(receiver.events.length, statuses.length);
});

it("close makes a last attempt for events that wait", async (t) => {
  const receiver = await startReceiver(t, (_event, response, index) => {
    response.writeHead(index === 0 ? 500 : 200).end();
  });
  const { endRun, logger, waitForLog, webhooks } = createWebhooks(t, receiver.url, { retryDelayMs: HOUR_MS });
  for (const model of ["a", "b"]) endRun("s", model);
  await waitForLog(/delivery failed/);
  const controller = new AbortController();
  await webhooks.close(controller.signal);
  assert.deepEqual(listModels(receiver), ["a", "a", "b"]);
  assert.equal(logger.lines.at(-1)?.[1], "deliveries succeed again");
});

it("close ends at its time limit, and the log has the events that were not delivered", async (t) => {
  const { receiver } = await startHoldingReceiver(t);
  const { endRun, logger, webhooks } = createWebhooks(t, receiver.url);
  for (const model of ["a", "b", "c"]) endRun(model === "c" ? "s2" : "s1", model);
  const [event] = await receiver.waitForEvents(2);
  const controller = new AbortController();
  let isClosed = false;
  const closed = webhooks.close(controller.signal).then(() => (isClosed = true));
  endRun("s3", "d");
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(isClosed, false);
  controller.abort();
  await closed;
  const { events, since } = logger.lines.at(-1)?.[2] ?? {};
  assert.deepEqual([logger.lines.length, events], [1, 3]);
  assert.ok(event && String(since) <= event.timestamp);
});
