import { CODES, refusal, type ResponseMessage } from "../acp-shared/index.js";

/** The answer to a line that exceeds the size limit. */
export function createLineTooLongResponse(maxBytes: number): ResponseMessage {
  return refusal(CODES.invalidRequest, `invalid request: a message has at most ${maxBytes} bytes`);
}

/** The answer to a line that is not UTF-8. */
export function notUtf8(): ResponseMessage {
  return refusal(CODES.parse, "parse error");
}
