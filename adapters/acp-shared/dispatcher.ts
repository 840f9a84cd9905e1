import type { Logger } from "gantry";
import { isRecord } from "gantry/plugin";
import { createCancelledError, raceCancellation, RpcError } from "./errors.js";
import { toAnswerError } from "./failures.js";
import { parseFrame, type ClientFrame } from "./frames.js";
import {
  ERROR_CODES,
  METHODS,
  type ErrorObject,
  type OutgoingMessage,
  type RequestId,
  type ResponseMessage,
} from "./wire.js";

/** Output of a connection. */
export interface Sink {
  /** Sends a message; never throws. `sessionId`: the client's session id; undefined if the message has no session. */
  send(message: OutgoingMessage, sessionId: string | undefined): void;
  /** Resolves when the buffer can take more messages; undefined if the buffer can take more now. Never rejects. */
  waitUntilReady(sessionId: string | undefined): Promise<void> | undefined;
  /**
   * Resolves when the client has an open stream or socket for the session's updates; undefined if one is open now.
   * Never rejects. Messages sent earlier are buffered.
   */
  waitForReader(sessionId: string): Promise<void> | undefined;
  /** Whether the client has an open stream or socket. Call `AcpConnection.updateReachability` when this changes. */
  readonly isReachable: boolean;
}

/** Context of a request for its handler. */
export interface RequestContext {
  /** Aborts when the client cancels the request or the connection ends. */
  readonly signal: AbortSignal;
  /** Id of the request; undefined for a notification. */
  readonly requestId?: RequestId;
  /** Calls `callback` directly after the answer is sent, if the handler succeeds. */
  runAfterAnswer(callback: () => void): void;
}

/** Handlers of a connection. They start in the order of the frames and then run concurrently. */
export interface Handlers {
  /** Returns the result; a rejection becomes an error response. */
  request(method: string, params: unknown, context: RequestContext): Promise<unknown>;
  notification(method: string, params: unknown): Promise<void> | void;
  /** Whether the method answers a cancel with its own result instead of the error -32800. */
  answersCancel(method: string): boolean;
}

/** Options of a request to the client. */
export interface ClientRequestOptions {
  /** An abort cancels the request at the client; the call then rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
  /** Timeout in ms; default 30,000. */
  timeoutMs?: number | undefined;
}

interface PendingRequest {
  resolve(result: unknown): void;
  reject(error: unknown): void;
}

const REQUEST_TIMEOUT_MS = 30_000;
/** Maximum unanswered requests of one client. Further requests are refused at once, except cancels. */
const MAX_UNANSWERED_REQUESTS = 1_000;

/**
 * JSON-RPC 2.0 on one connection: envelopes, ids, cancels, and requests in both directions. Independent of transport
 * and methods.
 */
export class Dispatcher {
  readonly #sink: Sink;
  readonly #handlers: Handlers;
  readonly #logger: Logger;
  readonly #maxJsonDepth: number;
  /** Controllers of active requests by type and value of the id. Clients may reuse the id of an active request. */
  readonly #controllersByRequestKey = new Map<string, Set<AbortController>>();
  readonly #pendingRequests = new Map<RequestId, PendingRequest>();
  readonly #closeController = new AbortController();
  #lastId = 0;
  #unansweredCount = 0;
  #idleResolvers: (() => void)[] = [];

  constructor(dependencies: { sink: Sink; handlers: Handlers; logger: Logger; maxJsonDepth: number }) {
    this.#sink = dependencies.sink;
    this.#handlers = dependencies.handlers;
    this.#logger = dependencies.logger;
    this.#maxJsonDepth = dependencies.maxJsonDepth;
  }

  /** Number of unanswered requests. */
  get unansweredCount(): number {
    return this.#unansweredCount;
  }

