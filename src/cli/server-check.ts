import type { Socket } from "node:net";
import type { Dispatcher } from "undici";
import { findServerOwner } from "../http/connection-owner.js";
import { ConfigError } from "../ports/errors.js";

/** Checks a connection before data is sent. Rejects with `ConfigError` if the server is not trusted. */
export type ServerCheck = (socket: Socket) => Promise<void>;

/**
 * Returns a check that the server belongs to this user, or runs on another machine. While the server is down, any
 * process can listen on its port, and must not receive the headers.
 */
export function createServerCheck(origin: string, hasHeaders: boolean): ServerCheck {
  return async (socket) => {
    const owner = await findServerOwner(socket);
    const remedy = "nothing was sent; use --any-user if you trust it";
    if (typeof owner === "object")
      throw new ConfigError(`the server at ${origin} belongs to another user (uid ${owner.uid}): ${remedy}`);
    if (owner === "unknown" && hasHeaders)
      throw new ConfigError(`cannot identify the user of the server at ${origin}: ${remedy}`);
  };
}

/** Returns a `fetch` that checks each new connection, and `close`, which ends all connections. */
export async function createCheckedFetch(
  checkServer: ServerCheck,
): Promise<{ fetch: typeof globalThis.fetch; close: () => Promise<void> }> {
  // Use the default export: a bundler cannot see the named exports of a CommonJS package.
  const { Agent, buildConnector, fetch } = (await import("undici")).default;
  const connect = buildConnector({});
  const dispatcher: Dispatcher = new Agent({
    connect: (target, callback) =>
      connect(target, (error, socket) => {
        if (error || !socket) return callback(error ?? new Error("no socket"), null);
        checkServer(socket).then(
          () => callback(null, socket),
          (rejection: Error) => {
            socket.destroy();
            callback(rejection, null);
          },
        );
      }),
  });
  const fetchChecked = (input: string | URL, init?: RequestInit) =>
    fetch(input, { ...(init as Parameters<typeof fetch>[1]), dispatcher });
  // Node's own fetch is from the same package, so the types are compatible.
  return { fetch: fetchChecked as unknown as typeof globalThis.fetch, close: () => dispatcher.destroy() };
}

/** Returns the error of the server check that caused the error of a request; undefined for another cause. */
export function findRejection(error: unknown): ConfigError | undefined {
  for (let cause = error; cause instanceof Error; cause = cause.cause) if (cause instanceof ConfigError) return cause;
  return undefined;
}
