import type { ServerResponse } from "node:http";
import { silentLogger, type Agent, type Logger } from "gantry";
import { ListeningBase, type Listening, type Transport } from "gantry/plugin";
import { answer, type HttpHost } from "gantry/http";
import type { WebConsoleOptions } from "./options.js";
import type { ConsolePages } from "./pages.js";
import { CONSOLE_PATH } from "./console-path.js";

/** The console: browser pages under `/console`, which use the HTTP API on the same port. */
export class WebConsoleTransport implements Transport {
  readonly name = "web-console";
  readonly #options: WebConsoleOptions;
  readonly #host: HttpHost;
  readonly #logger: Logger;
  #pages: Promise<ConsolePages> | undefined;

  /** `host`: the HTTP host that a `KoaHttpTransport` also uses. Without this transport the pages have no API. */
  constructor(options: WebConsoleOptions, host: HttpHost, logger: Logger = silentLogger) {
    this.#options = options;
    this.#host = host;
    this.#logger = logger;
  }

  async start(_agent: Agent): Promise<Listening> {
    const { requiredHeaders } = this.#options;
    const origin = await this.#host.mount({
      separatesUsers: true,
      prefix: CONSOLE_PATH,
      fallback: false,
      authenticated: false,
      requiredHeaders: Object.keys(requiredHeaders ?? {}).length > 0 ? requiredHeaders : undefined,
      // The endpoint that creates links is not listed, because it requires the headers.
      browserPaths: ["/", CONSOLE_PATH, `${CONSOLE_PATH}/`, `${CONSOLE_PATH}/assets/*`, `${CONSOLE_PATH}/login`],
      homePath: CONSOLE_PATH,
      handler: (request, response) => this.#withPages(response, (pages) => pages.serve(request, response)),
      refuse: (_request, response, refusal) => this.#withPages(response, (pages) => pages.refuse(response, refusal)),
    });
    // A browser cannot open the wildcard address; `localhost` replaces it.
    return new ConsoleListening(origin.replace(/0\.0\.0\.0|\[::\]/, "localhost") + CONSOLE_PATH);
  }

  /**
   * Calls `work` with the pages. Their module is loaded at the first request, because many processes get no request.
   */
  #withPages(response: ServerResponse, work: (pages: ConsolePages) => void | Promise<void>): void {
    this.#pages ??= import("./pages.js").then(({ ConsolePages }) => new ConsolePages(this.#options, this.#host));
    this.#pages.then(work).catch((error: unknown) => {
      this.#logger.error("console request failed", { error });
      if (response.headersSent) response.destroy();
      else answer(response, { status: 500, message: "internal error", code: "internal" });
    });
  }
}

/** The listening transport. `end` has nothing to close, because the HTTP host closes the port. */
class ConsoleListening extends ListeningBase {
  constructor(readonly address: string) {
    super();
  }

  protected async end(): Promise<void> {}
}
