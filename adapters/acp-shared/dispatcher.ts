import type { Logger } from "gantry";
import { isRecord } from "gantry/plugin";
import { requestCancelled, RpcError, toRpcError } from "./errors.js";
import { parseFrame, type ClientFrame } from "./frames.js";
import {
  CODES,
  METHODS,
  type ErrorObject,
  type OutgoingMessage,
  type RequestId,
  type ResponseMessage,
} from "./wire.js";

/** Output of a connection. */
export interface Sink {
  /** Sends a message; never throws. `sessionId`: the session of the message as the client knows it. */
  send(message: OutgoingMessage, sessionId: string | undefined): void;
  /** Resolves when more can be sent without filling the buffer; undefined if it can be sent now. Never rejects. */
  ready(sessionId: string | undefined): Promise<void> | undefined;
  /**
   * Resolves when the client can read the session's updates; undefined if it reads now. Never rejects. Earlier messages
   * are buffered.
   */
  reader(sessionId: string): Promise<void> | undefined;
  /** Whether the client has an open stream or socket. `AcpConnection.reachChanged` is called when this changes. */
  readonly isReachable: boolean;
}

/** Context of a request for its handler. */
export interface RequestContext {
  /** Aborts when the client cancels the request or the connection ends. */
  readonly signal: AbortSignal;
  /** Calls `what` directly after the answer is sent, if the handler succeeds. */
  after(what: () => void): void;
}

/** Handlers of a connection. They start in the order of the frames and then run concurrently. */
export interface Handlers {
  /** Returns the result; a rejection becomes an error response. */
  request(method: string, params: unknown, context: RequestContext): Promise<unknown>;
  notification(method: string, params: unknown): Promise<void> | void;
  /** Whether the method answers a cancel with its own result instead of the error -32800. */
  answersCancel(method: string): boolean;
}

/** A request to the client. */
export interface ClientRequestOptions {
  /** Its abort cancels the request at the client and rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
  /** Timeout in ms; default 30,000. */
  timeoutMs?: number | undefined;
}

interface Pending {
  resolve(result: unknown): void;
  reject(error: unknown): void;
}

const CALL_TIMEOUT_MS = 30_000;

/**
 * JSON-RPC 2.0 on one connection: envelopes, ids, cancels, and requests in both directions. Independent of transport
 * and methods.
 */
export class Dispatcher {
  readonly #sink: Sink;
  readonly #handlers: Handlers;
  readonly #logger: Logger;
  readonly #maxDepth: number;
  /** Requests by type and value of the id; clients may reuse an id while it is active. */
  readonly #incoming = new Map<string, Set<AbortController>>();
  readonly #outgoing = new Map<RequestId, Pending>();
  readonly #closing = new AbortController();
  #lastId = 0;
  #unanswered = 0;
  #idle: (() => void)[] = [];

  constructor(parts: { sink: Sink; handlers: Handlers; logger: Logger; maxDepth: number }) {
    this.#sink = parts.sink;
    this.#handlers = parts.handlers;
    this.#logger = parts.logger;
    this.#maxDepth = parts.maxDepth;
  }

  /** Number of unanswered requests. */
  get unanswered(): number {
    return this.#unanswered;
  }

