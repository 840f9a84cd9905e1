import type { IncomingMessage } from "node:http";
import { newId } from "../base/ids.js";

/** Response header with the id of the request in the log. Clients can send their own id in it. */
export const REQUEST_ID_HEADER = "X-Request-Id";
const REQUEST_ID_PATTERN = /^[A-Za-z0-9._-]{1,64}$/;

/** First product of a `User-Agent`: `curl/8.5.0`. Other values are not logged. */
const PRODUCT_PATTERN = /^[\w.-]{1,32}(?:\/[\w.+-]{1,16})?(?= |$)/;

const idsByRequest = new WeakMap<IncomingMessage, string>();

/** Returns the id of a request: the client's `X-Request-Id` if it is valid, otherwise a new id. */
export function getRequestId(request: IncomingMessage): string {
  let id = idsByRequest.get(request);
  if (id !== undefined) return id;
  const sentId = request.headers["x-request-id"];
  id = typeof sentId === "string" && REQUEST_ID_PATTERN.test(sentId) ? sentId : newId();
  idsByRequest.set(request, id);
  return id;
}

/** Fields of log lines about a request: its id, and the client as `http:curl/8.5.0@127.0.0.1`. */
export function getLogFields(request: IncomingMessage): { request: string; client: string } {
  const [product] = PRODUCT_PATTERN.exec(request.headers["user-agent"] ?? "") ?? [];
  const name = product === undefined ? "http" : `http:${product}`;
  return { request: getRequestId(request), client: `${name}@${request.socket.remoteAddress ?? "unknown"}` };
}
