import type { Socket } from "node:net";
import type { Dispatcher } from "undici";
import { whoseServer } from "../http/find-server-owner.js";
import { ConfigError } from "../ports/errors.js";

/** Looks at a connection before anything is sent on it; rejects with `ConfigError` where nothing shall be. */
export type CheckServer = (socket: Socket) => Promise<void>;

/** Where the server is down, anybody may have its port: headers are for nobody else, and nobody else is believed. */
export function refuserOf(origin: string, hasHeaders: boolean): CheckServer {
  return async (socket) => {
    const whose = await whoseServer(socket);
    const wayOut = "nothing was sent to it; say --any-user if it is your server all the same";
    if (typeof whose === "object")
      throw new ConfigError(`what listens at ${origin} is a process of another user (uid ${whose.uid}): ${wayOut}`);
    if (whose === "unknown" && hasHeaders)
      throw new ConfigError(`it cannot be told whose process listens at ${origin}: ${wayOut}`);
  };
}

/** `fetch` over connections of which each is checked when it is made; `close` ends them. */
export async function checkedFetch(
  check: CheckServer,
): Promise<{ fetch: typeof globalThis.fetch; close: () => Promise<void> }> {
  // By its default export: of a CommonJS package a bundle knows no names.
  const { Agent, buildConnector, fetch } = (await import("undici")).default;
  const connect = buildConnector({});
  const dispatcher: Dispatcher = new Agent({
    connect: (target, done) =>
      connect(target, (error, socket) => {
        if (error || !socket) return done(error ?? new Error("no socket"), null);
        check(socket).then(
          () => done(null, socket),
          (refused: Error) => {
            socket.destroy();
            done(refused, null);
          },
        );
      }),
  });
  const asked = (input: string | URL, init?: RequestInit) =>
    fetch(input, { ...(init as Parameters<typeof fetch>[1]), dispatcher });
  // That of Node is of the same package.
  return { fetch: asked as unknown as typeof globalThis.fetch, close: () => dispatcher.destroy() };
}

/** Why a request that was made so was refused before it was sent; undefined where it was not. */
export function refusalIn(error: unknown): ConfigError | undefined {
  for (let one = error; one instanceof Error; one = one.cause) if (one instanceof ConfigError) return one;
  return undefined;
}
