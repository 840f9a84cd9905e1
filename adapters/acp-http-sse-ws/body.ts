import type { IncomingMessage } from "node:http";
import { BodyError, readBody } from "gantry/http";
import { CODES, refusal } from "../acp-shared/index.js";
import { badMessage, tooLarge } from "./errors.js";

/** Reads the text of a request's body. Rejects with `HttpRefusal` if it is too large or not UTF-8. */
export async function readText(request: IncomingMessage, maxBytes: number): Promise<string> {
  try {
    return await readBody(request, maxBytes);
  } catch (error) {
    throw error instanceof BodyError && error.reason === "too_large"
      ? tooLarge()
      : badMessage(refusal(CODES.parse, "parse error"));
  }
}
