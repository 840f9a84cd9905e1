import { isRecord, JsonDepthError, parseJson } from "gantry/plugin";
import { ERROR_CODES, type ErrorObject, type RequestId, type ResponseMessage } from "./wire.js";

/** A client's message with a checked envelope. */
export type ClientFrame =
  | { kind: "request"; id: RequestId; method: string; params: unknown }
  | { kind: "notification"; method: string; params: unknown }
  | { kind: "response"; id: RequestId; result: unknown }
  | { kind: "failure"; id: RequestId; error: ErrorObject }
  /** An invalid message; `answer` is the error response to it. */
  | { kind: "invalid"; errorResponse: ResponseMessage };

/** The error response to an invalid message. `id`: null if the message has no valid id. */
export function toErrorResponse(code: number, message: string, id: RequestId = null): ResponseMessage {
  return { jsonrpc: "2.0", id, error: { code, message } };
}

/** Parses a text frame. JSON deeper than `maxDepth` is invalid. */
export function parseFrame(text: string, maxDepth: number): ClientFrame {
  let value: unknown;
  try {
    value = parseJson(text, maxDepth);
  } catch (error) {
    return error instanceof JsonDepthError
      ? {
          kind: "invalid",
          errorResponse: toErrorResponse(ERROR_CODES.invalidRequest, `invalid request: ${error.message}`),
        }
      : { kind: "invalid", errorResponse: toErrorResponse(ERROR_CODES.parse, "parse error") };
  }
  return readFrame(value);
}

/** Checks the envelope of a parsed message. */
export function readFrame(value: unknown): ClientFrame {
  if (Array.isArray(value)) return createInvalidFrame("batches are not supported");
  if (!isRecord(value)) return createInvalidFrame("expected an object");
  const hasKey = (key: string) => Object.hasOwn(value, key);
  const id = hasKey("id") ? value.id : undefined;
  const requestId = isId(id) ? id : null;
  if (value.jsonrpc !== "2.0") return createInvalidFrame("jsonrpc: expected 2.0", requestId);
  if (hasKey("id") && !isId(id)) return createInvalidFrame("id: expected a string, an integer or null");
  if (hasKey("method")) {
    const { method, params } = value;
    if (typeof method !== "string") return createInvalidFrame("method: expected a string", requestId);
    if (hasKey("result") || hasKey("error"))
      return createInvalidFrame("a request has no result and no error", requestId);
    return hasKey("id") ? { kind: "request", id: requestId, method, params } : { kind: "notification", method, params };
  }
  if (!hasKey("id") || hasKey("result") === hasKey("error")) {
    return createInvalidFrame("expected a request, a notification or a response", requestId);
  }
  if (hasKey("result")) return { kind: "response", id: requestId, result: value.result };
  const { error } = value;
  if (!isRecord(error) || !Number.isInteger(error.code) || typeof error.message !== "string") {
    return createInvalidFrame("error: expected code and message", requestId);
  }
  return {
    kind: "failure",
    id: requestId,
    error: { code: error.code as number, message: error.message, data: error.data },
  };
}

function createInvalidFrame(reason: string, id: RequestId = null): ClientFrame {
  return {
    kind: "invalid",
    errorResponse: toErrorResponse(ERROR_CODES.invalidRequest, `invalid request: ${reason}`, id),
  };
}

/**
 * Whether the value is a request id. Integers beyond 2^53 are no ids, because the answer could not repeat them exactly.
 */
function isId(value: unknown): value is RequestId {
  return value === null || typeof value === "string" || Number.isSafeInteger(value);
}
