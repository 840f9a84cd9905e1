import type { IncomingMessage } from "node:http";
import { badOrigin, unauthorized } from "./errors.js";
import { isLoopbackHost, missingOrWrongHeader } from "gantry";

/** Who may come in. Throws `HttpRefusal`. */
export class Guard {
  readonly #required: Readonly<Record<string, string>>;
  readonly #origins: ReadonlySet<string>;

  constructor(options: { requiredHeaders: Readonly<Record<string, string>>; allowedOrigins: readonly string[] }) {
    this.#required = options.requiredHeaders;
    this.#origins = new Set(options.allowedOrigins.map((origin) => origin.toLowerCase().replace(/\/$/, "")));
  }

  /** Whether clients prove who they are. */
  get authenticates(): boolean {
    return Object.keys(this.#required).length > 0;
  }

  checkHeaders(request: IncomingMessage): void {
    const problem = missingOrWrongHeader(request, this.#required);
    if (problem !== undefined) throw unauthorized(problem);
  }

  /** A web page may open a socket from this server, from this machine, or where the config says so. */
  checkOrigin(request: IncomingMessage): void {
    const { origin, host } = request.headers;
    if (origin === undefined) return;
    const url = URL.canParse(origin) ? new URL(origin) : undefined;
    if (!url) throw badOrigin();
    if (url.host === host?.toLowerCase() || isLoopbackHost(url.hostname)) return;
    if (!this.#origins.has(url.origin.toLowerCase()) && !this.#origins.has(origin.toLowerCase())) throw badOrigin();
  }
}
