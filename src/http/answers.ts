import { STATUS_CODES, type ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { Refusal } from "../ports/http-host.js";

/** Time in ms that a client has to read an error response before the connection is closed. */
const LINGER_MS = 1_000;

/** Sends a refusal as `{ "error": message, "code": word }`. `common`: headers of every response. */
export function answer(
  response: ServerResponse,
  { status, message, code, headers }: Refusal,
  common: Readonly<Record<string, string>> = {},
): void {
  const body = JSON.stringify({ error: message, code });
  response.writeHead(status, {
    ...common,
    ...headers,
    "Content-Type": "application/json",
    "Content-Length": Buffer.byteLength(body),
  });
  response.end(response.req.method === "HEAD" ? undefined : body);
}

/** Sends a complete response on a socket without a response object, then closes the connection. */
export function endRaw(
  socket: Duplex,
  { status, message, code, headers = {} }: Refusal,
  body: unknown = { error: message, code },
): void {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const text = JSON.stringify(body);
  const lines = Object.entries({
    "Content-Type": "application/json",
    "Content-Length": String(Buffer.byteLength(text)),
    Connection: "close",
    ...headers,
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? "Error"}\r\n${lines.join("")}\r\n${text}`);
  // If the connection closed at once with unread input from the client, the response would be lost.
  setTimeout(() => socket.destroy(), LINGER_MS).unref();
}

/**
 * Responds to input that is not HTTP, has too large headers, or arrived too slowly. `answering`: a response has already
 * started, so only the socket is destroyed.
 */
export function answerBroken(
  error: NodeJS.ErrnoException,
  socket: Duplex,
  isAnswering: boolean,
  headers: Readonly<Record<string, string>> = {},
): void {
  if (error.code === "ECONNRESET" || !socket.writable || isAnswering) socket.destroy();
  else endRaw(socket, { ...brokenBy(error), headers });
}

function brokenBy({ code }: NodeJS.ErrnoException): Refusal {
  if (code === "HPE_HEADER_OVERFLOW")
    return { status: 431, message: "request headers too large", code: "headers_too_large" };
  if (code === "ERR_HTTP_REQUEST_TIMEOUT")
    return { status: 408, message: "request timed out", code: "request_timeout" };
  return { status: 400, message: "bad request", code: "bad_request" };
}
