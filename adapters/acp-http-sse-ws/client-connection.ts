import type { ServerResponse } from "node:http";
import {
  CLIENT_METHODS,
  type AcpConnection,
  type AcpServer,
  type OutgoingMessage,
  type Sink,
} from "../acp-shared/index.js";
import { isTooMuch, type Letter, type Outbox } from "./outbox.js";
import type { SocketOutlet } from "./socket.js";
import { SseStream } from "./stream.js";

export interface ClientConnectionOptions {
  /** Unguessable. */
  id: string;
  /** IP address of the client. */
  address: string;
  /** Whether updates go to the WebSocket where no SSE stream is open. */
  websocketUpdates: boolean;
  /** In ms: between comments of a stream; without stream, socket and request until the connection is closed. */
  heartbeatMs: number;
  idleMs: number;
  /** How long one keeps its place that was made and never used, where places are wanted. */
  unusedMs: number;
  /** Called once. */
  onClosed: () => void;
}

/** What is answered may take so long, in ms, to reach the client before its streams end. */
const FLUSH_MS = 500;

/**
 * One client and all its ways: SSE streams by session, one for the rest, perhaps a WebSocket. Each message goes one
 * way, once: on its session's stream, else the connection's, else it is kept until one opens.
 */
export class ClientConnection implements Sink {
  readonly id: string;
  readonly address: string;
  readonly acp: AcpConnection;
  readonly #server: AcpServer;
  readonly #options: ClientConnectionOptions;
  /** By session; the connection's own under undefined. */
  readonly #streams = new Map<string | undefined, SseStream>();
  #kept: Letter[] = [];
  #keptBytes = 0;
  /** Wait for a way that opens. */
  #readers: (() => void)[] = [];
  #socket: SocketOutlet | undefined;
  #idle: NodeJS.Timeout | undefined;
  #touched = 0;
  #used = false;
  #closed: Promise<void> | undefined;

  constructor(server: AcpServer, options: ClientConnectionOptions) {
    this.id = options.id;
    this.address = options.address;
    this.#server = server;
    this.#options = options;
    this.acp = server.connect(this);
    this.touch();
  }

  get closed(): boolean {
    return this.#closed !== undefined;
  }

  /** Whether a stream or a socket is open, or a request is unanswered. */
  get isInUse(): boolean {
    return this.closed || this.isReachable || this.acp.unanswered > 0;
  }

  get isReachable(): boolean {
    return this.#socket !== undefined || this.#streams.size > 0;
  }

  /** Time of the last request, by the clock in ms. */
  get lastUsedAt(): number {
    return this.#touched;
  }

  /** Since when, by the clock in ms, its place may be given to another; undefined: it is in use, or was just now. */
  get spareSince(): number | undefined {
    if (this.isInUse) return undefined;
    const since = this.#touched + (this.#used ? this.#options.idleMs / 10 : this.#options.unusedMs);
    return since <= Date.now() ? since : undefined;
  }

  /** A request came: the client lives. */
  touch(): void {
    // The first time it is made.
    this.#used = this.#touched !== 0;
    this.#touched = Date.now();
    clearTimeout(this.#idle);
    this.acp.reachChanged();
    if (this.closed || this.isReachable) return;
    this.#idle = setTimeout(() => {
      if (this.acp.unanswered > 0) this.touch();
      else void this.close(1001, "idle");
    }, this.#options.idleMs).unref();
  }

  /** Speak over this socket. */
  useSocket(socket: SocketOutlet): void {
    this.#socket = socket;
    this.#opened();
    this.touch();
  }

  /** Open the stream of a session, or of the connection; an older one for the same is replaced. */
  attach(sessionId: string | undefined, response: ServerResponse, onEnd: () => void): void {
    const before = this.#streams.get(sessionId);
    const stream: SseStream = new SseStream(response, this.#options.heartbeatMs, {
      onClosed: (unsent) => {
        onEnd();
        if (this.#streams.get(sessionId) === stream) this.#streams.delete(sessionId);
        for (const letter of unsent) this.#post(letter);
        this.touch();
      },
      onOverflow: () => void this.close(1013, "too much unread"),
    });
    this.#streams.set(sessionId, stream);
    // What the old one did not get through comes first.
    before?.end();
    const mine = this.#kept.filter((letter) => sessionId === undefined || letter.sessionId === sessionId);
    this.#kept = this.#kept.filter((letter) => !mine.includes(letter));
    this.#keptBytes = this.#kept.reduce((sum, { bytes }) => sum + bytes, 0);
    for (const letter of mine) stream.write(letter);
    this.#opened();
    this.touch();
  }

  send(message: OutgoingMessage, sessionId: string | undefined): void {
    if (this.#socket && !this.#isUpdate(message)) {
      this.#socket.write(letterOf(message, sessionId));
      return;
    }
    this.#post(letterOf(message, sessionId));
  }

  ready(sessionId: string | undefined): Promise<void> | undefined {
    return this.#outlet(sessionId)?.ready();
  }

  reader(sessionId: string): Promise<void> | undefined {
    if (this.closed || this.#outlet(sessionId)) return undefined;
    return new Promise((resolve) => this.#readers.push(resolve));
  }

  /** The client is going: cancel its requests, answer them, then end every way. */
  async finish(): Promise<void> {
    this.acp.cancelAll();
    await this.acp.idle();
    await this.close(1000, "closed");
  }

  /** End every way to the client once it has what was sent; its prompts are cancelled. Safe to call twice. */
  close(code: number, reason: string): Promise<void> {
    return (this.#closed ??= this.#close(code, reason));
  }

  /** The socket is gone: so is the client. */
  lost(): void {
    this.#socket = undefined;
    void this.close(1000, "gone");
  }

  async #close(code: number, reason: string): Promise<void> {
    clearTimeout(this.#idle);
    this.#opened();
    this.#server.disconnect(this.acp);
    this.#options.onClosed();
    const outlets: Outbox[] = [...this.#streams.values(), ...(this.#socket ? [this.#socket] : [])];
    await Promise.all(outlets.map((outlet) => outlet.flushed(FLUSH_MS)));
    for (const stream of [...this.#streams.values()]) stream.end();
    this.#kept = [];
    await this.#socket?.close(code, reason);
  }

  #opened(): void {
    for (const resolve of this.#readers.splice(0)) resolve();
  }

  #isUpdate(message: OutgoingMessage): boolean {
    return "method" in message && message.method === CLIENT_METHODS.update;
  }

  #post(letter: Letter): void {
    const outlet = this.#outlet(letter.sessionId);
    if (outlet) outlet.write(letter);
    else if (!this.#socket && !this.closed) this.#keep(letter);
  }

  /** Where messages of a session go now. Of a connection with a socket this is asked for updates alone. */
  #outlet(sessionId: string | undefined): Outbox | undefined {
    const stream = this.#streams.get(sessionId) ?? this.#streams.get(undefined);
    return stream ?? (this.#options.websocketUpdates ? this.#socket : undefined);
  }

  #keep(letter: Letter): void {
    this.#kept.push(letter);
    this.#keptBytes += letter.bytes;
    if (isTooMuch(this.#kept.length, this.#keptBytes)) void this.close(1013, "too much unread");
  }
}

function letterOf(message: OutgoingMessage, sessionId: string | undefined): Letter {
  const text = JSON.stringify(message);
  return { text, bytes: Buffer.byteLength(text), sessionId };
}
