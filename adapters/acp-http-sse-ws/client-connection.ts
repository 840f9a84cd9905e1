import type { ServerResponse } from "node:http";
import type { User } from "gantry";
import {
  CLIENT_METHODS,
  type AcpConnection,
  type AcpServer,
  type OutgoingMessage,
  type Sink,
} from "../acp-shared/index.js";
import { isOverLimit, type QueuedMessage, type Outbox } from "./outbox.js";
import type { SocketOutbox } from "./socket.js";
import { SseOutbox } from "./stream.js";
import { CLOSE_CODES } from "./wire.js";

export interface ClientConnectionOptions {
  /** Unguessable id of the connection. */
  id: string;
  /** IP address of the client. */
  address: string;
  /** Undefined: the listener has no users. */
  user: User | undefined;
  /** Whether the WebSocket gets the updates if no SSE stream is open. */
  websocketUpdates: boolean;
  /** Interval between comments of a stream, in ms. */
  heartbeatMs: number;
  /** Time without stream, socket and request before the connection is closed, in ms. */
  idleMs: number;
  /** Time after which a connection that was never used may be closed for a new connection, in ms. */
  unusedMs: number;
  /** Called once when the connection closes. */
  onClosed: () => void;
}

/** Maximum time for sent messages to reach the client before its streams end, in ms. */
const FLUSH_TIMEOUT_MS = 500;
/** A connection without use may be closed for a new connection after `idleMs` divided by this number. */
const REPLACEABLE_IDLE_DIVISOR = 10;

/**
 * A client with its SSE streams and optional WebSocket. Streams belong to a session or to the connection. Each message
 * is sent once: on the stream of its session, else on the connection's stream, else when a stream opens.
 */
export class ClientConnection implements Sink {
  readonly id: string;
  readonly address: string;
  readonly user: User | undefined;
  readonly acp: AcpConnection;
  readonly #server: AcpServer;
  readonly #options: ClientConnectionOptions;
  /** Streams by session id; the connection's own stream has the key undefined. */
  readonly #streamsBySessionId = new Map<string | undefined, SseOutbox>();
  #undeliveredMessages: QueuedMessage[] = [];
  #undeliveredBytes = 0;
  /** Called when a stream or socket opens, or the connection closes. */
  #readerResolvers: (() => void)[] = [];
  #socket: SocketOutbox | undefined;
  #idleTimer: NodeJS.Timeout | undefined;
  #lastRequestAtMs = 0;
  #hasBeenUsed = false;
  #closePromise: Promise<void> | undefined;

  constructor(server: AcpServer, options: ClientConnectionOptions) {
    this.id = options.id;
    this.address = options.address;
    this.user = options.user;
    this.#server = server;
    this.#options = options;
    this.acp = server.connect(this);
    this.recordRequest();
  }

  /** Whether the connection is closed or closing. */
  get isClosed(): boolean {
    return this.#closePromise !== undefined;
  }

  /** Whether a stream or a socket is open, a request is unanswered, or the connection is closed already. */
  get isInUse(): boolean {
    return this.isClosed || this.isReachable || this.acp.unansweredCount > 0;
  }

  get isReachable(): boolean {
    return this.#socket !== undefined || this.#streamsBySessionId.size > 0;
  }

  /** Time of the last request, in ms since the epoch. */
  get lastRequestAtMs(): number {
    return this.#lastRequestAtMs;
  }

