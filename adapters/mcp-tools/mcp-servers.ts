import { silentLogger, type Logger } from "gantry";
import {
  abortable,
  headerSecrets,
  Redactor,
  type OpenTools,
  type McpServer,
  type McpServerFactory,
  type ToolSession,
  type ToolSource,
} from "gantry/plugin";
import { toServerKey } from "./names.js";
import type { Listing } from "./listing.js";
import type { RestartBackoff } from "./restart-backoff.js";
import type { SharedServer } from "./shared-server.js";
import type { ServerUse } from "./tools.js";

export type { ServerUse } from "./tools.js";

/** Maximum number of cached tool sources, and of servers with stored failures. */
const MAX_CACHED_SOURCES = 256;

export interface McpServersOptions {
  /** Environment variables of server processes, in addition to the variables of the server's config. Default none. */
  env?: Readonly<Record<string, string>> | undefined;
  /** Client version sent to servers. Default `0`. */
  version?: string | undefined;
  /** Values to redact in logs and errors. */
  secrets?: Iterable<string> | undefined;
  logger?: Logger | undefined;
}

/** Loads the implementation when the first server is opened. */
function loadImplementation() {
  return Promise.all([
    import("./shared-server.js"),
    import("./tools.js"),
    import("./prompts.js"),
    import("./restart-backoff.js"),
  ]);
}

/**
 * Creates a tool source for each MCP server. A source opens with the first run of a session.
 *
 * Sessions share a server if its definition and the project folder are equal. The server stops with the last session.
 */
export class McpServers implements McpServerFactory {
  readonly #env: Readonly<Record<string, string>>;
  readonly #version: string;
  readonly #secrets: Iterable<string>;
  readonly #logger: Logger;
  readonly #sourcesByKey = new Map<string, ToolSource>();
  readonly #sharedServersByKey = new Map<string, SharedServer>();
  readonly #backoffsByKey = new Map<string, RestartBackoff>();

  constructor({ env = {}, version = "0", secrets = [], logger = silentLogger }: McpServersOptions = {}) {
    this.#env = env;
    this.#version = version;
    this.#secrets = secrets;
    this.#logger = logger;
  }

  source(server: McpServer, use: ServerUse = {}): ToolSource {
    const sourceKey = JSON.stringify([server, use]);
    const source = this.#sourcesByKey.get(sourceKey) ?? {
      name: `mcp:${toServerKey(server.name)}`,
      open: async (session: ToolSession, signal: AbortSignal): Promise<OpenTools> =>
        this.#open(server, use, session, signal),
    };
    cacheRecent(this.#sourcesByKey, sourceKey, source);
    return source;
  }

  /** Lists the tools and prompts for a session of this folder. Rejects with the reason if the server is unavailable. */
  async listing(server: McpServer, projectDir: string, signal: AbortSignal): Promise<Listing> {
    const { sharedServer, leave } = await this.#joinServer(server, { sessionId: "", projectDir }, signal);
    const { listing } = sharedServer;
    await leave();
    return listing;
  }

  async #open(server: McpServer, use: ServerUse, session: ToolSession, signal: AbortSignal): Promise<OpenTools> {
    const [, { toolsOf }, { promptsOf }] = await loadImplementation();
    const { sharedServer, leave } = await this.#joinServer(server, session, signal);
    const key = toServerKey(server.name);
    // Keep the same tool objects until the listing changes.
    const cachedLists = {
      listing: undefined as Listing | undefined,
      tools: [] as OpenTools["tools"],
      prompts: [] as NonNullable<OpenTools["prompts"]>,
    };
    const updateLists = (): typeof cachedLists => {
      const { listing } = sharedServer;
      if (cachedLists.listing === listing) return cachedLists;
      return Object.assign(cachedLists, {
        listing,
        tools: toolsOf(key, sharedServer, listing, use),
        prompts: promptsOf(key, sharedServer, listing),
      });
    };
    return {
      get tools() {
        return updateLists().tools;
      },
      get instructions() {
        return sharedServer.listing.instructions;
      },
      get prompts() {
        return updateLists().prompts;
      },
      close: leave,
    };
  }

  /** Registers a user of the server and waits until the server is ready. The caller must call `leave` once. */
  async #joinServer(server: McpServer, { projectDir }: ToolSession, signal: AbortSignal) {
    const [{ SharedServer }, , , { RestartBackoff }] = await loadImplementation();
    const serverKeyText = JSON.stringify([server, projectDir]);
    const backoff = this.#backoffsByKey.get(serverKeyText) ?? new RestartBackoff();
    cacheRecent(this.#backoffsByKey, serverKeyText, backoff);
    const redactor = new Redactor([...this.#secrets, ...secretsOf(server)]);
    const context = {
      server,
      projectDir,
      env: this.#env,
      version: this.#version,
      logger: this.#logger,
      hide: (text: string) => redactor.redact(text),
    };
    const sharedServer = this.#sharedServersByKey.get(serverKeyText) ?? new SharedServer(context, backoff);
    this.#sharedServersByKey.set(serverKeyText, sharedServer);
    sharedServer.join();
    const leave = async (): Promise<void> => {
      const closePromise = sharedServer.leave();
      if (sharedServer.isUnused && this.#sharedServersByKey.get(serverKeyText) === sharedServer)
        this.#sharedServersByKey.delete(serverKeyText);
      await closePromise;
    };
    try {
      await abortable(sharedServer.getConnection(), signal);
      return { sharedServer, leave };
    } catch (error) {
      if (signal.aborted && (signal.reason as Partial<Error> | undefined)?.name === "TimeoutError")
        backoff.recordStartTimeout();
      // An aborted caller does not wait for the shutdown.
      const closePromise = leave();
      signal.throwIfAborted();
      await closePromise;
      throw error instanceof Error ? Object.assign(error, { message: redactor.redact(error.message) }) : error;
    }
  }
}

/** Returns the secret values of a server's definition. */
export function secretsOf(server: McpServer): string[] {
  if ("command" in server) return headerSecrets(server.env);
  const headerValues = headerSecrets(server.headers);
  if (!URL.canParse(server.url)) return headerValues;
  const { username, password, pathname, searchParams } = new URL(server.url);
  // Some services expect the key in the path or the query.
  const urlSecrets = [...headerSecrets({ ...pathname.split("/") }), ...headerSecrets(Object.fromEntries(searchParams))];
  return [...headerValues, ...urlSecrets, username, password].filter((secret) => secret !== "");
}

/** Adds an entry and removes the least recently used entries above the limit. */
function cacheRecent<T>(map: Map<string, T>, key: string, value: T): void {
  map.delete(key);
  map.set(key, value);
  for (const [oldestKey] of map) {
    if (map.size <= MAX_CACHED_SOURCES) return;
    map.delete(oldestKey);
  }
}
