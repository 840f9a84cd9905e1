import type { IncomingMessage } from "node:http";
import { headerFault, originAllowed } from "gantry";
import { badOrigin, unauthorized } from "./errors.js";

/** Who may come in. Throws `HttpRefusal`. */
export class Guard {
  readonly #required: Readonly<Record<string, string>>;
  readonly #origins: readonly string[];

  constructor(options: { requiredHeaders: Readonly<Record<string, string>>; allowedOrigins: readonly string[] }) {
    this.#required = options.requiredHeaders;
    this.#origins = options.allowedOrigins;
  }

  /** Whether clients prove who they are. */
  get authenticates(): boolean {
    return Object.keys(this.#required).length > 0;
  }

  checkHeaders(request: IncomingMessage): void {
    const fault = headerFault(request, this.#required);
    if (fault !== undefined) throw unauthorized(fault);
  }

  /** A web page may open a socket from this server, from this machine, or where the config says so. */
  checkOrigin(request: IncomingMessage): void {
    if (!originAllowed(request, this.#origins)) throw badOrigin();
  }
}
