import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { User } from "./user.js";

/** A rejection by the HTTP host, before the request reaches the handler of a mount. */
export interface Refusal {
  status: number;
  message: string;
  /** Stable code for programs; `message` is for people. */
  code: string;
  headers?: Readonly<Record<string, string>> | undefined;
}

/** The paths and handlers of one transport on a shared HTTP listener. */
export interface HttpMount {
  /** Path prefix, for instance `/api`. `/` takes all paths that no longer prefix matches. */
  readonly prefix: string;
  /** Whether the mount takes paths that no prefix matches if no mount has `/`. */
  readonly fallback: boolean;
  /**
   * Whether the mount authenticates its clients itself, for instance by a signature. Without such authentication and
   * without required headers, the host checks the origin of each request and binds only to loopback addresses.
   */
  readonly authenticated: boolean;
  /** Headers that requests must carry, instead of `server.required_headers`. The host checks them. */
  readonly requiredHeaders?: Readonly<Record<string, string>> | undefined;
  /**
   * Whether the mount itself checks hosts, pages, users and headers. The host then forwards every request unchecked.
   */
  readonly hasOwnChecks?: boolean | undefined;
  /**
   * Complete paths that every client may GET, including pages of other sites. These paths return no secrets and change
   * nothing.
   */
  readonly publicPaths?: readonly string[] | undefined;
  /**
   * Whether the mount serves each request for the user that `HttpHost.userOf` returns. Otherwise it is open only to users
   * with the scope `admin`.
   */
  readonly separatesUsers?: boolean | undefined;
  /** Complete paths that every user of the machine may GET without the required headers. */
  readonly noHeaderPaths?: readonly string[] | undefined;
  /**
   * Paths that people open in a browser, which cannot send the required headers. For such requests the host checks the
   * Host header, the page and the user instead. Links from other sites may lead to these paths. A trailing `*` matches
   * every path with that prefix.
   */
  readonly browserPaths?: readonly string[] | undefined;
  /**
   * Redirect target of a browser's `GET /`; one of `browserPaths`. With a redirect target, `/` is a browser path too.
   * Undefined: the mount with the prefix `/` answers.
   */
  readonly homePath?: string | undefined;
  /** Complete paths that stay available for GET while the listener rejects all other requests before it closes. */
  readonly shutdownPaths?: readonly string[] | undefined;
  /** Origins of pages that may open a socket, besides the server's own and loopback origins. */
  readonly allowedOrigins?: readonly string[] | undefined;
  /**
   * Headers of every response. The host also sends them with its own responses to requests whose mount is not
   * determined yet.
   */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  handler(request: IncomingMessage, response: ServerResponse): void;
  /** Handles an upgrade request to a socket. Undefined: the host rejects it with 404. */
  readonly upgrade?: ((request: IncomingMessage, socket: Duplex, head: Buffer) => void) | undefined;
  /** Sends a refusal in the transport's error format, with its CORS headers. */
  refuse(request: IncomingMessage, response: ServerResponse, refusal: Refusal): void;
}

/**
 * An HTTP listener shared by transports, with its sockets, limits, shutdown and all client checks: the Host header, the
 * page, the user and the required headers. The checks apply to every path.
 */
export interface HttpHost {
  /** Whether the listener is bound to loopback addresses only. */
  readonly isLoopback: boolean;
  /**
   * Serves a mount; the first mount starts the listener. Resolves with the URL's origin when clients can connect.
   * Rejects with `ListenError`.
   */
  mount(mount: HttpMount): Promise<string>;
  /**
   * Returns the names of the required headers, for the CORS preflight. Default of `requiredHeaders`: the listener's.
   * Empty if no required header proves a client, because each may have any value. The purpose of such a header may be
   * that a page cannot send it.
   */
  authHeaderNames(requiredHeaders?: Readonly<Record<string, string>>): readonly string[];
  /**
   * Whether the headers prove that a person sent the request. Proof: the required headers of the mount or listener,
   * otherwise the listener's token. True if the listener has neither.
   */
  isFromPerson(request: IncomingMessage, requiredHeaders?: Readonly<Record<string, string>>): boolean;
  /** The user of a request; pass it to `Agent.forUser`. Undefined: requests have no users. */
  userOf?(request: IncomingMessage): User | undefined;
  /**
   * Token of the listener, for pages of this server. Undefined with users, and if the client may be a command of the
   * agent.
   */
  tokenFor(request: IncomingMessage): string | undefined;
  /**
   * Reserves a slot for a long response, such as an event stream. Returns the function that releases the slot;
   * undefined if all slots are in use.
   */
  reserveStreamSlot(): (() => void) | undefined;
  /**
   * Whether requests that start work should be refused now (503), because the event loop is late. Requests that show or
   * end work are still served. The first call starts the measurement. Undefined: the delay is not measured.
   */
  isOverloaded?(): boolean;
  /** Current numbers of the listener. Undefined: they are not measured. */
  readonly counts?: { readonly connections: number; readonly streams: number };
  /** Rejects new connections and requests (503). */
  stopAccepting(): void;
  /** Closes the listener: idle connections at once, active ones when `signal` aborts. Safe to call twice. */
  close(signal: AbortSignal): Promise<void>;
}
