import { silentLogger, Serving, type Agent, type Listening, type Logger, type Transport } from "gantry";
import { answer, openHttpHost, type HttpHost, type Refusal } from "gantry/http";
import { ADDRESS, ASSETS, LOGIN, SECURITY } from "./paths.js";
import type { WebConsoleOptions } from "./options.js";

/** The console: pages for a browser under `/console`, which speak to the HTTP API of the same port. */
export class WebConsoleTransport implements Transport {
  readonly name = "web-console";
  readonly #options: WebConsoleOptions;
  readonly #host: HttpHost | undefined;
  readonly #logger: Logger;

  /** Without `host` it opens a port of its own, where there is no API: give it the host that a `KoaHttpTransport` has too. */
  constructor(options: WebConsoleOptions = {}, host?: HttpHost, logger?: Logger) {
    this.#options = options;
    this.#host = host;
    this.#logger = logger ?? silentLogger;
  }

  async start(_agent: Agent): Promise<Listening> {
    const { requiredHeaders = {}, assets } = this.#options;
    const own = this.#host ? undefined : openHttpHost({ ...this.#options, logger: this.#logger });
    const host = this.#host ?? own!;
    // Nobody may ever ask for it.
    const pages = once(async () => {
      const { ConsolePages } = await import("./pages.js");
      return new ConsolePages(requiredHeaders, assets);
    });
    try {
      const origin = await host.mount({
        prefix: ADDRESS,
        fallback: false,
        authenticated: false,
        requiredHeaders: Object.keys(requiredHeaders).length > 0 ? requiredHeaders : undefined,
        pages: ["/", ADDRESS, `${ADDRESS}/`, `${ASSETS}*`, LOGIN],
        front: ADDRESS,
        headers: SECURITY,
        handler: (request, response) => {
          pages()
            .then((all) => all.serve(request, response))
            .catch((error: unknown) => {
              this.#logger.error("a request for the console failed", { error });
              if (response.headersSent) response.destroy();
              else answer(response, { status: 500, message: "internal error", code: "internal" }, SECURITY);
            });
        },
        refuse: (_request, response, refusal: Refusal) => answer(response, refusal, SECURITY),
      });
      return new ConsoleServing(`${origin}${ADDRESS}`, own);
    } catch (error) {
      await own?.close(AbortSignal.abort());
      throw error;
    }
  }
}

class ConsoleServing extends Serving {
  readonly address: string;
  readonly #own: HttpHost | undefined;

  constructor(address: string, own: HttpHost | undefined) {
    super();
    this.address = address;
    this.#own = own;
  }

  protected async end(): Promise<void> {
    // A file is on its way in no time.
    await this.#own?.close(this.shutdown);
  }
}

function once<T>(work: () => Promise<T>): () => Promise<T> {
  let done: Promise<T> | undefined;
  return () => (done ??= work());
}
