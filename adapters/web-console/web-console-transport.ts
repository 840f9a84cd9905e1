import type { ServerResponse } from "node:http";
import { silentLogger, type Agent, type Logger } from "gantry";
import { ListeningBase, type Listening, type Transport } from "gantry/plugin";
import { answer, type HttpHost } from "gantry/http";
import type { WebConsoleOptions } from "./options.js";
import type { ConsolePages } from "./pages.js";

const ADDRESS = "/console";

/** The console: pages for a browser under `/console`, which speak to the HTTP API of the same port. */
export class WebConsoleTransport implements Transport {
  readonly name = "web-console";
  readonly #options: WebConsoleOptions;
  readonly #host: HttpHost;
  readonly #logger: Logger;
  #loaded: Promise<ConsolePages> | undefined;

  /** `host`: the port that a `KoaHttpTransport` has too, without which the pages have nobody to ask. */
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
      // What makes a link is none of these: it is for those who have the headers.
      browserPaths: ["/", ADDRESS, `${ADDRESS}/`, `${ADDRESS}/assets/*`, `${ADDRESS}/login`],
      homePath: ADDRESS,
      handler: (request, response) => this.#with(response, (pages) => pages.serve(request, response)),
      refuse: (_request, response, refusal) => this.#with(response, (pages) => pages.refuse(response, refusal)),
    });
    // What is bound to all addresses is opened by one that a browser knows.
    return new ConsoleServing(origin.replace(/0\.0\.0\.0|\[::\]/, "localhost") + ADDRESS);
  }

  /** Loaded with the first request: there may never be one. */
  #with(response: ServerResponse, work: (pages: ConsolePages) => void | Promise<void>): void {
    this.#loaded ??= import("./pages.js").then(({ ConsolePages }) => new ConsolePages(this.#options, this.#host));
    this.#loaded.then(work).catch((error: unknown) => {
      this.#logger.error("a request for the console failed", { error });
      if (response.headersSent) response.destroy();
      else answer(response, { status: 500, message: "internal error", code: "internal" });
    });
  }
}

/** Nothing of it goes on by itself; the port is closed by whoever opened it. */
class ConsoleServing extends ListeningBase {
  constructor(readonly address: string) {
    super();
  }

  protected async end(): Promise<void> {}
}