  /** Handles one text frame. Never throws; an invalid message is answered with an error. */
  receive(text: string, sessionId?: string): void {
    this.receiveFrame(parseFrame(text, this.#maxDepth), sessionId);
  }

  /** Handles one frame. `sessionId`: the session of the frame according to the transport. */
  receiveFrame(frame: ClientFrame, sessionId?: string): void {
    if (this.#closing.signal.aborted) return;
    switch (frame.kind) {
      case "invalid":
        this.#fail(frame.answer);
        this.#sink.send(frame.answer, sessionId);
        break;
      case "request": {
        const route = sessionId ?? sessionIdOf(frame.params);
        this.#unanswered += 1;
        // Sent in the same tick, so that an update from before the result cannot arrive after it.
        void this.#answer(frame, (answer) => this.#send(answer, route)).then(() => this.#answered());
        break;
      }
      case "notification":
        this.#handleNotification(frame.method, frame.params);
        break;
      case "response":
        this.#take(frame.id)?.resolve(frame.result);
        break;
      case "failure":
        this.#take(frame.id)?.reject(clientError(frame.error));
    }
  }

  /** Handles a request and returns the answer instead of sending it to the sink. */
  async call(frame: Extract<ClientFrame, { kind: "request" }>): Promise<ResponseMessage> {
    let answer: ResponseMessage | undefined;
    this.#unanswered += 1;
    await this.#answer(frame, (message) => (answer = message));
    this.#answered();
    return answer ?? { jsonrpc: "2.0", id: frame.id, error: requestCancelled().toObject() };
  }

  /** Sends a request to the client. Rejects with `RpcError` if it refuses, does not answer in time, or disconnects. */
  request(method: string, params: unknown, options: ClientRequestOptions = {}): Promise<unknown> {
    const { signal, timeoutMs = CALL_TIMEOUT_MS } = options;
    if (this.#closing.signal.aborted) return Promise.reject(new RpcError(CODES.internal, "the client is gone"));
    if (signal?.aborted) return Promise.reject(asError(signal.reason));
    // The prefix keeps these ids distinct from ids that clients generate.
    const id = `gantry-${(this.#lastId += 1)}`;
    return new Promise<unknown>((resolve, reject) => {
      const end = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", onAbort);
        this.#closing.signal.removeEventListener("abort", onClose);
        this.#outgoing.delete(id);
      };
      const giveUp = (error: unknown) => {
        end();
        this.#send({ jsonrpc: "2.0", method: METHODS.cancelRequest, params: { requestId: id } }, sessionIdOf(params));
        reject(asError(error));
      };
      const onAbort = () => giveUp(signal?.reason);
      const onClose = () => {
        end();
        reject(new RpcError(CODES.internal, "the client is gone"));
      };
      const timer = setTimeout(
        () => giveUp(new RpcError(CODES.internal, `the client did not answer ${method} in time`)),
        timeoutMs,
      );
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#closing.signal.addEventListener("abort", onClose, { once: true });
      this.#outgoing.set(id, {
        resolve: (result) => (end(), resolve(result)),
        reject: (error) => (end(), reject(asError(error))),
      });
      this.#send({ jsonrpc: "2.0", id, method, params }, sessionIdOf(params));
    });
  }

  /** Sends a notification to the client. */
  notify(method: string, params: unknown): void {
    this.#send({ jsonrpc: "2.0", method, params }, sessionIdOf(params));
  }

  /** Resolves when all requests are answered. */
  idle(): Promise<void> {
    if (this.#unanswered === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  /** Cancels every request of the client; each is still answered. */
  cancelAll(): void {
    for (const controllers of this.#incoming.values())
      for (const controller of controllers) controller.abort(requestCancelled());
  }

  /** Cancels everything in both directions and sends nothing more. */
  close(): void {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort();
    this.cancelAll();
  }

  #send(message: OutgoingMessage, sessionId: string | undefined): void {
    if (!this.#closing.signal.aborted) this.#sink.send(message, sessionId);
  }

  /** Never rejects. */
  async #answer(
    frame: Extract<ClientFrame, { kind: "request" }>,
    respond: (answer: ResponseMessage) => void,
  ): Promise<void> {
    const { id, method } = frame;
    const controller = new AbortController();
    const key = keyOf(id);
    const controllers = this.#incoming.get(key) ?? new Set();
    this.#incoming.set(key, controllers.add(controller));
    const afterAnswer: (() => void)[] = [];
    try {
      const { signal } = controller;
      const work = this.#perform(method, frame.params, { signal, after: (what) => void afterAnswer.push(what) });
      const result = await (this.#handlers.answersCancel(method) ? work : withCancellation(work, signal));
      respond({ jsonrpc: "2.0", id, result });
      for (const what of afterAnswer) what();
    } catch (error) {
      respond({ jsonrpc: "2.0", id, error: toRpcError(error, this.#logger).toObject() });
    } finally {
      controllers.delete(controller);
      if (controllers.size === 0) this.#incoming.delete(key);
    }
  }

  #perform(method: string, params: unknown, context: RequestContext): Promise<unknown> {
    if (method === METHODS.cancelRequest || method === METHODS.legacyCancelRequest) {
      this.#handleNotification(method, params);
      return Promise.resolve(null);
    }
    return this.#handlers.request(method, params, context);
  }

  #handleNotification(method: string, params: unknown): void {
    if (method === METHODS.legacyCancelRequest) return;
    if (method === METHODS.cancelRequest) {
      const id = isRecord(params) ? params.requestId : undefined;
      const controllers = this.#incoming.get(keyOf(id));
      for (const controller of [...(controllers ?? [])]) controller.abort(requestCancelled());
      return;
    }
    const failed = (error: unknown) => {
      // Notifications have no answer, and errors of the client are not logged.
      if (!(error instanceof RpcError)) this.#logger.error("a notification failed", { method, error });
    };
    try {
      const work = this.#handlers.notification(method, params);
      if (work instanceof Promise) work.catch(failed);
    } catch (error) {
      failed(error);
    }
  }

  #answered(): void {
    this.#unanswered -= 1;
    if (this.#unanswered > 0) return;
    for (const resolve of this.#idle.splice(0)) resolve();
  }

  #take(id: RequestId): Pending | undefined {
    const pending = this.#outgoing.get(id);
    this.#outgoing.delete(id);
    return pending;
  }

  /** An invalid response still ends the request that it names. */
  #fail(answer: ResponseMessage): void {
    if (answer.id === null) return;
    this.#take(answer.id)?.reject(new RpcError(CODES.internal, "the client answered with no valid response"));
  }
}

/** The session id in a message's params; undefined if there is none. */
export function sessionIdOf(params: unknown): string | undefined {
  return isRecord(params) && typeof params.sessionId === "string" ? params.sessionId : undefined;
}

function keyOf(id: unknown): string {
  return `${typeof id}:${String(id)}`;
}

function clientError(error: ErrorObject): RpcError {
  return new RpcError(error.code, error.message, error.data);
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new RpcError(CODES.internal, String(error));
}

/** The result of the work, or error -32800 as soon as the signal aborts. */
function withCancellation<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(requestCancelled());
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}
