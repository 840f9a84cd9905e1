import assert from "node:assert/strict";
import { it } from "node:test";
import { mutateText } from "../../helpers/mutations.js";
import { openConnection } from "../../helpers/raw-http.js";
import { createRandom, readSeed } from "../../helpers/random.js";
import { startApi } from "../../helpers/http-api.js";

/** Number of mutated requests. Set by the environment variable `REQUESTS`. */
const REQUEST_COUNT = Number(process.env["REQUESTS"] ?? 300);
const PARALLEL_REQUESTS = 20;

const BODY = '{"message":"hi","provider":"scripted","model":"scripted-1","files":[],"stream":true}';
const RAW_REQUESTS = [
  `POST /api/run HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${BODY.length}\r\n\r\n${BODY}`,
  `POST /api/run HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n${BODY.length.toString(16)}\r\n${BODY}\r\n0\r\n\r\n`,
  "GET /api/sessions?page=1&size=20&search=a HTTP/1.1\r\nHost: localhost:80\r\nAccept: */*\r\n\r\n",
  "GET /api/sessions/0190aaaa-bbbb-7ccc-8ddd-eeeeeeeeeeee/messages?after=1&limit=2&view=model HTTP/1.1\r\nHost: [::1]\r\n\r\n",
  "DELETE /api/sessions/x HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nSec-Fetch-Site: same-origin\r\n\r\n",
  "OPTIONS /api/run HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
];
const GET_TARGETS = [
  "sessions?page=1&size=20&search=a",
  "sessions/0190aaaa-bbbb-7ccc-8ddd-eeeeeeeeeeee/messages?after=1&limit=2&view=model",
  "sessions/x%2fy",
  "health",
];
/**
 * Creates a request with mutations in its framing, target or body. Half of the requests have a mutated body only.
 * `isFramed` is true if the framing is intact, so that the server must respond.
 */
function createMutatedRequest(random: () => number): { bytes: Buffer; isFramed: boolean } {
  const choice = random();
  if (choice < 0.25)
    return {
      bytes: mutateText(random, RAW_REQUESTS[Math.floor(random() * RAW_REQUESTS.length)]!),
      isFramed: false,
    };
  const head = "HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
  if (choice < 0.5) {
    const target = GET_TARGETS[Math.floor(random() * GET_TARGETS.length)]!;
    const path = mutateText(random, target)
      .toString("latin1")
      .replace(/[\0-\x20\x7f-\xff]/g, (char) => `%${char.charCodeAt(0).toString(16).padStart(2, "0")}`);
    return { bytes: Buffer.from(`GET /api/${path} ${head}\r\n`, "latin1"), isFramed: true };
  }
  const body = mutateText(random, BODY);
  const headBytes = Buffer.from(`POST /api/run ${head}Content-Length: ${body.length}\r\n\r\n`);
  return { bytes: Buffer.concat([headBytes, body]), isFramed: true };
}

it(`${REQUEST_COUNT} mutated requests cause no 5xx and no logged error, and the server keeps serving`, async (t) => {
  const seed = readSeed();
  t.diagnostic(`seed ${seed}`);
  const api = await startApi(t);
  const random = createRandom(seed);
  const statuses = new Map<string, number>();
  const sendMutation = async () => {
    const { bytes, isFramed } = createMutatedRequest(random);
    const connection = await openConnection(api.url);
    connection.write(bytes);
    // Half-closes the connection if the request may be truncated, so that the server does not wait for the rest.
    if (!isFramed) connection.socket.end();
    await connection.closed;
    if (isFramed) assert.match(connection.receivedText, /^HTTP\/1\.1 \d{3} /, JSON.stringify(bytes.toString("latin1")));
    for (const [, status = ""] of connection.receivedText.matchAll(/^HTTP\/1\.1 (\d{3}) /gm)) {
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      assert.ok(Number(status) < 500, `${status} for ${JSON.stringify(bytes.toString("latin1"))}`);
    }
  };
  for (let sentCount = 0; sentCount < REQUEST_COUNT; sentCount += PARALLEL_REQUESTS)
    await Promise.all(Array.from({ length: PARALLEL_REQUESTS }, sendMutation));
  t.diagnostic(JSON.stringify(Object.fromEntries(statuses)));
  assert.ok(
    (statuses.get("400") ?? 0) > 10 && (statuses.get("200") ?? 0) > 0,
    "the mutations leave some requests valid and make some invalid",
  );
  assert.ok(
    !api.logLines.some((line) => line.startsWith("error")),
    api.logLines.filter((line) => line.startsWith("error")).join("\n"),
  );
  assert.equal((await api.postRun({ message: "still there?" })).status, 200);
});
