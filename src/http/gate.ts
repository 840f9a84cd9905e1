import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { Client, Peers } from "./peers.js";
import { PersonToken } from "./person-token.js";
import { pathOf } from "./target.js";
import type { Logger } from "../ports/logger.js";
import type { HttpMount, Refusal } from "../ports/http-host.js";
import { authenticates, headerFault, isLoopback, refusalOf, upgradeRefusalOf } from "./web-safety.js";

/** Rules for the admission of requests. */
export interface GateOptions {
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
   * Folder, readable only by its user, for the token of the port. Requests reserved for the user need the token if no
   * headers are required. Default: no token.
   */
  tokenFolder?: string | undefined;
}

const OTHER_USER: Refusal = { status: 403, message: "connection of another user refused", code: "other_user" };
const COMMAND: Refusal = {
  status: 403,
  message:
    "request of a command refused: commands, MCP servers and background processes of gantry cannot use its server",
  code: "command_refused",
};
const NAMESPACE = needsToken("from another PID namespace", "namespace_refused");
const UNSEEN = needsToken("of a process that gantry cannot see", "unseen_refused");

function needsToken(client: string, code: string): Refusal {
  const remedy = "send Authorization: Bearer with the token of this server, or open the console with gantry console";
  return { status: 403, message: `request ${client} refused: ${remedy}`, code };
}

/** Whether the request is a GET or HEAD of one of these paths. */
export function isReadOf(request: IncomingMessage, paths: readonly string[] = []): boolean {
  return /^(GET|HEAD)$/.test(request.method ?? "") && paths.includes(pathOf(request));
}

/** Whether the request is for one of these paths. A path that ends with `*` matches every path with that prefix. */
function isAmong(request: IncomingMessage, paths: readonly string[] = []): boolean {
  const path = pathOf(request);
  return paths.some((pattern) => (pattern.endsWith("*") ? path.startsWith(pattern.slice(0, -1)) : path === pattern));
}

/** Whether the browser reports a top-level navigation, such as a link, and not a load, frame or request by a page. */
function isVisit({ method = "", headers }: IncomingMessage): boolean {
  const { "sec-fetch-mode": mode, "sec-fetch-dest": destination, origin } = headers;
  return method === "GET" && mode === "navigate" && destination === "document" && origin === undefined;
}

/** Checks the client of every request to every mount of a port: user, `Host`, page and required headers. */
export class HttpGate {
  readonly #options: GateOptions;
  readonly #boundHost: string;
  readonly #boundAddress: string;
  readonly #logger: Logger;
  /** Whether clients are identified. False if the system cannot identify them, or if all clients must authenticate. */
  readonly #identifies: boolean;
  readonly #clients = new WeakMap<object, { client: Client | undefined; identification: Promise<void> }>();
  #peers: Promise<Peers> | undefined;
  #token: PersonToken | undefined;

  /** `boundAddress` is the address of `boundHost`. */
  constructor(options: GateOptions, boundHost: string, boundAddress: string, logger: Logger) {
    this.#options = options;
    this.#boundHost = boundHost;
    this.#boundAddress = boundAddress;
    const isOpen = isLoopback(boundAddress) || !authenticates(options.requiredHeaders ?? {});
    this.#identifies = isOpen && process.platform === "linux";
    this.#logger = logger;
  }

  /** Whether other users of the machine are rejected. Beyond loopback, `insecure` admits every client. */
  get refusesOtherUsers(): boolean {
    return this.#identifies && isLoopback(this.#boundAddress) && this.#options.allowOtherUsers !== true;
  }

