import type { ServerResponse } from "node:http";
import { silentLogger, type Agent, type Logger } from "gantry";
import type { Listening, Transport } from "gantry/plugin";
import { answer, openHttpHost, type HttpHost, type Refusal } from "gantry/http";
import { commonHeaders } from "./cors.js";
import { completeOptions, type KoaHttpOptions } from "./options.js";
import { HttpServing, SHUTTING_DOWN } from "./serving.js";

const HEALTH = "/api/health";
const READY = "/api/ready";

/** The HTTP API under `/api`: JSON, and server-sent events for streamed runs. */
export class KoaHttpTransport implements Transport {
  readonly name = "koa-http-api";
  readonly #options: KoaHttpOptions;
  readonly #host: HttpHost | undefined;
  readonly #logger: Logger;

  /** Opens its own port if `host` is undefined. Throws `ConfigError` for a header that cannot be sent. */
  constructor(options: Partial<KoaHttpOptions>, host?: HttpHost, logger?: Logger) {
    this.#options = completeOptions(options);
    this.#host = host;
    this.#logger = logger ?? silentLogger;
  }

  async start(agent: Agent): Promise<Listening> {
    const options = this.#options;
    const ownHost = this.#host ? undefined : openHttpHost({ ...options, logger: this.#logger });
    const host = this.#host ?? ownHost!;
    const serving = new HttpServing(ownHost);
    const headers = commonHeaders(options);
    // Without required headers of its own, the port's apply.
    const required = Object.keys(options.requiredHeaders ?? {}).length > 0 ? options.requiredHeaders : undefined;
    // Loading Koa takes half of the start-up time: load it while the first client connects.
    const loaded = once(async () => {
      const { createApp } = await import("./app.js");
      return createApp({
        agent,
        options,
        headers,
        logger: this.#logger,
        authHeaderNames: host.provingHeaders(required),
        isOfPerson: (request) => host.isOfPerson(request, required),
        isLoopback: () => host.loopback,
        takeStream: () => host.takeStream(),
        stopping: serving.stopSignal,
        shutdown: serving.shutdown,
      });
    });
    const refuse = (response: ServerResponse, refusal: Refusal): void => answer(response, refusal, headers);
    const broken = (response: ServerResponse) => (error: unknown) => {
      this.#logger.error("HTTP API failed to load; requests are answered with 500", { error });
      refuse(response, { status: 500, message: "internal error", code: "internal" });
    };
    try {
      serving.address = await host.mount({
        prefix: "/api",
        fallback: true,
        authenticated: false,
        requiredHeaders: required,
        // The health check reveals only that the process is alive, and its version.
        publicPaths: [HEALTH],
        noHeaderPaths: options.openProbes ? [HEALTH, READY] : [],
        // A load balancer must see that this server is stopping, and why.
        shutdownPaths: [READY],
        headers,
        handler: (request, response) => {
          // This response is already closed: a stop would wait for it without end.
          if (response.closed) return;
          serving.track(request, response);
          if (serving.stopping && request.url?.split("?")[0] !== READY) refuse(response, SHUTTING_DOWN);
          else loaded().then((handle) => void (response.closed || handle(request, response)), broken(response));
        },
        refuse: (_request, response, refusal) => refuse(response, refusal),
      });
      // Errors of this preload are reported with the first request.
      setImmediate(() => {
        loaded().catch(() => undefined);
        void agent.prepare();
      });
      return serving;
    } catch (error) {
      await ownHost?.close(AbortSignal.abort());
      throw error;
    }
  }
}

function once<T>(work: () => Promise<T>): () => Promise<T> {
  let done: Promise<T> | undefined;
  return () => (done ??= work());
}
