import { request as httpRequest, type IncomingHttpHeaders } from "node:http";
import { connect, type Socket } from "node:net";
import { once } from "node:events";

export interface RawResponse {
  status: number;
  headers: IncomingHttpHeaders;
  /** Names and values as sent. */
  rawHeaders: string[];
  text: string;
  json(): unknown;
}

export interface RawRequest {
  method?: string;
  headers?: Readonly<Record<string, string | string[]>>;
  body?: string | Uint8Array;
}

/**
 * Sends one request on its own connection with exactly these headers and this path; `fetch` would change headers and
 * path.
 */
export async function sendRawRequest(origin: string, path: string, options: RawRequest = {}): Promise<RawResponse> {
  const { hostname, port } = new URL(origin);
  const { body } = options;
  const request = httpRequest({
    hostname: hostname.replace(/^\[|\]$/g, ""),
    port,
    path,
    method: options.method ?? (body === undefined ? "GET" : "POST"),
    headers: {
      host: `${hostname}:${port}`,
      ...(body === undefined ? {} : { "content-length": String(Buffer.byteLength(body)) }),
      ...options.headers,
    },
    agent: false,
  });
  request.end(body);
  const [response] = (await once(request, "response")) as [import("node:http").IncomingMessage];
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString("utf8");
  const { statusCode = 0, headers, rawHeaders } = response;
  return { status: statusCode, headers, rawHeaders, text, json: () => JSON.parse(text) as unknown };
}

/** A raw connection. */
export class RawConnection {
  readonly socket: Socket;
  /** Resolves when the connection has closed. */
  readonly closed: Promise<void>;
  receivedText = "";
  #waiters: (() => void)[] = [];

  constructor(socket: Socket) {
    this.socket = socket;
    socket.setEncoding("utf8");
    const wakeWaiters = () => {
      for (const resolve of this.#waiters.splice(0)) resolve();
    };
    socket.on("data", (text: string) => {
      this.receivedText += text;
      wakeWaiters();
    });
    socket.on("error", () => undefined);
    this.closed = new Promise((resolve) =>
      socket.once("close", () => {
        resolve();
        wakeWaiters();
      }),
    );
  }

  write(text: string | Uint8Array): this {
    this.socket.write(text);
    return this;
  }

  /** Waits until the received text matches. Rejects if the connection closes first. */
  async waitForText(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const match = pattern.exec(this.receivedText);
      if (match) return match;
      if (this.socket.closed) throw new Error(`closed without ${pattern}: ${JSON.stringify(this.receivedText)}`);
      await new Promise<void>((resolve) => this.#waiters.push(resolve));
    }
  }

  destroy(): void {
    this.socket.destroy();
  }
}

/** Connects to a server, for traffic that no HTTP client would send. */
export async function openConnection(origin: string): Promise<RawConnection> {
  const { hostname, port } = new URL(origin);
  const socket = connect({ host: hostname.replace(/^\[|\]$/g, ""), port: Number(port) });
  const rawConnection = new RawConnection(socket);
  await once(socket, "connect");
  return rawConnection;
}

/** Sends a text unchanged and reads until the server closes. */
export async function exchangeText(origin: string, text: string | Uint8Array): Promise<string> {
  const connection = (await openConnection(origin)).write(text);
  await connection.closed;
  return connection.receivedText;
}

export interface SseEvent {
  event: string;
  // Each test asserts the payload's shape.
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  data: any;
}

/** Parses the events of a complete stream. */
export function parseSseEvents(text: string): SseEvent[] {
  return text
    .split("\n\n")
    .filter((block) => block !== "" && !block.startsWith(":"))
    .map((block) => {
      const [, event = "", data = ""] = /^event: (.*)\ndata: (.*)$/.exec(block) ?? [];
      return { event, data: JSON.parse(data) as unknown };
    });
}
