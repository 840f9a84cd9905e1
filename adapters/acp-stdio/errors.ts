import { ERROR_CODES, toErrorResponse, type ResponseMessage } from "../acp-shared/index.js";

/** The answer to a line that exceeds the size limit. */
export function createLineTooLongResponse(maxBytes: number): ResponseMessage {
  return toErrorResponse(ERROR_CODES.invalidRequest, `invalid request: a message has at most ${maxBytes} bytes`);
}

/** The answer to a line that is not UTF-8. */
export function createNotUtf8Response(): ResponseMessage {
  return toErrorResponse(ERROR_CODES.parse, "parse error");
}