  /**
   * Time since which the connection may be closed for a new connection, in ms since the epoch. Undefined if the
   * connection is in use or was used recently.
   */
  get replaceableSinceMs(): number | undefined {
    if (this.isInUse) return undefined;
    const replaceableAtMs =
      this.#lastRequestAtMs +
      (this.#hasBeenUsed ? this.#options.idleMs / REPLACEABLE_IDLE_DIVISOR : this.#options.unusedMs);
    return replaceableAtMs <= Date.now() ? replaceableAtMs : undefined;
  }

  /** Records a request: the client is alive. */
  recordRequest(): void {
    // The constructor makes the first call; it does not count as use.
    this.#hasBeenUsed = this.#lastRequestAtMs !== 0;
    this.#lastRequestAtMs = Date.now();
    clearTimeout(this.#idleTimer);
    this.acp.updateReachability();
    if (this.isClosed || this.isReachable) return;
    this.#idleTimer = setTimeout(() => {
      if (this.acp.unansweredCount > 0) this.recordRequest();
      else void this.close(CLOSE_CODES.goingAway, "idle");
    }, this.#options.idleMs).unref();
  }

  /** Sends messages over this socket from now on. */
  useSocket(socket: SocketOutbox): void {
    this.#socket = socket;
    this.#notifyReaders();
    this.recordRequest();
  }

  /** Opens the stream of a session, or of the connection if `sessionId` is undefined. Replaces an older stream. */
  openStream(sessionId: string | undefined, response: ServerResponse, onEnd: () => void): void {
    const previousStream = this.#streamsBySessionId.get(sessionId);
    const stream: SseOutbox = new SseOutbox(response, this.#options.heartbeatMs, {
      onClosed: (unsentMessages) => {
        onEnd();
        if (this.#streamsBySessionId.get(sessionId) === stream) this.#streamsBySessionId.delete(sessionId);
        for (const queuedMessage of unsentMessages) this.#deliver(queuedMessage);
        this.recordRequest();
      },
      onOverflow: () => void this.close(CLOSE_CODES.tryAgainLater, "too many unread messages"),
    });
    this.#streamsBySessionId.set(sessionId, stream);
    // The old stream's end delivers its unsent messages to the new stream first.
    previousStream?.end();
    const sessionMessages = this.#undeliveredMessages.filter(
      (queuedMessage) => sessionId === undefined || queuedMessage.sessionId === sessionId,
    );
    this.#undeliveredMessages = this.#undeliveredMessages.filter(
      (queuedMessage) => !sessionMessages.includes(queuedMessage),
    );
    this.#undeliveredBytes = this.#undeliveredMessages.reduce((sum, { bytes }) => sum + bytes, 0);
    for (const queuedMessage of sessionMessages) stream.write(queuedMessage);
    this.#notifyReaders();
    this.recordRequest();
  }

  send(message: OutgoingMessage, sessionId: string | undefined): void {
    if (this.#socket && !this.#isUpdate(message)) {
      this.#socket.write(toQueuedMessage(message, sessionId));
      return;
    }
    this.#deliver(toQueuedMessage(message, sessionId));
  }

  waitUntilReady(sessionId: string | undefined): Promise<void> | undefined {
    return this.#findOutbox(sessionId)?.waitUntilReady();
  }

  waitForReader(sessionId: string): Promise<void> | undefined {
    if (this.isClosed || this.#findOutbox(sessionId)) return undefined;
    return new Promise((resolve) => this.#readerResolvers.push(resolve));
  }

  /** Closes the connection: cancels its requests, answers them and ends its streams and socket. */
  async closeGracefully(): Promise<void> {
    this.acp.cancelAll();
    await this.acp.waitForIdle();
    await this.close(CLOSE_CODES.normal, "closed");
  }

  /**
   * Ends streams and socket after sent messages are delivered; cancels the client's prompts. May be called repeatedly.
   */
  close(code: number, reason: string): Promise<void> {
    return (this.#closePromise ??= this.#close(code, reason));
  }

  /** Handles the loss of the socket, which also ends the client. */
  handleSocketLoss(): void {
    this.#socket = undefined;
    void this.close(CLOSE_CODES.normal, "socket closed");
  }

  async #close(code: number, reason: string): Promise<void> {
    clearTimeout(this.#idleTimer);
    this.#notifyReaders();
    this.#server.disconnect(this.acp);
    this.#options.onClosed();
    const outboxes: Outbox[] = [...this.#streamsBySessionId.values(), ...(this.#socket ? [this.#socket] : [])];
    await Promise.all(outboxes.map((outbox) => outbox.waitUntilWritten(FLUSH_TIMEOUT_MS)));
    for (const stream of [...this.#streamsBySessionId.values()]) stream.end();
    this.#undeliveredMessages = [];
    await this.#socket?.close(code, reason);
  }

  #notifyReaders(): void {
    for (const resolve of this.#readerResolvers.splice(0)) resolve();
  }

  #isUpdate(message: OutgoingMessage): boolean {
    return "method" in message && message.method === CLIENT_METHODS.update;
  }

  #deliver(queuedMessage: QueuedMessage): void {
    const outbox = this.#findOutbox(queuedMessage.sessionId);
    if (outbox) outbox.write(queuedMessage);
    else if (!this.#socket && !this.isClosed) this.#bufferMessage(queuedMessage);
  }

  /**
   * The stream or socket for updates of a session; undefined if none is open. Without a socket, also for other
   * messages.
   */
  #findOutbox(sessionId: string | undefined): Outbox | undefined {
    const stream = this.#streamsBySessionId.get(sessionId) ?? this.#streamsBySessionId.get(undefined);
    return stream ?? (this.#options.websocketUpdates ? this.#socket : undefined);
  }

  #bufferMessage(queuedMessage: QueuedMessage): void {
    this.#undeliveredMessages.push(queuedMessage);
    this.#undeliveredBytes += queuedMessage.bytes;
    if (isOverLimit(this.#undeliveredMessages.length, this.#undeliveredBytes))
      void this.close(CLOSE_CODES.tryAgainLater, "too many unread messages");
  }
}

function toQueuedMessage(message: OutgoingMessage, sessionId: string | undefined): QueuedMessage {
  const text = JSON.stringify(message);
  return { text, bytes: Buffer.byteLength(text), sessionId };
}
