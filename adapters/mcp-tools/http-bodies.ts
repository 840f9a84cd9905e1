import type { FetchLike } from "@modelcontextprotocol/client";
import { MESSAGE_BYTES, Turns } from "./lines.js";

/** Bytes of what an error says. */
const ERROR_BYTES = 64 * 1024;
const CONNECT_MS = 30_000;
const LOOPBACK = /^(localhost|.*\.localhost|127(\.\d+){3}|\[::1\])$/;

type Undici = typeof import("undici").default;
type Init = NonNullable<Parameters<FetchLike>[1]>;

/**
 * Connections to servers of tools, whose bodies are bounded. Proxies by HTTPS_PROXY, HTTP_PROXY and NO_PROXY, never one for
 * this machine; no limit on the wait, which whoever asks has.
 */
export class HttpBodies {
  #undici: Promise<{ undici: Undici; direct: Dispatcher; proxied: Dispatcher }> | undefined;
  #closed = false;

  /** As `fetch`. `over`: called once when the answer has ended, however that is; `resumable`: it said where it can be gone on with. */
  async ask(url: string | URL, init: Init, over: (resumable: boolean) => void): Promise<Response> {
    if (this.#closed) throw new Error("the connection is closed");
    const { undici, direct, proxied } = await (this.#undici ??= open());
    const { hostname } = new URL(url);
    const dispatcher = LOOPBACK.test(hostname) ? direct : proxied;
    // Their own kind: those of the platform are none to them.
    const headers = Object.fromEntries(new Headers(init.headers as Record<string, string>));
    const { method = "GET", body, signal, redirect } = init;
    const asked = {
      method,
      headers,
      dispatcher,
      ...(typeof body === "string" && { body }),
      ...(signal && { signal }),
      ...(redirect && { redirect }),
    };
    const answer = await undici.fetch(url, asked).catch((error: unknown) => {
      over(false);
      throw error;
    });
    const isEvents = /^text\/event-stream\b/i.test(answer.headers.get("content-type") ?? "");
    const bytes = answer.body as AsyncIterable<Uint8Array> | null;
    const pieces =
      bytes === null ? undefined : bounded(bytes, !answer.ok ? "error" : isEvents ? "events" : "one", over);
    if (!pieces) over(false);
    const { status, statusText } = answer;
    const told = new Headers([...answer.headers]);
    for (const name of ["content-encoding", "content-length"]) told.delete(name);
    const response = new Response(pieces ? streamOf(pieces) : null, { status, statusText, headers: told });
    // Where a redirect leads is told from there.
    Object.defineProperty(response, "url", { value: answer.url });
    return response;
  }

  /** Breaks what is under way. */
  async close(): Promise<void> {
    this.#closed = true;
    const opened = await this.#undici?.catch(() => undefined);
    await Promise.allSettled([opened?.direct.destroy(), opened?.proxied.destroy()]);
  }
}

type Dispatcher = import("undici").Dispatcher;

async function open() {
  // By its default export: of a CommonJS package a bundle knows no names.
  const { default: undici } = await import("undici");
  const options = { headersTimeout: 0, bodyTimeout: 0, connect: { timeout: CONNECT_MS } };
  return { undici, direct: new undici.Agent(options), proxied: new undici.EnvHttpProxyAgent(options) };
}

/** Of an error the first bytes, of events each, and of one answer all, no more than a message may have. */
async function* bounded(
  body: AsyncIterable<Uint8Array>,
  kind: "error" | "events" | "one",
  over: (resumable: boolean) => void,
): AsyncGenerator<Uint8Array> {
  const turns = new Turns();
  let size = 0;
  let resumable = false;
  try {
    for await (const piece of body) {
      await turns.next();
      const end = kind === "events" ? lastBlankLine(piece) : -1;
      // What stands in one piece may be no more than the piece; one that is cut in two is seen by what comes behind.
      size = end === -1 ? size + piece.length : piece.length - end;
      if (kind === "events") resumable ||= /(^|[\r\n])id:/.test(Buffer.from(piece).toString("latin1"));
      if (kind === "error" && size >= ERROR_BYTES) {
        yield piece.subarray(0, piece.length - (size - ERROR_BYTES));
        return;
      }
      if (size > MESSAGE_BYTES) throw new Error(`it sent a message of more than ${MESSAGE_BYTES / 1024 / 1024} MB`);
      yield piece;
      if (piece.length < 1024) turns.idle();
    }
  } finally {
    over(resumable);
  }
}

/** Where the last event in a piece ends; -1: none does. */
function lastBlankLine(piece: Uint8Array): number {
  const bytes = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength);
  return Math.max(bytes.lastIndexOf("\n\n"), bytes.lastIndexOf("\r\n\r\n"), bytes.lastIndexOf("\r\r"));
}

function streamOf(pieces: AsyncGenerator<Uint8Array>): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const { done, value } = (await pieces.next()) as IteratorResult<Uint8Array, undefined>;
          if (done === true) controller.close();
          else controller.enqueue(value);
        } catch (error) {
          controller.error(error);
        }
      },
      cancel: async () => {
        await pieces.return(undefined);
      },
    },
    { highWaterMark: 0 },
  );
}