  /** Handles one text frame. Never throws; an invalid message is answered with an error. */
  receive(text: string, sessionId?: string): void {
    this.receiveFrame(parseFrame(text, this.#maxJsonDepth), sessionId);
  }

  /** Handles one frame. `sessionId`: the session id from the transport; undefined if it sends none. */
  receiveFrame(frame: ClientFrame, sessionId?: string): void {
    if (this.#closeController.signal.aborted) return;
    switch (frame.kind) {
      case "invalid":
        this.#rejectPendingRequest(frame.errorResponse);
        this.#sink.send(frame.errorResponse, sessionId);
        break;
      case "request": {
        const routeSessionId = sessionId ?? readSessionId(frame.params);
        this.#unansweredCount += 1;
        // The answer is sent in the tick in which the handler resolves, so that no later update overtakes it.
        void this.#respond(frame, (answer) => this.#send(answer, routeSessionId)).then(() => this.#recordAnswer());
        break;
      }
      case "notification":
        this.#handleNotification(frame.method, frame.params);
        break;
      case "response":
        this.#takePendingRequest(frame.id)?.resolve(frame.result);
        break;
      case "failure":
        this.#takePendingRequest(frame.id)?.reject(toClientError(frame.error));
    }
  }

  /** Handles a request and returns the answer instead of sending it to the sink. */
  async handleRequest(frame: Extract<ClientFrame, { kind: "request" }>): Promise<ResponseMessage> {
    let answer: ResponseMessage | undefined;
    this.#unansweredCount += 1;
    await this.#respond(frame, (message) => (answer = message));
    this.#recordAnswer();
    return answer ?? { jsonrpc: "2.0", id: frame.id, error: createCancelledError().toObject() };
  }

  /** Sends a request to the client. Rejects with `RpcError` for a refusal, a timeout or a lost connection. */
  request(method: string, params: unknown, options: ClientRequestOptions = {}): Promise<unknown> {
    const { signal, timeoutMs = REQUEST_TIMEOUT_MS } = options;
    if (this.#closeController.signal.aborted)
      return Promise.reject(new RpcError(ERROR_CODES.internal, "the client disconnected"));
    if (signal?.aborted) return Promise.reject(toError(signal.reason));
    // The prefix keeps these ids distinct from ids that clients generate.
    const id = `gantry-${(this.#lastId += 1)}`;
    return new Promise<unknown>((resolve, reject) => {
      const cleanUp = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", onAbort);
        this.#closeController.signal.removeEventListener("abort", onClose);
        this.#pendingRequests.delete(id);
      };
      const cancelRequest = (error: unknown) => {
        cleanUp();
        this.#send({ jsonrpc: "2.0", method: METHODS.cancelRequest, params: { requestId: id } }, readSessionId(params));
        reject(toError(error));
      };
      const onAbort = () => cancelRequest(signal?.reason);
      const onClose = () => {
        cleanUp();
        reject(new RpcError(ERROR_CODES.internal, "the client disconnected"));
      };
      const timer = setTimeout(
        () => cancelRequest(new RpcError(ERROR_CODES.internal, `the client did not answer ${method} in time`)),
        timeoutMs,
      );
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#closeController.signal.addEventListener("abort", onClose, { once: true });
      this.#pendingRequests.set(id, {
        resolve: (result) => (cleanUp(), resolve(result)),
        reject: (error) => (cleanUp(), reject(toError(error))),
      });
      this.#send({ jsonrpc: "2.0", id, method, params }, readSessionId(params));
    });
  }

  /** Sends a notification to the client. */
  notify(method: string, params: unknown): void {
    this.#send({ jsonrpc: "2.0", method, params }, readSessionId(params));
  }

  /** Resolves when all requests are answered. */
  waitForIdle(): Promise<void> {
    if (this.#unansweredCount === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idleResolvers.push(resolve));
  }

  /** Cancels every request of the client; each is still answered. */
  cancelAll(): void {
    for (const controllers of this.#controllersByRequestKey.values())
      for (const controller of controllers) controller.abort(createCancelledError());
  }

  /** Cancels everything in both directions and sends nothing more. */
  close(): void {
    if (this.#closeController.signal.aborted) return;
    this.#closeController.abort();
    this.cancelAll();
  }

  #send(message: OutgoingMessage, sessionId: string | undefined): void {
    if (!this.#closeController.signal.aborted) this.#sink.send(message, sessionId);
  }

  /** Calls the handler, and `respond` with the answer. Never rejects. */
  async #respond(
    frame: Extract<ClientFrame, { kind: "request" }>,
    respond: (answer: ResponseMessage) => void,
  ): Promise<void> {
    const { id, method } = frame;
    const controller = new AbortController();
    const key = toRequestKey(id);
    const controllers = this.#controllersByRequestKey.get(key) ?? new Set();
    this.#controllersByRequestKey.set(key, controllers.add(controller));
    const afterAnswerCallbacks: (() => void)[] = [];
    try {
      const { signal } = controller;
      const work = this.#perform(method, frame.params, {
        signal,
        requestId: id,
        runAfterAnswer: (callback) => void afterAnswerCallbacks.push(callback),
      });
      const result = await (this.#handlers.answersCancel(method) ? work : raceCancellation(work, signal));
      respond({ jsonrpc: "2.0", id, result });
      for (const callback of afterAnswerCallbacks) callback();
    } catch (error) {
      respond({ jsonrpc: "2.0", id, error: toAnswerError(error, this.#logger, id, method).toObject() });
    } finally {
      controllers.delete(controller);
      if (controllers.size === 0) this.#controllersByRequestKey.delete(key);
    }
  }

  #perform(method: string, params: unknown, context: RequestContext): Promise<unknown> {
    if (method === METHODS.cancelRequest || method === METHODS.legacyCancelRequest) {
      this.#handleNotification(method, params);
      return Promise.resolve(null);
    }
    if (this.#unansweredCount > MAX_UNANSWERED_REQUESTS && method !== METHODS.sessionCancel)
      throw new RpcError(ERROR_CODES.internal, "too many unanswered requests", undefined, true);
    return this.#handlers.request(method, params, context);
  }

  #handleNotification(method: string, params: unknown): void {
    if (method === METHODS.legacyCancelRequest) return;
    if (method === METHODS.cancelRequest) {
      const id = isRecord(params) ? params.requestId : undefined;
      const controllers = this.#controllersByRequestKey.get(toRequestKey(id));
      for (const controller of [...(controllers ?? [])]) controller.abort(createCancelledError());
      return;
    }
    const logFailure = (error: unknown) => {
      // Notifications have no answer, and errors of the client are not logged.
      if (!(error instanceof RpcError)) this.#logger.error("notification handler failed", { method, error });
    };
    try {
      const work = this.#handlers.notification(method, params);
      if (work instanceof Promise) work.catch(logFailure);
    } catch (error) {
      logFailure(error);
    }
  }

  #recordAnswer(): void {
    this.#unansweredCount -= 1;
    if (this.#unansweredCount > 0) return;
    for (const resolve of this.#idleResolvers.splice(0)) resolve();
  }

  #takePendingRequest(id: RequestId): PendingRequest | undefined {
    const request = this.#pendingRequests.get(id);
    this.#pendingRequests.delete(id);
    return request;
  }

  /** Rejects the request that an invalid response names. `errorResponse`: the answer to the invalid response. */
  #rejectPendingRequest(errorResponse: ResponseMessage): void {
    if (errorResponse.id === null) return;
    const error = new RpcError(ERROR_CODES.internal, "the client sent an invalid response");
    this.#takePendingRequest(errorResponse.id)?.reject(error);
  }
}

/** The session id in a message's params; undefined if there is none. */
export function readSessionId(params: unknown): string | undefined {
  return isRecord(params) && typeof params.sessionId === "string" ? params.sessionId : undefined;
}

function toRequestKey(id: unknown): string {
  return `${typeof id}:${String(id)}`;
}

function toClientError(error: ErrorObject): RpcError {
  return new RpcError(error.code, error.message, error.data);
}

function toError(error: unknown): Error {
  return error instanceof Error ? error : new RpcError(ERROR_CODES.internal, String(error));
}
