import type { Refusal } from "gantry/http";
import { CODES, refusal, type ResponseMessage } from "../acp-shared/index.js";

/** A rejected request, with its status and a JSON-RPC body. */
export class HttpRefusal extends Error {
  constructor(
    readonly status: number,
    readonly body: ResponseMessage,
    readonly headers: Readonly<Record<string, string>> = {},
  ) {
    super(messageOf(body));
    this.name = "HttpRefusal";
  }
}

function messageOf(body: ResponseMessage): string {
  return "error" in body ? body.error.message : "refused";
}

/** The JSON-RPC body for a status. */
export function refusalBody(status: number, message: string): ResponseMessage {
  return refusal(status >= 500 ? CODES.internal : CODES.invalidRequest, message);
}

function refuse(status: number, message: string, headers?: Readonly<Record<string, string>>): HttpRefusal {
  return new HttpRefusal(status, refusalBody(status, message), headers);
}

export const methodNotAllowed = () => refuse(405, "method not allowed", { Allow: "GET, POST, DELETE" });
export const notJson = () => refuse(415, "content type must be application/json");
export const notAcceptable = () => refuse(406, "accept must include text/event-stream");
export const missingConnection = () => refuse(400, "missing Acp-Connection-Id");
export const invalidConnection = () => refuse(400, "invalid Acp-Connection-Id");
export const invalidSession = () => refuse(400, "invalid Acp-Session-Id");
export const otherSession = () => refuse(400, "Acp-Session-Id contradicts params.sessionId");
export const unknownConnection = () =>
  refuse(404, "unknown Acp-Connection-Id: initialize again, then load the session");
export const tooLarge = () => refuse(413, "request body too large", { Connection: "close" });
export const tooMany = (what: string) => refuse(503, `too many ${what}`, { "Retry-After": "1" });
export const shuttingDown = () => refuse(503, "server shutting down", { "Retry-After": "1" });
export const badMessage = (answer: ResponseMessage) => new HttpRefusal(400, answer);

/** The body for a refusal of the port. For a missing header it is the same as in the HTTP API. */
export function bodyOf({ status, message, code }: Refusal): unknown {
  return status === 401 ? { error: message, code } : refusalBody(status, message);
}
