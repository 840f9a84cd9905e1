import { request as httpRequest, Agent as HttpAgent } from "node:http";
import { request as httpsRequest, Agent as HttpsAgent } from "node:https";
import type { Logger } from "gantry";

/** Time limit of a request, in ms. */
const REQUEST_TIMEOUT_MS = 10_000;

/** Path of the collector for each signal. */
type Signal = "metrics" | "traces";

/** Sends data to a collector as JSON. Data of a failed request is dropped, so that an outage costs no memory. */
export class OtlpSender {
  readonly #baseUrl: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #logger: Logger;
  readonly #agent: HttpAgent;
  readonly #closeController = new AbortController();
  /** Number of requests that failed since the last success. */
  #failedRequests = 0;

  constructor(endpoint: string, headers: Readonly<Record<string, string>>, logger: Logger) {
    this.#baseUrl = endpoint.replace(/\/+$/, "");
    this.#headers = headers;
    this.#logger = logger;
    const options = { keepAlive: true, maxSockets: 2 };
    this.#agent = this.#isSecure ? new HttpsAgent(options) : new HttpAgent(options);
  }

  /** Sends a request. Never rejects: the log has a line at the begin and at the end of an outage. */
  async send(signal: Signal, body: Uint8Array): Promise<void> {
    try {
      await this.#post(`${this.#baseUrl}/v1/${signal}`, body);
      if (this.#failedRequests > 0)
        this.#logger.info("telemetry collector available again", { droppedRequests: this.#failedRequests });
      this.#failedRequests = 0;
    } catch (error) {
      if (this.#closeController.signal.aborted) return;
      if (this.#failedRequests === 0)
        this.#logger.warn("telemetry collector unavailable; its data is dropped until it answers", { error });
      this.#failedRequests += 1;
    }
  }

  /** Ends the active requests and closes the connections. */
  close(): void {
    this.#closeController.abort();
    this.#agent.destroy();
  }

  get #isSecure(): boolean {
    return /^https:/i.test(this.#baseUrl);
  }

  #post(url: string, body: Uint8Array): Promise<void> {
    const { signal } = this.#closeController;
    const headers = { ...this.#headers, "Content-Type": "application/json", "Content-Length": body.byteLength };
    const options = { method: "POST", agent: this.#agent, headers, signal, timeout: REQUEST_TIMEOUT_MS };
    return new Promise((resolve, reject) => {
      const request = (this.#isSecure ? httpsRequest : httpRequest)(url, options, (response) => {
        const { statusCode = 0 } = response;
        response.resume();
        response.once("error", reject);
        response.once("end", () =>
          statusCode >= 200 && statusCode < 300 ? resolve() : reject(new Error(`collector answered ${statusCode}`)),
        );
      });
      request.once("timeout", () => request.destroy(new Error(`no answer within ${REQUEST_TIMEOUT_MS} ms`)));
      request.once("error", reject);
      request.end(body);
    });
  }
}
