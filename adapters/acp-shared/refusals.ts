import type { Logger } from "gantry";
import { RefusalLog } from "gantry/plugin";
import type { RpcError } from "./errors.js";
import { toLoggedText } from "./printable-line.js";
import { ERROR_CODES, type RequestId } from "./wire.js";

/** Logs an error response that refuses a request: without a login, out of order, or at a limit. */
export class RpcRefusals {
  readonly #log: RefusalLog;

  constructor(logger: Logger) {
    this.#log = new RefusalLog(logger);
  }

  /** Other errors, such as invalid params, are not logged. */
  record({ rpcCode, message, isLimit }: RpcError, id: RequestId, method: string): void {
    if (rpcCode !== ERROR_CODES.authRequired && rpcCode !== ERROR_CODES.invalidRequest && !isLimit) return;
    this.#log.log(message, { code: rpcCode, method: toLoggedText(method), request: toLoggedText(String(id)) });
  }
}
