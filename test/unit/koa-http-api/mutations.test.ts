import assert from "node:assert/strict";
import { it } from "node:test";
import { wire } from "../../helpers/http.js";
import { randomOf, seedOf } from "../../helpers/random.js";
import { startApi } from "../../helpers/http-api.js";

/** `REQUESTS=10000` searches longer. */
const REQUESTS = Number(process.env["REQUESTS"] ?? 300);
const PARALLEL_REQUESTS = 20;

const BODY = '{"message":"hi","provider":"scripted","model":"scripted-1","files":[],"stream":true}';
const SEEDS = [
  `POST /api/run HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${BODY.length}\r\n\r\n${BODY}`,
  `POST /api/run HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n${BODY.length.toString(16)}\r\n${BODY}\r\n0\r\n\r\n`,
  "GET /api/sessions?page=1&size=20&search=a HTTP/1.1\r\nHost: localhost:80\r\nAccept: */*\r\n\r\n",
  "GET /api/sessions/0190aaaa-bbbb-7ccc-8ddd-eeeeeeeeeeee/messages?after=1&limit=2&view=model HTTP/1.1\r\nHost: [::1]\r\n\r\n",
  "DELETE /api/sessions/x HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nSec-Fetch-Site: same-origin\r\n\r\n",
  "OPTIONS /api/run HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
];
const TARGETS = [
  "sessions?page=1&size=20&search=a",
  "sessions/0190aaaa-bbbb-7ccc-8ddd-eeeeeeeeeeee/messages?after=1&limit=2&view=model",
  "sessions/x%2fy",
  "health",
];
const SPICE = [
  "\r\n",
  "\n",
  "\0",
  "%00",
  "%",
  "../",
  "{",
  "[[[[",
  '"',
  "\u{1f600}",
  "9".repeat(30),
  "-1",
  ": ",
  "HTTP/9.9",
  "Host: a\r\n",
  "Content-Length: 5\r\n",
  "\xff\xfe",
  "chunked",
  " ",
];

function mutate(next: () => number, text: string, times: number): Buffer {
  const pick = <T>(list: readonly T[]): T => list[Math.floor(next() * list.length)]!;
  let bytes = Buffer.from(text, "latin1");
  for (let i = 0; i < times; i++) {
    const at = Math.floor(next() * bytes.length);
    const to = at + Math.floor(next() * 20);
    const way = next();
    if (way < 0.35)
      bytes = Buffer.concat([bytes.subarray(0, at), Buffer.from(pick(SPICE), "utf8"), bytes.subarray(at)]);
    else if (way < 0.6) bytes = Buffer.concat([bytes.subarray(0, at), bytes.subarray(to)]);
    else if (way < 0.8 && bytes.length > 0) bytes[at] = Math.floor(next() * 256);
    else if (way < 0.9) bytes = Buffer.concat([bytes.subarray(0, to), bytes.subarray(at)]);
    else bytes = bytes.subarray(0, at);
  }
  return bytes;
}

/**
 * A request with a fault in its framing, its target or its body. Half of the requests have a fault in the body only.
 */
function mutated(next: () => number): { bytes: Buffer; framed: boolean } {
  const times = 1 + Math.floor(next() * 4);
  const way = next();
  if (way < 0.25) return { bytes: mutate(next, SEEDS[Math.floor(next() * SEEDS.length)]!, times), framed: false };
  const head = "HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
  if (way < 0.5) {
    const target = TARGETS[Math.floor(next() * TARGETS.length)]!;
    const path = mutate(next, target, times)
      .toString("latin1")
      .replace(/[\0-\x20\x7f-\xff]/g, (char) => `%${char.charCodeAt(0).toString(16).padStart(2, "0")}`);
    return { bytes: Buffer.from(`GET /api/${path} ${head}\r\n`, "latin1"), framed: true };
  }
  const body = mutate(next, BODY, times);
  const start = Buffer.from(`POST /api/run ${head}Content-Length: ${body.length}\r\n\r\n`);
  return { bytes: Buffer.concat([start, body]), framed: true };
}

it(`${REQUESTS} mutated requests cause no 5xx and no logged error, and the server keeps serving`, async (t) => {
  const seed = seedOf();
  t.diagnostic(`seed ${seed}`);
  const api = await startApi(t);
  const next = randomOf(seed);
  const statuses = new Map<string, number>();
  const sendMutation = async () => {
    const { bytes, framed } = mutated(next);
    const connection = await wire(api.url);
    connection.write(bytes);
    // Half-closes the connection if the request may be truncated, so that the server does not wait for the rest.
    if (!framed) connection.socket.end();
    await connection.closed;
    if (framed) assert.match(connection.received, /^HTTP\/1\.1 \d{3} /, JSON.stringify(bytes.toString("latin1")));
    for (const [, status = ""] of connection.received.matchAll(/^HTTP\/1\.1 (\d{3}) /gm)) {
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      assert.ok(Number(status) < 500, `${status} for ${JSON.stringify(bytes.toString("latin1"))}`);
    }
  };
  for (let sent = 0; sent < REQUESTS; sent += PARALLEL_REQUESTS)
    await Promise.all(Array.from({ length: PARALLEL_REQUESTS }, sendMutation));
  t.diagnostic(JSON.stringify(Object.fromEntries(statuses)));
  assert.ok(
    (statuses.get("400") ?? 0) > 10 && (statuses.get("200") ?? 0) > 10,
    "mutated neither too much nor too little",
  );
  assert.ok(
    !api.log.some((line) => line.startsWith("error")),
    api.log.filter((line) => line.startsWith("error")).join("\n"),
  );
  assert.equal((await api.run({ message: "still there?" })).status, 200);
});
