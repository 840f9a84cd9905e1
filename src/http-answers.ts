import { STATUS_CODES, type ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { Refusal } from "./ports/transport.js";

/** A client that has been told off gets so long, in ms, to read it before the connection is cut. */
const LINGER_MS = 1_000;

/** A refusal as `{ "error": message }`. */
export function answer(response: ServerResponse, { status, message, headers }: Refusal): void {
  const body = JSON.stringify({ error: message });
  response.writeHead(status, {
    ...headers,
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
  });
  response.end(response.req.method === "HEAD" ? undefined : body);
}

/** A whole answer, `{ "error": message }`, on a socket that has no response object; the connection ends with it. */
export function endRaw(
  socket: Duplex,
  status: number,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const body = JSON.stringify({ error: message });
  const lines = Object.entries({
    "Content-Type": "application/json",
    "Content-Length": String(Buffer.byteLength(body)),
    Connection: "close",
    ...headers,
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? "Error"}\r\n${lines.join("")}\r\n${body}`);
  // Cut at once, with something of the client's unread, the answer would be lost on its way.
  setTimeout(() => socket.destroy(), LINGER_MS).unref();
}

/** Answer what is no HTTP, is too large in its headers, or came too slowly. `answering`: an answer is on its way already. */
export function answerBroken(error: NodeJS.ErrnoException, socket: Duplex, answering: boolean): void {
  if (error.code === "ECONNRESET" || !socket.writable || answering) socket.destroy();
  else if (error.code === "HPE_HEADER_OVERFLOW") endRaw(socket, 431, "request headers too large");
  else if (error.code === "ERR_HTTP_REQUEST_TIMEOUT") endRaw(socket, 408, "request timed out");
  else endRaw(socket, 400, "bad request");
}
