import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type RequestListener, type ServerResponse } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { AddressInfo } from "node:net";
import { CERTIFICATE, CERTIFICATE_KEY } from "./certificate.js";
import type { Hooks } from "./temp-dir.js";
import { waitFor } from "./wait.js";

/** Key of the signatures, and the secret that contains it. */
const KEY = Buffer.from("0123456789abcdefghijklmnopqrstuv");
export const WEBHOOK_SECRET = `whsec_${KEY.toString("base64")}`;

/** A received request, whose signature is valid. */
export interface ReceivedEvent {
  readonly id: string;
  readonly type: string;
  readonly timestamp: string;
  readonly data: Record<string, unknown>;
  readonly headers: IncomingHttpHeaders;
  readonly receivedAtMs: number;
}

/** Answers a request. `index`: its number, from 0. Without an answer the request stays open. */
export type Answer = (event: ReceivedEvent, response: ServerResponse, index: number) => void;

export interface WebhookReceiver {
  readonly url: string;
  /** All requests in the order of their arrival, including repeated ones. */
  readonly events: readonly ReceivedEvent[];
  readonly types: string[];
  answer: Answer;
  /** Waits until this number of requests has arrived. */
  waitForEvents(count: number): Promise<readonly ReceivedEvent[]>;
}

export const answerWith =
  (status: number, headers: Record<string, string> = {}): Answer =>
  (_event, response) =>
    void response.writeHead(status, headers).end();

/** Starts a receiver on a real socket. It verifies each signature. `port`: default any free port. */
export async function startReceiver(
  hooks: Hooks,
  answer: Answer = answerWith(204),
  { port = 0, isSecure = false }: { port?: number; isSecure?: boolean } = {},
): Promise<WebhookReceiver> {
  const events: ReceivedEvent[] = [];
  const faults: unknown[] = [];
  const listener: RequestListener = (request, response) => {
    const receive = async () => {
      let body = "";
      for await (const chunk of request.setEncoding("utf8")) body += String(chunk);
      const event = await readEvent(request.headers, body);
      assert.equal(request.method, "POST");
      events.push(event);
      receiver.answer(event, response, events.length - 1);
    };
    receive().catch((error: unknown) => {
      faults.push(error);
      response.writeHead(400).end();
    });
  };
  const server = isSecure
    ? createSecureServer({ cert: CERTIFICATE, key: CERTIFICATE_KEY }, listener)
    : createServer(listener);
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  hooks.after(() => {
    server.closeAllConnections();
    server.close();
    assert.deepEqual(faults, []);
  });
  const receiver: WebhookReceiver = {
    url: `${isSecure ? "https" : "http"}://127.0.0.1:${(server.address() as AddressInfo).port}/events/path-key-of-the-receiver`,
    events,
    answer,
    get types() {
      return events.map(({ type }) => type);
    },
    waitForEvents: (count) =>
      waitFor(
        `${count} events`,
        () => (events.length >= count ? events : undefined),
        () => events.map(({ type }) => type).join(", "),
      ),
  };
  return receiver;
}

/** Verifies the signature with the Web Crypto API, as the specification of Standard Webhooks describes. */
async function readEvent(headers: IncomingHttpHeaders, body: string): Promise<ReceivedEvent> {
  const [id, timestamp, signature] = ["webhook-id", "webhook-timestamp", "webhook-signature"].map((name) =>
    String(headers[name]),
  );
  assert.ok(id && timestamp && signature);
  assert.match(id, /^msg_[\w-]+$/);
  assert.match(signature, /^v1,/);
  assert.ok(Math.abs(Number(timestamp) - Date.now() / 1_000) < 300, timestamp);
  const key = await crypto.subtle.importKey("raw", KEY, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
  const signedContent = Buffer.from(`${id}.${timestamp}.${body}`);
  assert.ok(await crypto.subtle.verify("HMAC", key, Buffer.from(signature.slice(3), "base64"), signedContent));
  assert.equal(headers["content-type"], "application/json");
  const payload = JSON.parse(body) as Pick<ReceivedEvent, "type" | "timestamp" | "data">;
  assert.deepEqual(Object.keys(payload), ["type", "timestamp", "data"]);
  assert.equal(new Date(payload.timestamp).toISOString(), payload.timestamp);
  return { ...payload, id, headers, receivedAtMs: Date.now() };
}
