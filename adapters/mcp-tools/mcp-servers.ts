import { silentLogger, type Logger } from "gantry";
import {
  headerSecrets,
  Redactor,
  type OpenTools,
  type ToolServer,
  type ToolServers,
  type ToolSession,
  type ToolSource,
} from "gantry/plugin";
import { serverKey } from "./names.js";
import type { Listing } from "./listing.js";
import type { Pauses } from "./restart-backoff.js";
import type { SharedServer } from "./shared-server.js";
import type { ServerUse } from "./tools.js";

export type { ServerUse } from "./tools.js";

/** Sources that are known again when they are asked for again, and servers whose failures are remembered. */
const KNOWN = 256;

export interface McpServersOptions {
  /** The environment of programs, beside what a server names itself. Default none. */
  env?: Readonly<Record<string, string>> | undefined;
  /** Told to servers; default `0`. */
  version?: string | undefined;
  /** Never to be logged or told. */
  secrets?: Iterable<string> | undefined;
  logger?: Logger | undefined;
}

/** Most of it is loaded with the first server that is opened. */
function code() {
  return Promise.all([
    import("./shared-server.js"),
    import("./tools.js"),
    import("./prompts.js"),
    import("./restart-backoff.js"),
  ]);
}

/**
 * Servers that speak the Model Context Protocol: a source of tools for each, opened with a session's first run. Those who
 * want the same server for the same folder share it; it ends with the last of them.
 */
export class McpServers implements ToolServers {
  readonly #env: Readonly<Record<string, string>>;
  readonly #version: string;
  readonly #secrets: Iterable<string>;
  readonly #logger: Logger;
  readonly #sources = new Map<string, ToolSource>();
  readonly #shared = new Map<string, SharedServer>();
  readonly #pauses = new Map<string, Pauses>();

  constructor({ env = {}, version = "0", secrets = [], logger = silentLogger }: McpServersOptions = {}) {
    this.#env = env;
    this.#version = version;
    this.#secrets = secrets;
    this.#logger = logger;
  }

  source(server: ToolServer, use: ServerUse = {}): ToolSource {
    const known = JSON.stringify([server, use]);
    const source = this.#sources.get(known) ?? {
      name: `mcp:${serverKey(server.name)}`,
      open: async (session: ToolSession, signal: AbortSignal): Promise<OpenTools> =>
        this.#open(server, use, session, signal),
    };
    keep(this.#sources, known, source);
    return source;
  }

  /** What a server offers to a session of this folder. Rejects with why it cannot be had. */
  async listing(server: ToolServer, projectDir: string, signal: AbortSignal): Promise<Listing> {
    const { shared, leave } = await this.#join(server, { sessionId: "", projectDir }, signal);
    const { listing } = shared;
    await leave();
    return listing;
  }

  async #open(server: ToolServer, use: ServerUse, session: ToolSession, signal: AbortSignal): Promise<OpenTools> {
    const [, { toolsOf }, { promptsOf }] = await code();
    const { shared, leave } = await this.#join(server, session, signal);
    const key = serverKey(server.name);
    // The same tools as long as they are the same.
    const made = {
      listing: undefined as Listing | undefined,
      tools: [] as OpenTools["tools"],
      prompts: [] as NonNullable<OpenTools["prompts"]>,
    };
    const now = (): typeof made => {
      const { listing } = shared;
      if (made.listing === listing) return made;
      return Object.assign(made, {
        listing,
        tools: toolsOf(key, shared, listing, use),
        prompts: promptsOf(key, shared, listing),
      });
    };
    return {
      get tools() {
        return now().tools;
      },
      get prompts() {
        return now().prompts;
      },
      close: leave,
    };
  }

  /** A user more of the server, which answers then; `leave` is to be called once. */
  async #join(server: ToolServer, { projectDir }: ToolSession, signal: AbortSignal) {
    const [{ abortable, SharedServer }, , , { Pauses }] = await code();
    const id = JSON.stringify([server, projectDir]);
    const pauses = this.#pauses.get(id) ?? new Pauses();
    keep(this.#pauses, id, pauses);
    const redactor = new Redactor([...this.#secrets, ...secretsOf(server)]);
    const context = {
      server,
      projectDir,
      env: this.#env,
      version: this.#version,
      logger: this.#logger,
      hide: (text: string) => redactor.redact(text),
    };
    const shared = this.#shared.get(id) ?? new SharedServer(context, pauses);
    this.#shared.set(id, shared);
    shared.join();
    const leave = async (): Promise<void> => {
      const left = shared.leave();
      if (shared.unused && this.#shared.get(id) === shared) this.#shared.delete(id);
      await left;
    };
    try {
      await abortable(shared.ready(), signal);
      return { shared, leave };
    } catch (error) {
      if (signal.aborted && (signal.reason as Partial<Error> | undefined)?.name === "TimeoutError") pauses.late();
      // Who gave up does not wait for its end.
      const left = leave();
      signal.throwIfAborted();
      await left;
      throw error instanceof Error ? Object.assign(error, { message: redactor.redact(error.message) }) : error;
    }
  }
}

/** What of a server's definition is secret. */
export function secretsOf(server: ToolServer): string[] {
  if ("command" in server) return headerSecrets(server.env);
  const own = headerSecrets(server.headers);
  if (!URL.canParse(server.url)) return own;
  const { username, password, pathname, searchParams } = new URL(server.url);
  // Some have their key in the path or the query.
  const parts = [...headerSecrets({ ...pathname.split("/") }), ...headerSecrets(Object.fromEntries(searchParams))];
  return [...own, ...parts, username, password].filter((secret) => secret !== "");
}

/** At most so many, those used last. */
function keep<T>(map: Map<string, T>, key: string, value: T): void {
  map.delete(key);
  map.set(key, value);
  for (const [oldest] of map) {
    if (map.size <= KNOWN) return;
    map.delete(oldest);
  }
}
