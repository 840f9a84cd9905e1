import type { IncomingMessage } from "node:http";
import { BodyError, readBody } from "gantry/http";
import { ERROR_CODES, toErrorResponse } from "../acp-shared/index.js";
import { createInvalidMessageRefusal, createTooLargeRefusal } from "./errors.js";

/** Reads the text of a request's body. Rejects with `HttpRefusal` if the body is too large or not UTF-8. */
export async function readText(request: IncomingMessage, maxBytes: number): Promise<string> {
  try {
    return await readBody(request, maxBytes);
  } catch (error) {
    throw error instanceof BodyError && error.reason === "too_large"
      ? createTooLargeRefusal()
      : createInvalidMessageRefusal(toErrorResponse(ERROR_CODES.parse, "parse error"));
  }
}
