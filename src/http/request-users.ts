import { stat } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { BlockList, isIP } from "node:net";
import type { Duplex } from "node:stream";
import { monotonicMs } from "../base/clock.js";
import { ListenError } from "../ports/errors.js";
import type { Refusal } from "../ports/http-host.js";
import type { Logger } from "../ports/logger.js";
import type { User } from "../ports/user.js";
import { checkUserName, hashToken, LOCAL_USER_NAME, readTokenFile, type UserToken } from "./token-file.js";
import { getHeaderValues } from "./web-safety.js";

/** How a listener identifies users. */
export interface UserOptions {
  /** File with the tokens of users, which `gantry token` writes. Undefined: no tokens. */
  tokenFile?: string | undefined;
  /** Header in which a reverse proxy names the user that it has authenticated. Only with `trustedProxies`. */
  trustedUserHeader?: string | undefined;
  /** IP addresses and networks (`10.0.0.0/8`) from which `trustedUserHeader` is believed. */
  trustedProxies?: readonly string[] | undefined;
}

/** Interval of the checks whether the file has changed or a token has expired, in ms. A revoke ends streams after it. */
const CHECK_INTERVAL_MS = 400;
const MINUTE_MS = 60_000;
/** Maximum number of users without a token. Beyond it, the least recently used ones without connections are forgotten. */
const MAX_PROXY_USERS = 1000;

/** The user who has the token of gantry's home. */
const LOCAL_USER: User = { name: LOCAL_USER_NAME, scopes: ["admin"] };

/** A user with what the listener needs. */
interface KnownUser {
  readonly user: User;
  readonly token: UserToken | undefined;
  /** Connections of the requests that are being answered, and upgraded connections. */
  readonly connections: Set<{ readonly socket: Duplex }>;
  /** Whether the expiry of the token was handled. */
  readonly hasEnded: boolean;
  /** Requests that the user may still make, as of `countedAtMs`. */
  remainingRequests: number;
  countedAtMs: number;
}

const UNAUTHORIZED_HEADERS = { "WWW-Authenticate": "Bearer" };

/** Identifies the users of requests, by their tokens or by a header of a trusted proxy. */
export class RequestUsers {
  readonly #options: UserOptions;
  readonly #logger: Logger;
  readonly #proxies = new BlockList();
  readonly #users = new WeakMap<IncomingMessage, KnownUser>();
  readonly #namedByProxy = new WeakSet<IncomingMessage>();
  readonly #localUser = createKnownUser(LOCAL_USER, undefined);
  #usersByHash = new Map<string, KnownUser>();
  /** Users without a token, whom the proxy has named, the most recently used last. */
  readonly #proxyUsers = new Map<string, KnownUser>();
  /** Message of the last failed read; `""` after a successful one. */
  #lastFailure = "";
  /** Identifies the content of the file that was read last. */
  #fileState = "";
  #timer: NodeJS.Timeout | undefined;
  #check: Promise<void> | undefined;

  private constructor(options: UserOptions, logger: Logger) {
    this.#options = options;
    this.#logger = logger;
    for (const proxy of options.trustedProxies ?? []) addNetwork(this.#proxies, proxy);
  }

  /** Rejects with `ListenError` if the file or an address is invalid. */
  static async open(options: UserOptions, logger: Logger): Promise<RequestUsers> {
    try {
      const users = new RequestUsers(options, logger);
      await users.#load();
      users.#timer = setInterval(() => void (users.#check ??= users.#checkTokens()), CHECK_INTERVAL_MS);
      users.#timer.unref();
      return users;
    } catch (error) {
      throw new ListenError(`the users of the port cannot be read: ${(error as Error).message}`, { cause: error });
    }
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#check;
  }

  /**
   * Identifies the user of a request. Returns a refusal if the request proves none, or exceeds the user's rate.
   * `isLocalToken`: whether the request has the token of gantry's home.
   */
  identify(request: IncomingMessage, isLocalToken: () => boolean): Refusal | undefined {
    const knownUser = this.#find(request, isLocalToken);
    if ("status" in knownUser) return knownUser;
    this.#users.set(request, knownUser);
    return takeRequest(knownUser);
  }

  /** Ends `socket` when the user of the request is revoked, until the returned function is called. */
  track(request: IncomingMessage, socket: Duplex): () => void {
    const knownUser = this.#users.get(request);
    const connection = { socket };
    knownUser?.connections.add(connection);
    return () => void knownUser?.connections.delete(connection);
  }

  /** The user of a request that `identify` has admitted. */
  userOf(request: IncomingMessage): User | undefined {
    return this.#users.get(request)?.user;
  }

  /** Whether a trusted proxy named the user of the request. */
  isNamedByProxy(request: IncomingMessage): boolean {
    return this.#namedByProxy.has(request);
  }

  #isFromProxy({ socket }: IncomingMessage): boolean {
    const address = socket.remoteAddress?.replace(/^::ffff:(?=[\d.]+$)/, "") ?? "";
    const version = isIP(address);
    return version !== 0 && this.#proxies.check(address, version === 6 ? "ipv6" : "ipv4");
  }