  /** Starts to identify the client of a new connection. */
  add(socket: Socket): void {
    if (!this.#identifies) return;
    const entry: { client: Client | undefined; identification: Promise<void> } = {
      client: undefined,
      identification: Promise.resolve(),
    };
    // Loaded with the first client.
    this.#peers ??= import("./peers.js").then(({ Peers }) => new Peers(this.#logger));
    // A client that cannot be identified because of an error is rejected.
    const identified = this.#peers.then((peers) => peers.identify(socket)).catch((): Client => "gone");
    entry.identification = identified.then((client) => void (entry.client = client));
    this.#clients.set(socket, entry);
  }

  /** Calls `work` when the client of the connection is identified. */
  whenIdentified({ socket }: IncomingMessage, work: () => void): void {
    const entry = this.#clients.get(socket);
    if (entry === undefined || entry.client !== undefined) work();
    else void entry.identification.then(work);
  }

  /** Whether the clients of a mount authenticate. If they do not, their origin is checked. */
  isAuthenticated(mount: HttpMount): boolean {
    return mount.authenticated || (mount.hasOwnChecks !== true && authenticates(this.#required(mount)));
  }

  /** Why a request is rejected before its mount sees it; undefined if it is admitted. */
  refusal(request: IncomingMessage, mount: HttpMount, upgrade: boolean): Refusal | undefined {
    if (mount.hasOwnChecks === true) return undefined;
    const page = isAmong(request, mount.browserPaths);
    const fault = headerFault(request, this.#required(mount));
    // Browser paths do not require headers. A request without them is unauthenticated.
    const authenticated = this.isAuthenticated(mount) && !(page && fault !== undefined);
    const open = isReadOf(request, mount.publicPaths);
    const headerless = isReadOf(request, mount.noHeaderPaths);
    const refusedClient = authenticated || open || headerless ? undefined : this.#clientRefusal(request, page);
    if (refusedClient) return refusedClient;
    const refused = (upgrade ? upgradeRefusalOf : refusalOf)(request, {
      isAuthenticated: authenticated,
      boundHost: this.#boundHost,
      boundAddress: this.#boundAddress,
      allowedHosts: this.#options.allowedHosts ?? [],
      allowCrossSite: this.#options.allowCrossSite === true,
      allowLoopbackPages: this.#options.allowLoopbackPages !== false,
      isPublic: open || (page && isVisit(request)),
      allowedOrigins: mount.allowedOrigins ?? [],
    });
    // CORS preflight requests carry none of the page's headers.
    if (refused || headerless || page || request.method === "OPTIONS") return refused;
    return fault === undefined ? undefined : { status: 401, message: fault, code: "unauthorized" };
  }

  /** Token of the port; undefined if the port has none. Throws the system's error. */
  get token(): PersonToken | undefined {
    const { tokenFolder } = this.#options;
    return tokenFolder === undefined ? undefined : (this.#token ??= new PersonToken(tokenFolder));
  }

  /** Whether the user sent the request, as far as headers prove it. True if nothing on this port can prove it. */
  isOfPerson(request: IncomingMessage, mountHeaders?: Readonly<Record<string, string>>): boolean {
    const required = mountHeaders ?? this.#options.requiredHeaders ?? {};
    if (authenticates(required)) return headerFault(request, required) === undefined;
    // Beyond loopback, `insecure` allows every action to clients on other machines.
    if (this.#clientOf(request) === "remote") return true;
    return this.token?.isIn(request) ?? true;
  }

  /**
   * Returns the token for a page of this server if the client is a process outside gantry's commands, otherwise
   * undefined.
   */
  tokenFor(request: IncomingMessage): string | undefined {
    const client = this.#clientOf(request);
    // Systems other than Linux have no sandbox: a command can read the token's file too.
    return client === "outside" || (client === undefined && !this.#identifies) ? this.token?.value : undefined;
  }

  #clientOf(request: IncomingMessage): Client | undefined {
    return this.#clients.get(request.socket)?.client;
  }

  #clientRefusal(request: IncomingMessage, isPage: boolean): Refusal | undefined {
    const client = this.#clientOf(request);
    if (client === "other_user") return this.refusesOtherUsers ? OTHER_USER : undefined;
    if (client === "command") return COMMAND;
    const isLocal = isLoopback(this.#boundAddress);
    // The client may have been a command.
    if (client === "gone") return isLocal ? OTHER_USER : undefined;
    const isUnseen = client === "unseen" && isLocal;
    if (!isUnseen && client !== "namespace") return undefined;
    return isPage || this.token?.isIn(request) === true ? undefined : isUnseen ? UNSEEN : NAMESPACE;
  }

  #required(mount: HttpMount): Readonly<Record<string, string>> {
    return mount.requiredHeaders ?? this.#options.requiredHeaders ?? {};
  }
}
