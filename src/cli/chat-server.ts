import { randomBytes } from "node:crypto";
import { createDeadline } from "../base/abort.js";
import { createLogger } from "../base/log.js";
import { ConfigError } from "../ports/errors.js";
import { getHomeFolder, loadConfig, type LoadedConfig } from "../serve/config.js";
import { isLoopback } from "../http/web-safety.js";
import type { FlagsOf } from "./command-description.js";
import type { chat } from "./descriptions/chat.js";

/** Time for a server to answer the first request, in ms. */
const HEALTH_TIMEOUT_MS = 10_000;

type ChatFlags = FlagsOf<typeof chat.flags>;

/** The agent that the terminal chat uses. */
export interface ChatServer {
  readonly url: string;
  /** Headers of each request. */
  readonly headers: Readonly<Record<string, string>>;
  /** Replaces `globalThis.fetch` for requests to the server. Default: `globalThis.fetch`. */
  readonly fetch?: typeof globalThis.fetch;
  /** Stops an agent in this process, or closes the connections to a running server. */
  close(): Promise<void>;
}

/**
 * Connects to the server at `address`. Without an address, starts an agent for `folder` in this process. `report`
 * receives log lines.
 *
 * Rejects with `ConfigError` if the config, the flags or the server are invalid.
 */
export async function openChatServer(
  flags: ChatFlags,
  address: URL | undefined,
  folder: string,
  report: (line: string) => void,
): Promise<ChatServer> {
  const loadedConfig = await loadChatConfig(flags, address);
  if (!address) return startLocalServer(loadedConfig, folder, (line) => report(shortenLogLine(line)));
  const headers = createHeaders(address, flags.header, loadedConfig);
  const server = await connectToServer(address, headers, flags.anyUser === true, report);
  const { readTokenHeaders } = await import("./token-headers.js");
  return { ...server, headers: { ...readTokenHeaders(address), ...headers } };
}

/**
 * Connects to a running server. While the server is down, any process can listen on its port, so each connection is
 * checked before data is sent.
 *
 * Rejects with `ConfigError` if no server answers, or if the first connection is not trusted. For later connections,
 * `report` receives the reason.
 */
async function connectToServer(
  { origin }: URL,
  headers: ChatServer["headers"],
  allowsAnyUser: boolean,
  report: (line: string) => void,
): Promise<ChatServer> {
  const { createCheckedFetch, findRejection, createServerCheck } = await import("./server-check.js");
  const checkServer = allowsAnyUser
    ? () => Promise.resolve()
    : createServerCheck(origin, Object.keys(headers).length > 0);
  const { fetch, close } = await createCheckedFetch(checkServer);
  let reportedMessage = "";
  const reportingFetch: typeof globalThis.fetch = (input, init) =>
    fetch(input, init).catch((error: unknown) => {
      const { message = "" } = findRejection(error) ?? {};
      if (message !== "" && message !== reportedMessage) report((reportedMessage = message));
      throw error;
    });
  // The first request makes a connection, which is checked.
  try {
    await requestHealth(origin, fetch);
  } catch (error) {
    await close();
    throw findRejection((error as Error).cause) ?? error;
  }
  return { url: origin, headers, fetch: reportingFetch, close };
}

/** Requests the server's health. Rejects with `ConfigError` if no server answers; the cause is the request's error. */
async function requestHealth(origin: string, fetch: typeof globalThis.fetch): Promise<void> {
  const deadline = createDeadline(HEALTH_TIMEOUT_MS);
  try {
    const { body } = await fetch(`${origin}/api/health`, { signal: deadline.signal });
    await body?.cancel();
  } catch (error) {
    throw new ConfigError(
      `no server at ${origin} (${deadline.hasExpired ? "no answer" : describeRequestError(error)}): run gantry serve in the project folder, or check the host and port of --url`,
      { cause: error },
    );
  } finally {
    deadline.clear();
  }
}

/** Returns the system's code of a failed request, which `fetch` reports as the cause; otherwise the message. */
function describeRequestError(error: unknown): string {
  const { cause, message } = error as Error & { cause?: { code?: unknown; message?: string } };
  return typeof cause?.code === "string" ? cause.code : (cause?.message ?? message);
}

/**
 * Loads the config. An agent in this process gets a random port and a random secret, so that no other user can connect.
 */
function loadChatConfig(flags: ChatFlags, address: URL | undefined): Promise<LoadedConfig> {
  const home = getHomeFolder();
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

/** Starts the same agent as `gantry serve` in this folder. */
async function startLocalServer(
  loadedConfig: LoadedConfig,
  folder: string,
  report: (line: string) => void,
): Promise<ChatServer> {
  const { compose } = await import("../serve/compose.js");
  const { log, server } = loadedConfig.config;
  const level = log.level === "error" ? "error" : "warn";
  const logger = createLogger({ level, write: report, secrets: () => loadedConfig.secrets });
  const composition = await compose({ loadedConfig, home: getHomeFolder(), projectDir: folder, logger });
  if (composition.providerNames.every((name) => name === "offline"))
    report("no language model configured; the offline guide answers (connect one with gantry init)");
  const [{ address: url } = { address: "" }] = composition.startedTransports;
  return { url, headers: server.requiredHeaders, close: () => composition.stop() };
}

/**
 * Returns the headers of the config, overridden by the headers of the flags. Headers of the config are sent only to
 * this machine and to the configured host.
 */
function createHeaders(
  address: URL,
  headerFlags: readonly string[] | undefined,
  { config }: LoadedConfig,
): ChatServer["headers"] {
  const canReceiveConfigHeaders = isLoopback(address.hostname) || address.hostname === config.server.host;
  const headers: Record<string, string> = canReceiveConfigHeaders ? { ...config.server.requiredHeaders } : {};
  for (const headerFlag of headerFlags ?? []) {
    const colonIndex = headerFlag.indexOf(":");
    if (colonIndex < 1) throw new ConfigError("--header: expected NAME:VALUE");
    headers[headerFlag.slice(0, colonIndex).trim()] = headerFlag.slice(colonIndex + 1).trim();
  }
  return headers;
}

/** Shortens a log line for the terminal: removes the time and the fields. */
function shortenLogLine(line: string): string {
  return line.replace(/^\S+ (warn|error) /, "").replace(/ \{".*\}$/, "");
}
