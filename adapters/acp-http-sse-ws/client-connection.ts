import type { ServerResponse } from "node:http";
import {
  CLIENT_METHODS,
  type AcpConnection,
  type AcpServer,
  type OutgoingMessage,
  type Sink,
} from "../acp-shared/index.js";
import { isOverLimit, type QueuedMessage, type Outbox } from "./outbox.js";
import type { SocketOutlet } from "./socket.js";
import { SseOutbox } from "./stream.js";

export interface ClientConnectionOptions {
  /** Unguessable id of the connection. */
  id: string;
  /** IP address of the client. */
  address: string;
  /** Whether the WebSocket gets the updates if no SSE stream is open. */
  websocketUpdates: boolean;
  /**
   * In ms. `heartbeatMs`: interval between comments of a stream. `idleMs`: time without stream, socket and request
   * before the connection is closed.
   */
  heartbeatMs: number;
  idleMs: number;
  /** Time in ms after which a connection that was never used may be closed for a new one. */
  unusedMs: number;
  /** Called once when the connection closes. */
  onClosed: () => void;
}

/** Maximum time for sent messages to reach the client before its streams end, in ms. */
const FLUSH_MS = 500;

/**
 * A client with its SSE streams and optional WebSocket. Streams belong to a session or to the connection. Each message
 * is sent once: on the stream of its session, else on the connection's stream, else when a stream opens.
 */
export class ClientConnection implements Sink {
  readonly id: string;
  readonly address: string;
  readonly acp: AcpConnection;
  readonly #server: AcpServer;
  readonly #options: ClientConnectionOptions;
  /** Streams by session id; the connection's own stream has the key undefined. */
  readonly #streams = new Map<string | undefined, SseOutbox>();
  #undelivered: QueuedMessage[] = [];
  #undeliveredBytes = 0;
  /** Called when a stream or socket opens. */
  #readers: (() => void)[] = [];
  #socket: SocketOutlet | undefined;
  #idle: NodeJS.Timeout | undefined;
  #lastRequestAt = 0;
  #wasUsed = false;
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

  /** Time of the last request, in ms since the epoch. */
  get lastUsedAt(): number {
    return this.#lastRequestAt;
  }

  /**
   * Time since which the connection may be closed for a new one, in ms since the epoch. Undefined if it is in use or
   * was used recently.
   */
  get replaceableSince(): number | undefined {
    if (this.isInUse) return undefined;
    const since = this.#lastRequestAt + (this.#wasUsed ? this.#options.idleMs / 10 : this.#options.unusedMs);
    return since <= Date.now() ? since : undefined;
  }

  /** Records a request: the client is alive. */
  touch(): void {
    // The first call comes from the constructor and is no use.
    this.#wasUsed = this.#lastRequestAt !== 0;
    this.#lastRequestAt = Date.now();
    clearTimeout(this.#idle);
    this.acp.reachChanged();
    if (this.closed || this.isReachable) return;
    this.#idle = setTimeout(() => {
      if (this.acp.unanswered > 0) this.touch();
      else void this.close(1001, "idle");
    }, this.#options.idleMs).unref();
  }

  /** Sends messages over this socket from now on. */
  useSocket(socket: SocketOutlet): void {
    this.#socket = socket;
    this.#notifyReaders();
    this.touch();
  }

  /** Opens the stream of a session or of the connection; replaces an older one. */
  attach(sessionId: string | undefined, response: ServerResponse, onEnd: () => void): void {
    const before = this.#streams.get(sessionId);
    const stream: SseOutbox = new SseOutbox(response, this.#options.heartbeatMs, {
      onClosed: (unsent) => {
        onEnd();
        if (this.#streams.get(sessionId) === stream) this.#streams.delete(sessionId);
        for (const queuedMessage of unsent) this.#deliver(queuedMessage);
        this.touch();
      },
      onOverflow: () => void this.close(1013, "too much unread"),
    });
    this.#streams.set(sessionId, stream);
    // Messages that the old stream did not deliver come first.
    before?.end();
    const sessionMessages = this.#undelivered.filter(
      (queuedMessage) => sessionId === undefined || queuedMessage.sessionId === sessionId,
    );
    this.#undelivered = this.#undelivered.filter((queuedMessage) => !sessionMessages.includes(queuedMessage));
    this.#undeliveredBytes = this.#undelivered.reduce((sum, { bytes }) => sum + bytes, 0);
    for (const queuedMessage of sessionMessages) stream.write(queuedMessage);
    this.#notifyReaders();
    this.touch();
  }

  send(message: OutgoingMessage, sessionId: string | undefined): void {
    if (this.#socket && !this.#isUpdate(message)) {
      this.#socket.write(toQueuedMessage(message, sessionId));
      return;
    }
    this.#deliver(toQueuedMessage(message, sessionId));
  }

  ready(sessionId: string | undefined): Promise<void> | undefined {
    return this.#outlet(sessionId)?.ready();
  }

  reader(sessionId: string): Promise<void> | undefined {
    if (this.closed || this.#outlet(sessionId)) return undefined;
    return new Promise((resolve) => this.#readers.push(resolve));
  }

  /** Closes the connection: cancels its requests, answers them and ends its streams and socket. */
  async finish(): Promise<void> {
    this.acp.cancelAll();
    await this.acp.idle();
    await this.close(1000, "closed");
  }

  /**
   * Ends streams and socket after sent messages are delivered; cancels the client's prompts. May be called repeatedly.
   */
  close(code: number, reason: string): Promise<void> {
    return (this.#closed ??= this.#close(code, reason));
  }

  /** Handles the loss of the socket, which also ends the client. */
  socketLost(): void {
    this.#socket = undefined;
    void this.close(1000, "gone");
  }

  async #close(code: number, reason: string): Promise<void> {
    clearTimeout(this.#idle);
    this.#notifyReaders();
    this.#server.disconnect(this.acp);
    this.#options.onClosed();
    const outlets: Outbox[] = [...this.#streams.values(), ...(this.#socket ? [this.#socket] : [])];
    await Promise.all(outlets.map((outlet) => outlet.flushed(FLUSH_MS)));
    for (const stream of [...this.#streams.values()]) stream.end();
    this.#undelivered = [];
    await this.#socket?.close(code, reason);
  }

  #notifyReaders(): void {
    for (const resolve of this.#readers.splice(0)) resolve();
  }

  #isUpdate(message: OutgoingMessage): boolean {
    return "method" in message && message.method === CLIENT_METHODS.update;
  }

  #deliver(queuedMessage: QueuedMessage): void {
    const outlet = this.#outlet(queuedMessage.sessionId);
    if (outlet) outlet.write(queuedMessage);
    else if (!this.#socket && !this.closed) this.#buffer(queuedMessage);
  }

  /** The stream or socket for messages of a session. With a socket, only updates use this method. */
  #outlet(sessionId: string | undefined): Outbox | undefined {
    const stream = this.#streams.get(sessionId) ?? this.#streams.get(undefined);
    return stream ?? (this.#options.websocketUpdates ? this.#socket : undefined);
  }

  #buffer(queuedMessage: QueuedMessage): void {
    this.#undelivered.push(queuedMessage);
    this.#undeliveredBytes += queuedMessage.bytes;
    if (isOverLimit(this.#undelivered.length, this.#undeliveredBytes)) void this.close(1013, "too much unread");
  }
}

function toQueuedMessage(message: OutgoingMessage, sessionId: string | undefined): QueuedMessage {
  const text = JSON.stringify(message);
  return { text, bytes: Buffer.byteLength(text), sessionId };
}
