import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { ClientKind, ClientLookup } from "./client-lookup.js";
import { PersonToken } from "./person-token.js";
import type { Logger } from "../ports/logger.js";
import type { HttpMount, Refusal } from "../ports/http-host.js";
import type { User, UserScope } from "../ports/user.js";
import type { RequestUsers, UserOptions } from "./request-users.js";
import { authenticates, findHeaderFault, isLoopback, refusalOf, upgradeRefusalOf } from "./web-safety.js";

/** Rules for the admission of requests. */
export interface GateOptions extends UserOptions {
  /** Headers that requests to every mount must carry, unless the mount has its own. Default: none. */
  requiredHeaders?: Readonly<Record<string, string>> | undefined;
  /** Additional names allowed in `Host`, besides loopback names, bound addresses and the bound host. */
  allowedHosts?: readonly string[] | undefined;
  /** Whether to serve requests from pages of other sites. Default false. */
  allowCrossSite?: boolean | undefined;
  /** Whether to serve pages of other ports of this machine. Default true. */
  allowLoopbackPages?: boolean | undefined;
  /** Whether to serve processes of other users of this machine. Default false. */
  allowOtherUsers?: boolean | undefined;
  /**
   * Folder for the token of the HTTP listener, readable only for the user. Requests reserved for the user need the
   * token if no headers are required. Default: no token.
   */
  tokenFolder?: string | undefined;
}

const OTHER_USER_REFUSAL: Refusal = { status: 403, message: "connection of another user refused", code: "other_user" };
const COMMAND_REFUSAL: Refusal = {
  status: 403,
  message:
    "request of a command refused: commands, MCP servers and background processes of gantry cannot use its server",
  code: "command_refused",
};
const NAMESPACE_REFUSAL = createTokenRefusal("from another PID namespace", "namespace_refused");
const UNSEEN_REFUSAL = createTokenRefusal("of a process that gantry cannot see", "unseen_refused");

function createTokenRefusal(clientDescription: string, code: string): Refusal {
  const remedy = "send Authorization: Bearer with the token of this server, or open the console with gantry console";
  return { status: 403, message: `request ${clientDescription} refused: ${remedy}`, code };
}

