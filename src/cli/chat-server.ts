import { randomBytes } from "node:crypto";
import { createLogger } from "../base/log.js";
import { ConfigError } from "../ports/errors.js";
import { homeFolder, loadConfig, type LoadedConfig } from "../serve/config.js";
import { isLoopback } from "../http/web-safety.js";
import type { FlagsOf } from "./about.js";
import type { chat } from "./about/chat.js";

type ChatFlags = FlagsOf<typeof chat.flags>;

/** The agent that a terminal talks to. */
export interface ChatServer {
  readonly url: string;
  /** Headers that each request carries. */
  readonly headers: Readonly<Record<string, string>>;
  /** Replaces the platform's. */
  readonly fetch?: typeof globalThis.fetch;
  /** Ends an agent of this process; releases the connections to another one. */
  close(): Promise<void>;
}

/**
 * Connects to the server at `address`, or without one starts an agent of this process in `folder`. `tell` gets lines of the
 * log. Rejects with `ConfigError` where config, flags or the server are not as they must be.
 */
export async function openChatServer(
  flags: ChatFlags,
  address: URL | undefined,
  folder: string,
  tell: (line: string) => void,
): Promise<ChatServer> {
  const loaded = await configOf(flags, address);
  if (!address) return serveHere(loaded, folder, (line) => tell(shortOf(line)));
  const headers = headersFor(address, flags.header, loaded);
  const server = await serverAt(address, headers, flags.anyUser === true, tell);
  const { tokenHeaders } = await import("./token-headers.js");
  return { ...server, headers: { ...tokenHeaders(address), ...headers } };
}

/**
 * A server that is there already. Its port may be had by others while it is down: each connection is looked at before anything
 * is sent. Rejects with `ConfigError` where the first one is not to be trusted; of later ones `tell` says so.
 */
async function serverAt(
  { origin }: URL,
  headers: ChatServer["headers"],
  isAnybody: boolean,
  tell: (line: string) => void,
): Promise<ChatServer> {
  if (isAnybody) return { url: origin, headers, close: async () => undefined };
  const { checkedFetch, refusalIn, refuserOf } = await import("./own-server.js");
  const { fetch, close } = await checkedFetch(refuserOf(origin, Object.keys(headers).length > 0));
  let told = "";
  const asked: typeof globalThis.fetch = (input, init) =>
    fetch(input, init).catch((error: unknown) => {
      const { message = "" } = refusalIn(error) ?? {};
      if (message !== "" && message !== told) tell((told = message));
      throw error;
    });
  // A file that does not exist yet is waited for.
  const refusal = await fetch(`${origin}/api/health`).then(
    async ({ body }) => void (await body?.cancel()),
    (error: unknown) => refusalIn(error),
  );
  if (refusal) {
    await close();
    throw refusal;
  }
  return { url: origin, headers, fetch: asked, close };
}

/** The config; of an agent of our own with a port that nobody else gets in by. */
function configOf(flags: ChatFlags, address: URL | undefined): Promise<LoadedConfig> {
  const home = homeFolder();
  const overrides: Record<string, unknown> = address
    ? {}
    : {
        "server.host": "127.0.0.1",
        "server.port": 0,
        "server.transports": ["koa-http-api"],
        "server.required_headers": { Authorization: `Bearer ${randomBytes(32).toString("base64url")}` },
        "server.insecure": false,
      };
  if (flags.sessionDriver !== undefined) overrides["session.driver"] = flags.sessionDriver;
  return loadConfig({ home, ...(flags.config !== undefined && { path: flags.config }), overrides });
}

/** The same agent that `gantry serve` would start here. */
async function serveHere(loaded: LoadedConfig, folder: string, tell: (line: string) => void): Promise<ChatServer> {
  const { compose } = await import("../serve/compose.js");
  const { log, server } = loaded.config;
  const level = log.level === "error" ? "error" : "warn";
  const logger = createLogger({ level, write: tell, secrets: () => loaded.secrets });
  const composition = await compose({ loaded, home: homeFolder(), projectDir: folder, logger });
  const [{ address: url } = { address: "" }] = composition.listening;
  return { url, headers: server.requiredHeaders, close: () => composition.stop() };
}

/** Headers for this address: the given ones; else those of the config, which are for this machine and the host that it names alone. */
function headersFor(
  address: URL,
  given: readonly string[] | undefined,
  { config }: LoadedConfig,
): ChatServer["headers"] {
  const own = isLoopback(address.hostname) || address.hostname === config.server.host;
  const headers: Record<string, string> = own ? { ...config.server.requiredHeaders } : {};
  for (const line of given ?? []) {
    const at = line.indexOf(":");
    if (at < 1) throw new ConfigError("--header: expected NAME:VALUE");
    headers[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  return headers;
}

/** A line of the log as a person at the terminal needs it: without its time and its fields. */
function shortOf(line: string): string {
  return line.replace(/^\S+ (warn|error) /, "").replace(/ \{".*\}$/, "");
}
