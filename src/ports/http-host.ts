import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

/** A refusal that an HTTP host makes before a mount sees the request. */
export interface Refusal {
  status: number;
  message: string;
  /** A stable word for programs, beside the message for people. */
  code: string;
  headers?: Readonly<Record<string, string>> | undefined;
}

/** A transport's share of an HTTP port. */
export interface HttpMount {
  /** Path prefix, `/api`; `/` takes what no longer prefix takes. */
  readonly prefix: string;
  /** Takes paths that no prefix matches, when no mount has `/`. */
  readonly fallback: boolean;
  /**
   * Whether its clients prove who they are in a way that the mount checks, a signature say. Without that, and without
   * required headers, the host checks who asks from where, and refuses to bind beyond loopback.
   */
  readonly authenticated: boolean;
  /** Headers that its requests must carry, in place of the port's own (`server.required_headers`); the host checks them. */
  readonly requiredHeaders?: Readonly<Record<string, string>> | undefined;
  /** True: the host lets everything through, and the mount checks hosts, pages, users and headers by itself. */
  readonly checksItself?: boolean | undefined;
  /** Whole paths that anybody may GET, pages of other sites too: what holds no secret and changes nothing. */
  readonly open?: readonly string[] | undefined;
  /** Whole paths that anybody may GET without the required headers, whichever user of the machine asks. */
  readonly headerless?: readonly string[] | undefined;
  /**
   * Paths that people open in a browser, which has none of the required headers: they are served without, and whoever
   * asks so is looked at as if there were none (the Host, the page, the user). A link of another site may lead there. One
   * that ends with `*` stands for all that begins so.
   */
  readonly pages?: readonly string[] | undefined;
  /** Where `GET /` of a browser is sent; the path is one of `pages`, as `/` is then. Without one it goes to whose `/` is. */
  readonly front?: string | undefined;
  /** Whole paths that may be had with GET while the port refuses all else, because it is about to close. */
  readonly lasting?: readonly string[] | undefined;
  /** Origins of pages that may open a socket here, beside the server's own and loopback ones. */
  readonly allowedOrigins?: readonly string[] | undefined;
  /** Headers of every answer; the host sends them too, with what it answers before it knows whose a request is. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  handler(request: IncomingMessage, response: ServerResponse): void;
  /** A request that wants to become a socket; left out: refused with 404. */
  readonly upgrade?: ((request: IncomingMessage, socket: Duplex, head: Buffer) => void) | undefined;
  /** Answer a refusal in the transport's own shape of errors, its CORS headers included. */
  refuse(request: IncomingMessage, response: ServerResponse, refusal: Refusal): void;
}

/**
 * One HTTP port that transports share. It owns sockets, limits, the shutdown of the listener, and every check of who
 * asks: the Host, the page, the user, the required headers. They hold for every path of the port.
 */
export interface HttpHost {
  /** Whether it is bound to a loopback address alone. */
  readonly loopback: boolean;
  /** Serve a mount; the first one opens the port. Resolves with the URL's origin once clients can connect. */
  mount(mount: HttpMount): Promise<string>;
  /**
   * Names of the headers by which clients prove who they are, the port's or a mount's `own`: a preflight may allow them. None
   * where one must only be there: that a page cannot send it may be what it is for.
   */
  provingHeaders(own?: Readonly<Record<string, string>>): readonly string[];
  /**
   * Whether a person sent the request, as far as headers prove it: by the required ones, the port's or a mount's `own`, or
   * by the token of the port. True where the port has neither.
   */
  isOfPerson(request: IncomingMessage, own?: Readonly<Record<string, string>>): boolean;
  /** The token of the port, for pages of this server; undefined if the client may be a command. */
  tokenFor(request: IncomingMessage): string | undefined;
  /** Count an answer that goes on, such as a stream of events; the returned function says that it ended. Undefined: there are too many. */
  takeStream(): (() => void) | undefined;
  /** Take no new connections or requests (503). */
  refuseNew(): void;
  /** Close the port, idle connections at once, the others when `signal` aborts. Safe to call twice. */
  close(signal: AbortSignal): Promise<void>;
}
