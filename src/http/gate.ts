import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { PeerUsers } from "./peers.js";
import { pathOf } from "./target.js";
import type { Logger } from "../ports/logger.js";
import type { HttpMount, Refusal } from "../ports/http-host.js";
import { authenticates, headerFault, isLoopback, refusalOf, upgradeRefusalOf } from "./web-safety.js";

/** Who may come in. */
export interface GateOptions {
  /** Headers that requests of every mount must carry, unless it has its own. Default none. */
  requiredHeaders?: Readonly<Record<string, string>>;
  /** Names that `Host` may have beside loopback ones, bound addresses and the bound host. */
  allowedHosts?: readonly string[];
  /** Serve requests of pages of other sites. */
  allowCrossSite?: boolean;
  /** Serve pages of other ports of this machine; default true. */
  allowLoopbackPages?: boolean;
  /** Serve processes of other users of this machine; default false. */
  allowOtherUsers?: boolean;
}

const OTHER_USER: Refusal = { status: 403, message: "connection of another user refused", code: "other_user" };

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
  /** Undefined where every user is welcome, or none can be told from another. */
  readonly #peers: PeerUsers | undefined;

  /** `boundAddress` is what `boundHost` means. */
  constructor(options: GateOptions, boundHost: string, boundAddress: string, logger: Logger) {
    this.#options = options;
    this.#boundHost = boundHost;
    this.#boundAddress = boundAddress;
    // Beyond loopback, whoever reaches an open port is let in, as its user insisted.
    const apart = isLoopback(boundAddress) && options.allowOtherUsers !== true;
    this.#peers = apart ? PeerUsers.ofThisMachine(logger) : undefined;
  }

  /** Whether other users of the machine are kept out. */
  get tellsUsers(): boolean {
    return this.#peers !== undefined;
  }

  /** A new connection. */
  add(socket: Socket): void {
    this.#peers?.add(socket);
  }

  /** Do it as soon as it is known whose process is connected. */
  whenKnown({ socket }: IncomingMessage, work: () => void): void {
    if (!this.#peers || this.#peers.isTrusted(socket) !== undefined) work();
    else void this.#peers.known(socket).then(work);
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
    if (!authenticated && !open && !headerless && this.#peers?.isTrusted(request.socket) === false) return OTHER_USER;
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

  #required(mount: HttpMount): Readonly<Record<string, string>> {
    return mount.requiredHeaders ?? this.#options.requiredHeaders ?? {};
  }
}
