import { STATUS_CODES, type ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { Refusal } from "../ports/http-host.js";

/** Time for a client to read an error response before the server destroys the connection, in ms. */
const LINGER_MS = 1_000;

/** Sends a refusal as JSON: `{ error, code }`. The headers of the refusal override `commonHeaders`. */
export function answer(
  response: ServerResponse,
  { status, message, code, headers }: Refusal,
  commonHeaders: Readonly<Record<string, string>> = {},
): void {
  const body = JSON.stringify({ error: message, code });
  response.writeHead(status, {
    ...commonHeaders,
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
  // Closing a connection that has unread input resets it, and the client would lose the response.
  setTimeout(() => socket.destroy(), LINGER_MS).unref();
}

/**
 * Responds to input that is not HTTP, has too large headers, or arrived too slowly. If a response has already started,
 * the socket is destroyed instead.
 */
export function answerClientError(
  error: NodeJS.ErrnoException,
  socket: Duplex,
  hasStartedResponse: boolean,
  headers: Readonly<Record<string, string>> = {},
): void {
  if (error.code === "ECONNRESET" || !socket.writable || hasStartedResponse) socket.destroy();
  else endRaw(socket, { ...toRefusal(error), headers });
}

function toRefusal({ code }: NodeJS.ErrnoException): Refusal {
  if (code === "HPE_HEADER_OVERFLOW")
    return { status: 431, message: "request headers too large", code: "headers_too_large" };
  if (code === "ERR_HTTP_REQUEST_TIMEOUT")
    return { status: 408, message: "request timed out", code: "request_timeout" };
  return { status: 400, message: "bad request", code: "bad_request" };
}
