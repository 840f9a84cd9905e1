import type { ServerResponse } from "node:http";
import { silentLogger, type Agent, type Logger } from "gantry";
import { ListeningBase, type Listening, type Transport } from "gantry/plugin";
import { answer, type HttpHost } from "gantry/http";
import type { WebConsoleOptions } from "./options.js";
import type { ConsolePages } from "./pages.js";

const ADDRESS = "/console";

/** The console: browser pages under `/console`, which use the HTTP API on the same port. */
export class WebConsoleTransport implements Transport {
  readonly name = "web-console";
  readonly #options: WebConsoleOptions;
  readonly #host: HttpHost;
  readonly #logger: Logger;
  #loaded: Promise<ConsolePages> | undefined;

  /** `host`: the host of a port that a `KoaHttpTransport` also uses; without that transport the pages have no API. */
  constructor(options: WebConsoleOptions, host: HttpHost, logger: Logger = silentLogger) {
    this.#options = options;
    this.#host = host;
    this.#logger = logger;
  }

  async start(_agent: Agent): Promise<Listening> {
    const { requiredHeaders } = this.#options;
    const origin = await this.#host.mount({
      prefix: ADDRESS,
      fallback: false,
      authenticated: false,
      requiredHeaders: Object.keys(requiredHeaders ?? {}).length > 0 ? requiredHeaders : undefined,
      // The endpoint that creates links is not listed: it requires the headers.
      browserPaths: ["/", ADDRESS, `${ADDRESS}/`, `${ADDRESS}/assets/*`, `${ADDRESS}/login`],
      homePath: ADDRESS,
      handler: (request, response) => this.#with(response, (pages) => pages.serve(request, response)),
      refuse: (_request, response, refusal) => this.#with(response, (pages) => pages.refuse(response, refusal)),
    });
    // A browser cannot open the wildcard address; `localhost` replaces it.
    return new ConsoleServing(origin.replace(/0\.0\.0\.0|\[::\]/, "localhost") + ADDRESS);
  }

  /** The pages are loaded at the first request, because there may be none. */
  #with(response: ServerResponse, work: (pages: ConsolePages) => void | Promise<void>): void {
    this.#loaded ??= import("./pages.js").then(({ ConsolePages }) => new ConsolePages(this.#options, this.#host));
    this.#loaded.then(work).catch((error: unknown) => {
      this.#logger.error("a request for the console failed", { error });
      if (response.headersSent) response.destroy();
      else answer(response, { status: 500, message: "internal error", code: "internal" });
    });
  }
}

/** Has nothing to close: the HTTP host closes the port. */
class ConsoleServing extends ListeningBase {
  constructor(readonly address: string) {
    super();
  }

  protected async end(): Promise<void> {}
}