  #find(request: IncomingMessage, isLocalToken: () => boolean): KnownUser | Refusal {
    const { trustedUserHeader } = this.#options;
    const names = trustedUserHeader === undefined ? [] : getHeaderValues(request, trustedUserHeader);
    if (names.length > 0 && this.#isFromProxy(request)) {
      this.#namedByProxy.add(request);
      const [name = "", ...otherNames] = names;
      return otherNames.length === 0 ? this.#findProxyUser(name) : createUnauthorized("more than one user header");
    }
    const [, token] = /^Bearer +(\S+)$/i.exec(request.headers.authorization?.trim() ?? "") ?? [];
    if (token === undefined) return createUnauthorized("missing token: send Authorization: Bearer with your token");
    if (isLocalToken()) return this.#localUser;
    const knownUser = this.#usersByHash.get(hashToken(token));
    if (!knownUser) return createUnauthorized("invalid token");
    return isExpired(knownUser) ? createUnauthorized("the token has expired") : knownUser;
  }

  /** A user whom the proxy names has the limits of the token with the same name, or may do all but `admin`. */
  #findProxyUser(name: string): KnownUser | Refusal {
    const tokenUser = [...this.#usersByHash.values()].find(({ user }) => user.name === name);
    if (tokenUser) return isExpired(tokenUser) ? createUnauthorized("the token has expired") : tokenUser;
    try {
      checkUserName(name);
    } catch (error) {
      return createUnauthorized((error as Error).message);
    }
    const knownUser =
      this.#proxyUsers.get(name) ?? createKnownUser({ name, scopes: ["read", "run", "approve"] }, undefined);
    this.#proxyUsers.delete(name);
    this.#forgetProxyUser();
    this.#proxyUsers.set(name, knownUser);
    return knownUser;
  }

  #forgetProxyUser(): void {
    if (this.#proxyUsers.size < MAX_PROXY_USERS) return;
    for (const [name, { connections }] of this.#proxyUsers)
      if (connections.size === 0) {
        this.#proxyUsers.delete(name);
        return;
      }
  }

  async #load(): Promise<void> {
    const { tokenFile } = this.#options;
    if (tokenFile === undefined) return;
    const state = await stat(tokenFile).then(
      ({ ino, mtimeMs, size }) => `${ino} ${mtimeMs} ${size}`,
      () => "",
    );
    if (state === this.#fileState && state !== "") return;
    const tokens = await readTokenFile(tokenFile);
    this.#fileState = state;
    const oldUsers = this.#usersByHash;
    this.#usersByHash = new Map(
      tokens.map((token) => {
        const oldUser = oldUsers.get(token.hash);
        const isUnchanged = JSON.stringify(oldUser?.token) === JSON.stringify(token);
        return [token.hash, oldUser && isUnchanged ? oldUser : createKnownUser(token, token)];
      }),
    );
    for (const [hash, oldUser] of oldUsers)
      if (this.#usersByHash.get(hash) !== oldUser) this.#end(oldUser, "a token was revoked or changed");
  }

  async #checkTokens(): Promise<void> {
    try {
      await this.#load();
      this.#lastFailure = "";
    } catch (error) {
      const message = (error as Error).message;
      // The tokens that were read last stay valid. The same failure is logged once.
      if (message !== this.#lastFailure) this.#logger.error("the tokens of users cannot be read", { error });
      this.#lastFailure = message;
    } finally {
      this.#check = undefined;
    }
    for (const [hash, knownUser] of this.#usersByHash) {
      if (!isExpired(knownUser) || knownUser.hasEnded) continue;
      this.#end(knownUser, "a token has expired");
      // The transports keep an agent for each object of a user.
      this.#usersByHash.set(hash, { ...knownUser, user: { ...knownUser.user }, hasEnded: true });
    }
  }

  #end({ user, connections }: KnownUser, message: string): void {
    if (connections.size > 0) this.#logger.info(message, { user: user.name, connections: connections.size });
    for (const { socket } of connections) socket.destroy();
    connections.clear();
  }
}

function createKnownUser(user: User, token: UserToken | undefined): KnownUser {
  const remainingRequests = token?.requestsPerMinute ?? Infinity;
  return { user, token, connections: new Set(), hasEnded: false, remainingRequests, countedAtMs: monotonicMs() };
}

function createUnauthorized(message: string): Refusal {
  return { status: 401, message, code: "unauthorized", headers: UNAUTHORIZED_HEADERS };
}

function isExpired({ token }: KnownUser): boolean {
  return token?.expiresAt !== undefined && Date.parse(token.expiresAt) <= Date.now();
}

/** Counts a request. Returns a refusal if the user has made too many in the last minute. */
function takeRequest(knownUser: KnownUser): Refusal | undefined {
  const limit = knownUser.token?.requestsPerMinute;
  if (limit === undefined) return undefined;
  const nowMs = monotonicMs();
  const refill = ((nowMs - knownUser.countedAtMs) * limit) / MINUTE_MS;
  knownUser.remainingRequests = Math.min(limit, knownUser.remainingRequests + refill);
  knownUser.countedAtMs = nowMs;
  if (knownUser.remainingRequests >= 1) {
    knownUser.remainingRequests -= 1;
    return undefined;
  }
  const delaySeconds = Math.ceil(((1 - knownUser.remainingRequests) * MINUTE_MS) / limit / 1000);
  const message = `more than ${limit} requests in a minute`;
  return { status: 429, message, code: "rate_limited", headers: { "Retry-After": String(delaySeconds) } };
}

/** Adds an address or a network. Throws an `Error` if it is neither. */
function addNetwork(list: BlockList, network: string): void {
  const [address = "", prefix, ...otherArgs] = network.split("/");
  const version = isIP(address);
  const maxPrefix = version === 6 ? 128 : 32;
  const isPrefix = prefix === undefined || (/^\d{1,3}$/.test(prefix) && Number(prefix) <= maxPrefix);
  if (version === 0 || !isPrefix || otherArgs.length > 0)
    throw new Error(
      `the trusted proxy ${JSON.stringify(network)} must be an IP address or a network such as 10.0.0.0/8`,
    );
  list.addSubnet(address, Number(prefix ?? maxPrefix), version === 6 ? "ipv6" : "ipv4");
}
