import { setMaxListeners } from "node:events";
import type { Session } from "gantry";
import { ClientSessions } from "./client-sessions.js";
import { Dispatcher, type RequestContext, type Sink } from "./dispatcher.js";
import { createParamsError, RpcError } from "./errors.js";
import type { ClientFrame } from "./frames.js";
import type { ClientFacts, ConnectionDependencies } from "./open-sessions.js";
import { readInitialize, readParams, readString, type InitializeData } from "./params.js";
import { resolveProfile, type ClientProfile } from "./profile.js";
import { listSessions } from "./session-list.js";
import { ERROR_CODES, METHODS, PROTOCOL_VERSION, type ResponseMessage } from "./wire.js";

type Params = Readonly<Record<string, unknown>>;
type Method = (params: Params, context: RequestContext) => Promise<unknown>;

/** A client: its `initialize` data, its open sessions and all methods. Independent of the transport. */
export class AcpConnection implements ClientFacts {
  readonly #dependencies: ConnectionDependencies;
  readonly #dispatcher: Dispatcher;
  readonly #methods: ReadonlyMap<string, Method>;
  readonly #sessions: ClientSessions;
  readonly #closeController = new AbortController();
  readonly #sink: Sink;
  #client: InitializeData | undefined;
  #removeResponder: (() => void) | undefined;

  constructor(dependencies: ConnectionDependencies, sink: Sink) {
    this.#dependencies = dependencies;
    this.#sink = sink;
    // Each session that waits for models adds a listener.
    setMaxListeners(0, this.#closeController.signal);
    this.#dispatcher = new Dispatcher({
      sink,
      logger: dependencies.logger,
      maxDepth: dependencies.options.jsonDepth,
      handlers: {
        request: (method, params, context) => this.#request(method, params, context),
        notification: (method, params) => this.#notification(method, params),
        answersCancel: (method) => method === METHODS.sessionPrompt,
      },
    });
    const sessions = new ClientSessions(dependencies, this, this.#dispatcher, sink, this.#closeController.signal);
    this.#sessions = sessions;
    const methods = new Map<string, Method>([
      [METHODS.sessionNew, (params, context) => sessions.create(params, context)],
      [METHODS.sessionLoad, (params, context) => sessions.attach(params, context, true)],
      [METHODS.sessionResume, (params, context) => sessions.attach(params, context, false)],
      [METHODS.sessionPrompt, (params, context) => sessions.prompt(params, context)],
      [METHODS.sessionDelete, (params) => sessions.delete(params)],
      [METHODS.sessionClose, (params) => sessions.close(params)],
      [METHODS.sessionList, (params) => listSessions(dependencies.agent, params, this.clientProfile.profile)],
      [METHODS.sessionCancel, (params) => Promise.resolve(sessions.cancel(params))],
      [METHODS.setConfigOption, (params, context) => sessions.setConfigOption(params, context)],
      [METHODS.setMode, (params, context) => sessions.setMode(params, context)],
    ]);
    if (dependencies.options.authMethods.length > 0) {
      methods.set(METHODS.authenticate, (params) => Promise.resolve(this.#authenticate(params)));
    }
    this.#methods = methods;
  }

  get client(): InitializeData | undefined {
    return this.#client;
  }

  get clientProfile(): ClientProfile {
    return resolveProfile(this.#dependencies.options, this.#client);
  }

  /** Number of the client's unanswered requests. */
  get unansweredCount(): number {
    return this.#dispatcher.unansweredCount;
  }

  /** Whether `initialize` succeeded. */
  get isInitialized(): boolean {
    return this.#client !== undefined;
  }

  /** Handles one text frame. Never throws. */
  receive(text: string): void {
    this.#dispatcher.receive(text);
  }

  /** Handles one parsed frame; `sessionId` is the id from the transport, if it has one. */
  receiveFrame(frame: ClientFrame, sessionId?: string): void {
    this.#dispatcher.receiveFrame(frame, sessionId);
  }

  /** Handles a request and returns the answer instead of sending it to the sink. */
  call(frame: Extract<ClientFrame, { kind: "request" }>): Promise<ResponseMessage> {
    return this.#dispatcher.call(frame);
  }

  /** Resolves when every request is answered. */
  waitForIdle(): Promise<void> {
    return this.#dispatcher.waitForIdle();
  }

  /** Cancels every request; prompts are answered with `cancelled`. */
  cancelAll(): void {
    this.#dispatcher.cancelAll();
  }

  /**
   * Call this when the client opens its first stream or socket, or loses the last one. With an open stream or socket,
   * questions of sessions wait for the client.
   */
  updateReachability(): void {
    if (!this.isInitialized || this.#closeController.signal.aborted) return;
    if (this.#sink.isReachable)
      this.#removeResponder ??= this.#dependencies.agent.addResponder((id) => this.#sessions.canAnswer(id));
    else this.#unregisterResponder();
  }

  #unregisterResponder(): void {
    this.#removeResponder?.();
    this.#removeResponder = undefined;
  }

  /**
   * Call this when the client has disconnected: cancels all requests and sends nothing more. Stored messages stay.
   * Resolves when all watches have ended.
   */
  close(): Promise<void> {
    this.#unregisterResponder();
    this.#closeController.abort();
    this.#dispatcher.close();
    return this.#sessions.waitForWatches();
  }

  /** Reports a changed title or setting of a session to the client. */
  reportSession(session: Session): void {
    this.#sessions.reportSession(session);
  }

  /** Call this when a session was deleted. */
  handleDeletion(rootId: string): void {
    this.#sessions.handleDeletion(rootId);
  }

  /** Handles `initialize` before the first await, so that the frames after it find the client initialized. */
  async #request(method: string, params: unknown, context: RequestContext): Promise<unknown> {
    if (method === METHODS.initialize) return this.#initialize(params);
    const perform = this.#methods.get(method);
    if (!perform) throw new RpcError(ERROR_CODES.methodNotFound, `method not found: ${method.slice(0, 100)}`);
    if (!this.isInitialized) throw new RpcError(ERROR_CODES.invalidRequest, "initialize first");
    return perform(readParams(params), context);
  }

  async #notification(method: string, params: unknown): Promise<void> {
    // A cancel must not wait in a queue.
    if (method === METHODS.sessionCancel && this.isInitialized) this.#sessions.cancel(readParams(params));
    else
      await this.#request(method, params, {
        signal: this.#closeController.signal,
        runAfterAnswer: (callback) => callback(),
      });
  }

  #initialize(params: unknown): unknown {
    this.#client = readInitialize(params);
    const { agent, options } = this.#dependencies;
    this.updateReachability();
    return {
      protocolVersion: PROTOCOL_VERSION,
      agentCapabilities: {
        loadSession: true,
        promptCapabilities: { image: true, audio: false, embeddedContext: true },
        mcpCapabilities: { http: true, sse: false },
        sessionCapabilities: { list: {}, delete: {}, resume: {}, close: {}, additionalDirectories: {} },
      },
      agentInfo: { name: "gantry", title: "Gantry", version: agent.version },
      authMethods: options.authMethods,
    };
  }

  /** Checks only the method id: the server's config has the keys of the providers. */
  #authenticate(params: Params): unknown {
    const methodId = readString(params, "methodId");
    if (!this.#dependencies.options.authMethods.some(({ id }) => id === methodId)) {
      throw createParamsError("methodId", "the id of one of authMethods");
    }
    return {};
  }
}
