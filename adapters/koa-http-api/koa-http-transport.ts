import type { RequestListener, ServerResponse } from "node:http";
import { silentLogger, type Agent, type Logger, type User } from "gantry";
import type { Listening, Transport } from "gantry/plugin";
import { answer, openHttpHost, type HttpHost, type Refusal } from "gantry/http";
import { createCommonHeaders } from "./headers.js";
import { completeOptions, type KoaHttpOptions } from "./options.js";
import { MCP_CALLBACK_PATH } from "./mcp-callback-path.js";
import type { CreateApp, UserApps } from "./user-apps.js";
import { HttpServing, SHUTTING_DOWN_REFUSAL } from "./http-serving.js";

const HEALTH_PATH = "/api/health";
const READY_PATH = "/api/ready";

/** The HTTP API under `/api`: JSON, and server-sent events for streamed runs. */
export class KoaHttpTransport implements Transport {
  readonly name = "koa-http-api";
  readonly #options: KoaHttpOptions;
  readonly #host: HttpHost | undefined;
  readonly #logger: Logger;

  /** Opens its own HTTP listener if `host` is undefined. Throws `ConfigError` for a header that cannot be sent. */
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
    const headers = createCommonHeaders(options);
    // If undefined, the required headers of the listener apply.
    const requiredHeaders = Object.keys(options.requiredHeaders ?? {}).length > 0 ? options.requiredHeaders : undefined;
    const createApp = (userAgent: Agent, userOptions: KoaHttpOptions) =>
      this.#createApp(userAgent, userOptions, host, serving, headers, requiredHeaders);
    const loadApp = this.#createLoader(agent, createApp);
    const refuse = (response: ServerResponse, refusal: Refusal): void => answer(response, refusal, headers);
    const onLoadError = (response: ServerResponse) => (error: unknown) => {
      this.#logger.error("HTTP API failed to load; requests are answered with 500", { error });
      refuse(response, { status: 500, message: "internal error", code: "internal" });
    };
    try {
      serving.address = await host.mount({
        prefix: "/api",
        fallback: true,
        authenticated: false,
        separatesUsers: true,
        requiredHeaders,
        // The health check reveals only that the process is alive, and its version.
        publicPaths: [HEALTH_PATH],
        noHeaderPaths: options.openProbes ? [HEALTH_PATH, READY_PATH] : [],
        browserPaths: [MCP_CALLBACK_PATH],
        // A load balancer must see that this server is stopping, and why.
        shutdownPaths: [READY_PATH],
        headers,
        handler: (request, response) => {
          // A closed response emits no `close` event: if tracked, a stop would wait for it without end.
          if (response.closed) return;
          serving.track(request, response);
          if (serving.isStopping && request.url?.split("?")[0] !== READY_PATH) refuse(response, SHUTTING_DOWN_REFUSAL);
          else
            loadApp(host.userOf?.(request)).then(
              (handle) => void (response.closed || handle(request, response)),
              onLoadError(response),
            );
        },
        refuse: (_request, response, refusal) => refuse(response, refusal),
      });
      // The first request reports errors of this preload.
      setImmediate(() => {
        loadApp(undefined).catch(() => undefined);
        void agent.prepare();
      });
      return serving;
    } catch (error) {
      await ownHost?.close(AbortSignal.abort());
      throw error;
    }
  }

  /** Returns the function that loads the endpoints for a user, or for requests without a user. */
  #createLoader(agent: Agent, createApp: CreateApp): (user: User | undefined) => Promise<RequestListener> {
    // Loading Koa takes half of the start-up time: load it while the first client connects.
    let commonApp: Promise<RequestListener> | undefined;
    let userApps: Promise<UserApps> | undefined;
    return async (user) => {
      if (!user) return (commonApp ??= createApp(agent, this.#options));
      userApps ??= import("./user-apps.js").then(({ UserApps }) => new UserApps(agent, this.#options, createApp));
      return (await userApps).load(user);
    };
  }

  async #createApp(
    agent: Agent,
    options: KoaHttpOptions,
    host: HttpHost,
    serving: HttpServing,
    headers: Readonly<Record<string, string>>,
    requiredHeaders: KoaHttpOptions["requiredHeaders"],
  ): Promise<RequestListener> {
    const { createApp } = await import("./app.js");
    return createApp({
      agent,
      options,
      headers,
      logger: this.#logger,
      authHeaderNames: host.authHeaderNames(requiredHeaders),
      isFromPerson: (request) => host.isFromPerson(request, requiredHeaders),
      isLoopback: () => host.isLoopback,
      reserveStreamSlot: () => host.reserveStreamSlot(),
      isOverloaded: () => host.isOverloaded?.() ?? false,
      stopSignal: serving.stopSignal,
      shutdownSignal: serving.shutdown,
    });
  }
}
