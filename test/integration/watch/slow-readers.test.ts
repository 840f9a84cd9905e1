import assert from "node:assert/strict";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { get, type IncomingMessage } from "node:http";
import { it } from "node:test";
import { createServerConfig, runPrompt, startModelServer, startStreamedRun } from "../../helpers/server-runs.js";
import { startServer } from "../../helpers/server.js";

const READER_COUNT = 500;
const RUN_COUNT = 14;
const CHUNK_CHARACTERS = 4_096;
const CHUNK_COUNT = 880;
/** Memory that the server may use beyond its memory before the tokens, in MB. */
const MAX_GROWTH_MB = 400;

const createChunk = (delta: object, finishReason: string | null) =>
  `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "m1", choices: [{ index: 0, delta, finish_reason: finishReason }] })}\n\n`;

/** A client that reads about one byte of its stream a second. */
async function openSlowReader(url: string): Promise<IncomingMessage> {
  const request = get(url, { agent: false });
  request.on("error", () => undefined);
  const [response] = (await once(request, "response")) as [IncomingMessage];
  const timer = setInterval(() => response.read(1), 1_000);
  response.on("error", () => undefined).once("close", () => clearInterval(timer));
  return response;
}

it(
  "500 readers of a byte a second do not grow the memory of the server, nor cut the answer of a fast client",
  { skip: process.platform !== "linux" },
  async (t) => {
    const modelServer = await startModelServer(t, {
      fallback: {
        flood: {
          piece: createChunk({ role: "assistant", content: "x".repeat(CHUNK_CHARACTERS) }, null),
          times: CHUNK_COUNT,
          tail: `${createChunk({}, "stop")}data: [DONE]\n\n`,
        },
      },
    });
    const server = await startServer(t, { config: createServerConfig(modelServer) });
    const readMemoryMb = async () =>
      Number(/VmRSS:\s+(\d+)/.exec(await readFile(`/proc/${server.pid}/status`, "utf8"))?.[1]) / 1024;
    const { sessionId } = await runPrompt(server, { message: "hi" });
    const readers = await Promise.all(
      Array.from({ length: READER_COUNT }, () => openSlowReader(`${server.url}/api/sessions/${sessionId}/events`)),
    );
    t.after(() => readers.forEach((reader) => reader.destroy()));
    const startMb = await readMemoryMb();
    let maxMb = startMb;
    for (let i = 0; i < RUN_COUNT; i++) {
      const stream = await startStreamedRun(server, { message: "more", session_id: sessionId });
      const timer = setInterval(
        () =>
          void readMemoryMb().then(
            (mb) => (maxMb = Math.max(maxMb, mb)),
            () => undefined,
          ),
        200,
      );
      await stream.ended;
      clearInterval(timer);
      assert.equal(stream.latestEvent?.event, "done", JSON.stringify(stream.latestEvent).slice(0, 300));
      const characters = stream.pieces.reduce((sum, { text }) => sum + text.length, 0);
      assert.ok(characters >= CHUNK_CHARACTERS * CHUNK_COUNT, String(characters));
    }
    t.diagnostic(`memory: ${Math.round(startMb)} MB before, at most ${Math.round(maxMb)} MB`);
    assert.ok(readers.every((reader) => !reader.readableEnded));
    assert.ok(maxMb - startMb < MAX_GROWTH_MB, `${startMb} to ${maxMb} MB`);
  },
);
