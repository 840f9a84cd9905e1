import { silentLogger, type Logger } from "gantry";
import {
  abortable,
  headerSecrets,
  Redactor,
  type OpenTools,
  type McpServer,
  type McpServerFactory,
  type McpServerHttp,
  type ToolSession,
  type ToolSource,
} from "gantry/plugin";
import type { LoginOptions } from "./login.js";
import type { LoginFile } from "./login-file.js";
import { toServerKey } from "./names.js";
import type { Listing } from "./listing.js";
import type { RestartBackoff } from "./restart-backoff.js";
import type { ServerRecord, ServerState } from "./server-record.js";
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
  /** Called with each token of a login that is read or received, so that the caller can redact it. */
  onSecret?: ((secret: string) => void) | undefined;
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

/** A server for which a login can be stored, and the files about it. */
interface KnownServer {
  readonly login: LoginFile | undefined;
  readonly record: ServerRecord;
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
  /** Tokens of logins. */
  readonly #tokens = new Set<string>();
  readonly #onSecret: (secret: string) => void;
  readonly #logger: Logger;
  readonly #sourcesByKey = new Map<string, ToolSource>();
  readonly #sharedServersByKey = new Map<string, SharedServer>();
  readonly #backoffsByKey = new Map<string, RestartBackoff>();
  readonly #knownServersByKey = new Map<string, Promise<KnownServer>>();

  constructor({ env = {}, version = "0", secrets = [], onSecret, logger = silentLogger }: McpServersOptions = {}) {
    this.#env = env;
    this.#version = version;
    this.#secrets = secrets;
    this.#logger = logger;
    this.#onSecret = (secret) => {
      this.#tokens.add(secret);
      onSecret?.(secret);
    };
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
    const { sharedServer, leave } = await this.#joinServer(server, {}, { sessionId: "", projectDir }, signal);
    const { listing } = sharedServer;
    await leave();
    return listing;
  }

  /**
   * Logs a person in to a server and stores the login in `loginFile`, for `ServerUse.loginFile`. Resolves with the
   * server's tools and prompts. Does not store a login if the server needs none. Rejects with `McpServerError`.
   */
  async logIn(
    server: McpServerHttp,
    loginFile: string,
    options: LoginOptions,
    signal: AbortSignal,
  ): Promise<Listing & { hasLoggedIn: boolean }> {
    const [{ McpConnection }, { InteractiveLoginProvider }, { login, record }] = await Promise.all([
      import("./connection.js"),
      import("./login.js"),
      this.#getKnownServer(server, loginFile),
    ]);
    const context = this.#createContext(server, "/");
    const authProvider = new InteractiveLoginProvider(login!, options);
    try {
      const connection = await McpConnection.open(
        {
          ...{ ...context, authProvider, onListChange: () => undefined },
          elicit: () => Promise.resolve({ action: "decline" }),
        },
        signal,
      );
      const listing = await connection.list(signal).finally(() => connection.close());
      record.listing = listing;
      record.recordSuccess();
      return { ...listing, hasLoggedIn: authProvider.hasLoggedIn };
    } catch (error) {
      signal.throwIfAborted();
      throw error instanceof Error ? Object.assign(error, { message: context.hide(error.message) }) : error;
    }
  }

  /** Deletes the stored login to a server. Resolves with false if there is none. Rejects with the system's error. */
  async logOut(server: McpServerHttp, loginFile: string): Promise<boolean> {
    const { login } = await this.#getKnownServer(server, loginFile);
    return login!.delete();
  }

  /** State of a server in this process, without opening it. */
  async state(server: McpServer, { loginFile, tools }: ServerUse = {}): Promise<ServerState> {
    const { record } = await this.#getKnownServer(server, loginFile);
    const state = await record.state(tools);
    return { ...state, reason: this.#createContext(server, "/").hide(state.reason) };
  }

  async #open(server: McpServer, use: ServerUse, session: ToolSession, signal: AbortSignal): Promise<OpenTools> {
    const [, { toolsOf }, { promptsOf }] = await loadImplementation();
    const { sharedServer, leave } = await this.#joinServer(server, use, session, signal);
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
  async #joinServer(
    server: McpServer,
    { loginFile, sampling = false }: ServerUse,
    { projectDir }: ToolSession,
    signal: AbortSignal,
  ) {
    const [{ SharedServer }, , , { RestartBackoff }] = await loadImplementation();
    // A server that a client names never uses the login to a configured server.
    const serverKeyText = JSON.stringify([server, projectDir, loginFile, sampling]);
    const backoff = this.#backoffsByKey.get(serverKeyText) ?? new RestartBackoff();
    cacheRecent(this.#backoffsByKey, serverKeyText, backoff);
    const { login, record } = await this.#getKnownServer(server, loginFile);
    const context = {
      ...this.#createContext(server, projectDir),
      authProvider: login && new (await import("./login.js")).StoredLoginProvider(server.name, login),
      canSample: sampling,
      record,
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
      throw error instanceof Error ? Object.assign(error, { message: context.hide(error.message) }) : error;
    }
  }

  #createContext(server: McpServer, projectDir: string) {
    const redactor = new Redactor(() => [...this.#secrets, ...this.#tokens, ...secretsOf(server)]);
    return {
      server,
      projectDir,
      env: this.#env,
      version: this.#version,
      logger: this.#logger,
      hide: (text: string) => redactor.redact(text),
    };
  }

  #getKnownServer(server: McpServer, loginFile: string | undefined): Promise<KnownServer> {
    const key = JSON.stringify([server, loginFile]);
    const knownServer = this.#knownServersByKey.get(key) ?? this.#createKnownServer(server, loginFile);
    cacheRecent(this.#knownServersByKey, key, knownServer);
    return knownServer;
  }

  async #createKnownServer(server: McpServer, loginFile: string | undefined): Promise<KnownServer> {
    const { ServerRecord } = await import("./server-record.js");
    if (loginFile === undefined || "command" in server)
      return { login: undefined, record: new ServerRecord(undefined) };
    const { LoginFile } = await import("./login-file.js");
    const login = new LoginFile(loginFile, server.url, this.#onSecret);
    return { login, record: new ServerRecord(login) };
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
