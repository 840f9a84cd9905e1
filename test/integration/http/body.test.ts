import assert from "node:assert/strict";
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { it } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { JsonDepthError } from "gantry/plugin";
import { BodyError, rechunkBody, readBody } from "gantry/http";

/** Creates a request whose body arrives in these pieces. */
function createRequest(pieces: Iterable<Uint8Array> | AsyncIterable<Uint8Array>, headers: Record<string, string> = {}) {
  return Object.assign(Readable.from(pieces, { objectMode: false }), { headers }) as unknown as IncomingMessage;
}

const isBodyError = (reason: string) => (error: unknown) => error instanceof BodyError && error.reason === reason;

it("readBody returns the complete text, whatever the size of its pieces", async () => {
  const text = "aé日𝄞".repeat(5_000);
  const bytes = Buffer.from(text);
  for (const pieceBytes of [1, 7, 16_384, 1_000_000]) {
    const pieces = Array.from({ length: Math.ceil(bytes.length / pieceBytes) }, (_, i) =>
      bytes.subarray(i * pieceBytes, (i + 1) * pieceBytes),
    );
    assert.equal(await readBody(createRequest(pieces), bytes.length), text, `${pieceBytes}`);
  }
  assert.equal(await readBody(createRequest([]), 10), "");
});

it("readBody rejects a body that is too large, not UTF-8 or incomplete", async () => {
  const bytes = Buffer.alloc(101, 97);
  await assert.rejects(readBody(createRequest([bytes]), 100), isBodyError("too_large"));
  await assert.rejects(readBody(createRequest([], { "content-length": "101" }), 100), isBodyError("too_large"));
  await assert.rejects(readBody(createRequest([Buffer.from([0x61, 0xff])]), 100), isBodyError("not_text"));
  const brokenRequest = createRequest(
    (async function* () {
      yield bytes.subarray(0, 10);
      await Promise.reject(new Error("aborted"));
    })(),
  );
  await assert.rejects(readBody(brokenRequest, 100), isBodyError("broken"));
});

it("readBody holds less than 40 bytes of memory for each byte that arrives separately", async () => {
  setFlagsFromString("--expose-gc");
  const collectGarbage = runInNewContext("gc") as () => void;
  const measureBytes = () => {
    collectGarbage();
    // Objects released by the first collection may have referenced more.
    collectGarbage();
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    return heapUsed + arrayBuffers;
  };
  const pieceCount = 50_000;
  const request = new Readable({ read: () => undefined });
  const initialBytes = measureBytes();
  const body = readBody(Object.assign(request, { headers: {} }) as unknown as IncomingMessage, 10_000_000);
  for (let i = 0; i < pieceCount; i += 1) {
    request.push(Buffer.from("x"));
    // Sends each piece separately, like a slow client.
    await new Promise((resolve) => setImmediate(resolve));
  }
  const growthBytes = measureBytes() - initialBytes;
  request.push(null);
  assert.equal((await body).length, pieceCount);
  assert.ok(growthBytes < 40 * pieceCount, `${growthBytes} bytes held for ${pieceCount}`);
});

it("rechunkBody joins small pieces, keeps every byte, and rejects if the client disconnects", async () => {
  const bytes = Buffer.from("aé日𝄞".repeat(20_000));
  for (const pieceBytes of [1, 7, 16_384, 100_000]) {
    const pieces = Array.from({ length: Math.ceil(bytes.length / pieceBytes) }, (_, i) =>
      bytes.subarray(i * pieceBytes, (i + 1) * pieceBytes),
    );
    const request = Object.assign(createRequest(pieces, { "x-a": "1" }), { complete: true });
    const rechunkedBody = rechunkBody(request);
    assert.deepEqual(rechunkedBody.headers, { "x-a": "1" });
    const receivedPieces: Buffer[] = [];
    for await (const piece of rechunkedBody as AsyncIterable<Buffer>) receivedPieces.push(piece);
    assert.ok(Buffer.concat(receivedPieces).equals(bytes), `${pieceBytes}`);
    // Joined pieces have at most 16 KiB. The bound allows shorter pieces.
    assert.ok(
      receivedPieces.length <= 2 + (bytes.length / 16_384) * 1.5,
      `${receivedPieces.length} pieces of ${pieceBytes}`,
    );
  }
  const abortedRequest = Object.assign(new Readable({ read: () => undefined }), { headers: {}, complete: false });
  const abortedBody = rechunkBody(abortedRequest as unknown as IncomingMessage);
  abortedRequest.push(Buffer.from("{"));
  abortedRequest.destroy();
  await assert.rejects(async () => {
    for await (const _piece of abortedBody) continue;
  }, isBodyError("broken"));
});

it("rechunkBody keeps JSON within its limits, and rejects too deep or large JSON and invalid UTF-8", async () => {
  const rechunk = async (bytes: Buffer, pieceBytes: number) => {
    const pieces = Array.from({ length: Math.ceil(bytes.length / pieceBytes) }, (_, i) =>
      bytes.subarray(i * pieceBytes, (i + 1) * pieceBytes),
    );
    const receivedPieces: Buffer[] = [];
    const request = Object.assign(createRequest(pieces), { complete: true });
    for await (const piece of rechunkBody(request, { jsonDepth: 3 }) as AsyncIterable<Buffer>)
      receivedPieces.push(piece);
    return Buffer.concat(receivedPieces);
  };
  // One key more than the limit of 50,000.
  const keys = Array.from({ length: 50_001 }, (_, i) => `"${i}":1`);
  for (const pieceBytes of [1, 3, 16_384, 1_000_000]) {
    for (const text of ["[[[]]]", '{"a":"[[[[\\"[[[["}', '"\\\\"', "é日𝄞", `{${keys.slice(1).join()}}`]) {
      const bytes = Buffer.from(text);
      assert.ok((await rechunk(bytes, pieceBytes)).equals(bytes), `${pieceBytes} ${text.slice(0, 20)}`);
    }
    await assert.rejects(rechunk(Buffer.from('{"a":[[[]]]}'), pieceBytes), JsonDepthError);
    await assert.rejects(rechunk(Buffer.from(`{${keys.join()}}`), pieceBytes), JsonDepthError);
    await assert.rejects(rechunk(Buffer.from([0x22, 0xff, 0x22]), pieceBytes), TypeError);
    await assert.rejects(rechunk(Buffer.from("日").subarray(0, 2), pieceBytes), TypeError);
  }
});
