import type { Refusal } from "gantry/http";
import { ERROR_CODES, toErrorResponse, type ResponseMessage } from "../acp-shared/index.js";

/** A rejected request, with its status and a JSON-RPC body. */
export class HttpRefusal extends Error {
  constructor(
    readonly status: number,
    readonly body: ResponseMessage,
    readonly headers: Readonly<Record<string, string>> = {},
  ) {
    super(readMessage(body));
    this.name = "HttpRefusal";
  }
}

function readMessage(body: ResponseMessage): string {
  return "error" in body ? body.error.message : "refused";
}

/** The JSON-RPC body for a status. */
export function createRefusalBody(status: number, message: string): ResponseMessage {
  return toErrorResponse(status >= 500 ? ERROR_CODES.internal : ERROR_CODES.invalidRequest, message);
}

function createRefusal(status: number, message: string, headers?: Readonly<Record<string, string>>): HttpRefusal {
  return new HttpRefusal(status, createRefusalBody(status, message), headers);
}

export const createMethodNotAllowedRefusal = () =>
  createRefusal(405, "method not allowed", { Allow: "GET, POST, DELETE" });
export const createNotJsonRefusal = () => createRefusal(415, "content type must be application/json");
export const createNotAcceptableRefusal = () => createRefusal(406, "accept must include text/event-stream");
export const createMissingConnectionRefusal = () => createRefusal(400, "missing Acp-Connection-Id");
export const createInvalidConnectionRefusal = () => createRefusal(400, "invalid Acp-Connection-Id");
export const createInvalidSessionRefusal = () => createRefusal(400, "invalid Acp-Session-Id");
export const createSessionMismatchRefusal = () => createRefusal(400, "Acp-Session-Id contradicts params.sessionId");
export const createUnknownConnectionRefusal = () =>
  createRefusal(404, "unknown Acp-Connection-Id: initialize again, then load the session");
export const createTooLargeRefusal = () => createRefusal(413, "request body too large", { Connection: "close" });
export const createTooManyRefusal = (resource: string) =>
  createRefusal(503, `too many ${resource}`, { "Retry-After": "1" });
export const createShuttingDownRefusal = () => createRefusal(503, "server shutting down", { "Retry-After": "1" });
export const createInvalidMessageRefusal = (answer: ResponseMessage) => new HttpRefusal(400, answer);

/** The body for a refusal of the HTTP listener. For status 401, the same body as in the HTTP API. */
export function toHostRefusalBody({ status, message, code }: Refusal): unknown {
  return status === 401 ? { error: message, code } : createRefusalBody(status, message);
}
