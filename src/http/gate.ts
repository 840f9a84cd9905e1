import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { Client, Peers } from "./peers.js";
import { PersonToken } from "./person-token.js";
import { pathOf } from "./target.js";
import type { Logger } from "../ports/logger.js";
import type { HttpMount, Refusal } from "../ports/http-host.js";
import { authenticates, headerFault, isLoopback, refusalOf, upgradeRefusalOf } from "./web-safety.js";

/** Who may come in. */
export interface GateOptions {
  /** Headers that requests of every mount must carry, unless it has its own. Default none. */
  requiredHeaders?: Readonly<Record<string, string>> | undefined;
  /** Names that `Host` may have beside loopback ones, bound addresses and the bound host. */
  allowedHosts?: readonly string[] | undefined;
  /** Serve requests of pages of other sites. */
  allowCrossSite?: boolean | undefined;
  /** Serve pages of other ports of this machine; default true. */
  allowLoopbackPages?: boolean | undefined;
  /** Serve processes of other users of this machine; default false. */
  allowOtherUsers?: boolean | undefined;
  /**
   * Folder, readable by its user alone, for the token of the port: requests that only a person may make need it where no
   * headers are required. Default: there is no token.
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

/** Whether one of these paths is asked for, and nothing to be changed. */
export function gets(request: IncomingMessage, paths: readonly string[] = []): boolean {
  return /^(GET|HEAD)$/.test(request.method ?? "") && paths.includes(pathOf(request));
}

/** Whether one of these paths is asked for; one that ends with `*` is all that begins so. */
function isAmong(request: IncomingMessage, paths: readonly string[] = []): boolean {
  const path = pathOf(request);
  return paths.some((one) => (one.endsWith("*") ? path.startsWith(one.slice(0, -1)) : path === one));
}

/** Whether a browser says that a person goes there, by a link perhaps, and no page loads, frames or sends it. */
function isVisit({ method = "", headers }: IncomingMessage): boolean {
  const { "sec-fetch-mode": mode, "sec-fetch-dest": destination, origin } = headers;
  return method === "GET" && mode === "navigate" && destination === "document" && origin === undefined;
}

/** Every check of who asks, of every mount of a port: the user, the Host, the page, the required headers. */
export class HttpGate {
  readonly #options: GateOptions;
  readonly #boundHost: string;
  readonly #boundAddress: string;
  readonly #logger: Logger;
  /** Whether clients are identified. False where the system cannot, or where all clients must authenticate. */
  readonly #identifies: boolean;
  readonly #clients = new WeakMap<object, { client: Client | undefined; known: Promise<void> }>();
  #peers: Promise<Peers> | undefined;
  #token: PersonToken | undefined;

  /** `boundAddress` is what `boundHost` means. */
  constructor(options: GateOptions, boundHost: string, boundAddress: string, logger: Logger) {
    this.#options = options;
    this.#boundHost = boundHost;
    this.#boundAddress = boundAddress;
    const isOpen = isLoopback(boundAddress) || !authenticates(options.requiredHeaders ?? {});
    this.#identifies = isOpen && process.platform === "linux";
    this.#logger = logger;
  }

  /** Whether other users of the machine are refused. Beyond loopback, `insecure` lets every client in. */
  get refusesOtherUsers(): boolean {
    return this.#identifies && isLoopback(this.#boundAddress) && this.#options.allowOtherUsers !== true;
  }

  /** A new connection. */
  add(socket: Socket): void {
    if (!this.#identifies) return;
    const entry: { client: Client | undefined; known: Promise<void> } = { client: undefined, known: Promise.resolve() };
    // Loaded with the first client.
    this.#peers ??= import("./peers.js").then(({ Peers }) => new Peers(this.#logger));
    // A client that cannot be identified because of an error is refused.
    const identified = this.#peers.then((peers) => peers.identify(socket)).catch((): Client => "gone");
    entry.known = identified.then((client) => void (entry.client = client));
    this.#clients.set(socket, entry);
  }

  /** Calls `work` when the client of the connection is identified. */
  whenKnown({ socket }: IncomingMessage, work: () => void): void {
    const entry = this.#clients.get(socket);
    if (entry === undefined || entry.client !== undefined) work();
    else void entry.known.then(work);
  }

  /** Whether a mount's clients prove who they are; where they do not, it is looked at where they come from. */
  proves(mount: HttpMount): boolean {
    return mount.authenticated || (mount.checksItself !== true && authenticates(this.#required(mount)));
  }

  /** What a request is refused for, before anything of it is looked at by its mount. */
  refusal(request: IncomingMessage, mount: HttpMount, upgrade: boolean): Refusal | undefined {
    if (mount.checksItself === true) return undefined;
    const page = isAmong(request, mount.pages);
    const fault = headerFault(request, this.#required(mount));
    // On a page's path nobody is asked for headers; who has none proves nothing.
    const authenticated = this.proves(mount) && !(page && fault !== undefined);
    const open = gets(request, mount.open);
    const headerless = gets(request, mount.headerless);
    const refusedClient = authenticated || open || headerless ? undefined : this.#clientRefusal(request, page);
    if (refusedClient) return refusedClient;
    const refused = (upgrade ? upgradeRefusalOf : refusalOf)(request, {
      authenticated,
      boundHost: this.#boundHost,
      boundAddress: this.#boundAddress,
      allowedHosts: this.#options.allowedHosts ?? [],
      allowCrossSite: this.#options.allowCrossSite === true,
      allowLoopbackPages: this.#options.allowLoopbackPages !== false,
      open: open || (page && isVisit(request)),
      allowedOrigins: mount.allowedOrigins ?? [],
    });
    // A browser asks for permission without any header of its page's.
    if (refused || headerless || page || request.method === "OPTIONS") return refused;
    return fault === undefined ? undefined : { status: 401, message: fault, code: "unauthorized" };
  }

  /** Undefined where the port has none. Throws the system's error. */
  get token(): PersonToken | undefined {
    const { tokenFolder } = this.#options;
    return tokenFolder === undefined ? undefined : (this.#token ??= new PersonToken(tokenFolder));
  }

  /** Whether a person sent the request, as far as headers prove it. True if nothing on this port can prove it. */
  isOfPerson(request: IncomingMessage, own?: Readonly<Record<string, string>>): boolean {
    const required = own ?? this.#options.requiredHeaders ?? {};
    if (authenticates(required)) return headerFault(request, required) === undefined;
    // Beyond loopback, `insecure` lets clients of other machines do everything.
    if (this.#clientOf(request) === "remote") return true;
    return this.token?.isIn(request) ?? true;
  }

  /** The token, for a page of this server that a process outside of gantry's commands asks for. */
  tokenFor(request: IncomingMessage): string | undefined {
    const client = this.#clientOf(request);
    // On other systems there is no sandbox: a command can read the token's file as well.
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
    // Nothing tells that it was not a command.
    if (client === "gone") return isLocal ? OTHER_USER : undefined;
    const isUnseen = client === "unseen" && isLocal;
    if (!isUnseen && client !== "namespace") return undefined;
    return isPage || this.token?.isIn(request) === true ? undefined : isUnseen ? UNSEEN : NAMESPACE;
  }

  #required(mount: HttpMount): Readonly<Record<string, string>> {
    return mount.requiredHeaders ?? this.#options.requiredHeaders ?? {};
  }
}