/** The path of a request, without its query. */
export function pathOf(request: IncomingMessage): string {
  return (request.url ?? "/").split(/[?#]/, 1)[0] ?? "/";
}

/** Whether the request is a GET or HEAD request for one of these paths. */
export function isReadOfPath(request: IncomingMessage, paths: readonly string[] = []): boolean {
  return /^(GET|HEAD)$/.test(request.method ?? "") && paths.includes(pathOf(request));
}

/** Whether the request is for one of these paths. A path that ends with `*` matches every path with that prefix. */
function matchesPath(request: IncomingMessage, paths: readonly string[] = []): boolean {
  const path = pathOf(request);
  return paths.some((pattern) => (pattern.endsWith("*") ? path.startsWith(pattern.slice(0, -1)) : path === pattern));
}

/** Whether a browser opens the path in a tab, for example from a link, and not as a frame or resource of a page. */
function isNavigation({ method = "", headers }: IncomingMessage): boolean {
  const { "sec-fetch-mode": mode, "sec-fetch-dest": destination, origin } = headers;
  return method === "GET" && mode === "navigate" && destination === "document" && origin === undefined;
}

function identifiesUsers({ tokenFile, trustedUserHeader }: UserOptions): boolean {
  return tokenFile !== undefined || trustedUserHeader !== undefined;
}

function hasScope(user: User | undefined, scope: UserScope): boolean {
  return user !== undefined && (user.scopes.includes(scope) || user.scopes.includes("admin"));
}

/** Checks the client of every request to every mount of a listener: user, `Host`, page and required headers. */
export class HttpGate {
  readonly #options: GateOptions;
  readonly #boundHost: string;
  readonly #boundAddress: string;
  readonly #isLoopback: boolean;
  readonly #logger: Logger;
  /** Whether clients are identified. False if the system cannot identify them, or if all clients must authenticate. */
  readonly #identifiesClients: boolean;
  /** Clients by socket. `client` is undefined until `identification` resolves. */
  readonly #clientsBySocket = new WeakMap<object, { client: ClientKind | undefined; identification: Promise<void> }>();
  #lookupPromise: Promise<ClientLookup> | undefined;
  #lookup: ClientLookup | undefined;
  #token: PersonToken | undefined;
  /** Undefined: the listener has no users. */
  #users: RequestUsers | undefined;

  /** `boundAddress` is the address of `boundHost`. */
  constructor(options: GateOptions, boundHost: string, boundAddress: string, logger: Logger) {
    this.#options = options;
    this.#boundHost = boundHost;
    this.#boundAddress = boundAddress;
    this.#isLoopback = isLoopback(boundAddress);
    const authenticatesAll = authenticates(options.requiredHeaders ?? {}) || identifiesUsers(options);
    const canBeUnauthenticated = this.#isLoopback || !authenticatesAll;
    this.#identifiesClients = canBeUnauthenticated && process.platform === "linux";
    this.#logger = logger;
  }

  /** Whether other users of the machine are rejected. On an address beyond loopback, all users are admitted. */
  get refusesOtherUsers(): boolean {
    return this.#identifiesClients && this.#isLoopback && this.#options.allowOtherUsers !== true;
  }

  get hasUsers(): boolean {
    return this.#users !== undefined;
  }

  /** Reads the users before the listener opens. Rejects with `ListenError`. */
  async open(): Promise<void> {
    if (!identifiesUsers(this.#options) || this.#users) return;
    const { RequestUsers } = await import("./request-users.js");
    this.#users = await RequestUsers.open(this.#options, this.#logger);
  }

  async close(): Promise<void> {
    await this.#users?.close();
  }

  /** Starts to identify the client of a new connection. */
  startIdentification(socket: Socket): void {
    if (!this.#identifiesClients) return;
    const entry: { client: ClientKind | undefined; identification: Promise<void> } = {
      client: undefined,
      identification: Promise.resolve(),
    };
    // The module is loaded with the first client.
    this.#lookupPromise ??= import("./client-lookup.js").then(({ ClientLookup }) => new ClientLookup(this.#logger));
    // A client that cannot be identified because of an error is rejected.
    const identifiedClient = this.#lookupPromise
      .then((lookup) => (this.#lookup = lookup).identify(socket))
      .catch((): ClientKind => "gone");
    entry.identification = identifiedClient.then((client) => void (entry.client = client));
    this.#clientsBySocket.set(socket, entry);
  }

  /**
   * Calls `callback` when the client is identified; at once if the client is already identified or is not looked up.
   */
  whenIdentified({ socket }: IncomingMessage, callback: () => void): void {
    const entry = this.#clientsBySocket.get(socket);
    if (entry === undefined || entry.client !== undefined) callback();
    else void entry.identification.then(callback);
  }

  /** Whether the clients of a mount authenticate. The origin of unauthenticated clients is checked. */
  isAuthenticated(mount: HttpMount): boolean {
    if (mount.authenticated) return true;
    if (mount.hasOwnChecks === true) return false;
    return identifiesUsers(this.#options) || authenticates(this.#requiredHeadersOf(mount));
  }

  /** Why a request is rejected before its mount sees it; undefined if it is admitted. */
  findRefusal(request: IncomingMessage, mount: HttpMount, isUpgrade: boolean): Refusal | undefined {
    if (mount.hasOwnChecks === true) return undefined;
    const isBrowserPath = matchesPath(request, mount.browserPaths);
    const isPublicPath = isReadOfPath(request, mount.publicPaths);
    const needsNoHeaders = isReadOfPath(request, mount.noHeaderPaths);
    const headerMessage = findHeaderFault(request, this.#requiredHeadersOf(mount));
    const needsNoUser = needsNoHeaders || request.method === "OPTIONS";
    const userRefusal = needsNoUser ? undefined : this.#identifyUser(request);
    const hasProof = headerMessage === undefined && userRefusal === undefined;
    // Browser paths do not require headers. A request without the required headers is unauthenticated. So is a request
    // whose user a proxy has named: pages of other sites can send it, because browsers add the cookies of the proxy.
    const isAuthenticated =
      this.isAuthenticated(mount) && !(isBrowserPath && !hasProof) && this.#users?.isNamedByProxy(request) !== true;
    const clientRefusal =
      isAuthenticated || isPublicPath || needsNoHeaders ? undefined : this.#findClientRefusal(request, isBrowserPath);
    if (clientRefusal) return clientRefusal;
    const webRefusal = (isUpgrade ? upgradeRefusalOf : refusalOf)(request, {
      isAuthenticated,
      boundHost: this.#boundHost,
      boundAddress: this.#boundAddress,
      allowedHosts: this.#options.allowedHosts ?? [],
      allowCrossSite: this.#options.allowCrossSite === true,
      allowLoopbackPages: this.#options.allowLoopbackPages !== false,
      isPublic: isPublicPath || (isBrowserPath && isNavigation(request)),
      allowedOrigins: mount.allowedOrigins ?? [],
    });
    // Browsers send CORS preflight requests without the headers that the page sets.
    if (webRefusal || needsNoHeaders || isBrowserPath || request.method === "OPTIONS") return webRefusal;
    if (headerMessage !== undefined) return { status: 401, message: headerMessage, code: "unauthorized" };
    return userRefusal ?? this.#findScopeRefusal(request, mount);
  }

  /** Token of the listener; undefined without `tokenFolder`. Throws the system's error. */
  get token(): PersonToken | undefined {
    const { tokenFolder } = this.#options;
    return tokenFolder === undefined ? undefined : (this.#token ??= new PersonToken(tokenFolder));
  }

  /**
   * Whether headers prove that the user sent the request. True if this listener has neither required headers nor a
   * token, because nothing can prove it.
   */
  isFromPerson(request: IncomingMessage, mountHeaders?: Readonly<Record<string, string>>): boolean {
    const requiredHeaders = mountHeaders ?? this.#options.requiredHeaders ?? {};
    if (authenticates(requiredHeaders) && findHeaderFault(request, requiredHeaders) !== undefined) return false;
    if (this.#users) return hasScope(this.#users.userOf(request), "approve");
    if (authenticates(requiredHeaders)) return true;
    // Beyond loopback, `insecure` allows every action to clients on other machines.
    if (this.#clientOf(request) === "remote") return true;
    return this.token?.isSentIn(request) ?? true;
  }

  /**
   * Returns the token of the listener, for a page of this server. Undefined unless the client is a process outside
   * gantry's commands, and always with users.
   */
  tokenFor(request: IncomingMessage): string | undefined {
    // A proxy on this machine may forward the requests of other people.
    if (this.#users) return undefined;
    const client = this.#clientOf(request);
    // Systems other than Linux have no sandbox: a command can read the token's file too.
    return client === "outside" || (client === undefined && !this.#identifiesClients) ? this.token?.value : undefined;
  }

  /** The user of an admitted request; undefined if the listener has no users. */
  userOf(request: IncomingMessage): User | undefined {
    return this.#users?.userOf(request);
  }

  /** Ends `socket` when the user of an admitted request is revoked, until the returned function is called. */
  endWithUser(request: IncomingMessage, socket: Duplex): () => void {
    return this.#users?.track(request, socket) ?? (() => undefined);
  }

  #identifyUser(request: IncomingMessage): Refusal | undefined {
    return this.#users?.identify(request, () => this.token?.isSentIn(request) === true);
  }

  /** Transports that do not separate users serve only those who may see everything. */
  #findScopeRefusal(request: IncomingMessage, mount: HttpMount): Refusal | undefined {
    const isRefused = this.#users && mount.separatesUsers !== true && !hasScope(this.#users.userOf(request), "admin");
    return isRefused ? { status: 403, message: "the scope admin is required", code: "forbidden" } : undefined;
  }

  #clientOf(request: IncomingMessage): ClientKind | undefined {
    return this.#clientsBySocket.get(request.socket)?.client;
  }

  #findClientRefusal(request: IncomingMessage, isBrowserPath: boolean): Refusal | undefined {
    const client = this.#clientOf(request);
    if (client === "command" || (client === "other_user" && this.refusesOtherUsers)) {
      this.#lookup?.reportRefusal(client);
      return client === "command" ? COMMAND_REFUSAL : OTHER_USER_REFUSAL;
    }
    // A client that has disconnected may have been a command.
    if (client === "gone") return this.#isLoopback ? OTHER_USER_REFUSAL : undefined;
    const isUnseen = client === "unseen" && this.#isLoopback;
    if (!isUnseen && client !== "namespace") return undefined;
    return isBrowserPath || this.token?.isSentIn(request) === true
      ? undefined
      : isUnseen
        ? UNSEEN_REFUSAL
        : NAMESPACE_REFUSAL;
  }

  #requiredHeadersOf(mount: HttpMount): Readonly<Record<string, string>> {
    return mount.requiredHeaders ?? this.#options.requiredHeaders ?? {};
  }
}
