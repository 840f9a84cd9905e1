import { setMaxListeners } from "node:events";
import type { Session } from "gantry";
import { createLoggerWithFields } from "gantry/plugin";
import { ClientSessions } from "./client-sessions.js";
import { Dispatcher, type RequestContext, type Sink } from "./dispatcher.js";
import { authenticate, createAuthRequiredError } from "./authentication.js";
import { createCancelledError, RpcError } from "./errors.js";
import type { ClientFrame } from "./frames.js";
import type { ClientFacts, ConnectionDependencies } from "./open-sessions.js";
import { PROVIDER_KEY_METHOD, type AuthMethod } from "./options.js";
import { readInitialize, readParams, type InitializeData } from "./params.js";
import { escapeInvisible } from "./printable-line.js";
import { resolveProfile, type ClientProfile } from "./profile.js";
import { listSessions } from "./session-list.js";
import { ERROR_CODES, METHODS, PROTOCOL_VERSION, type ResponseMessage } from "./wire.js";

type Params = Readonly<Record<string, unknown>>;
type MethodHandler = (params: Params, context: RequestContext) => Promise<unknown>;

/** Maximum characters of an unknown method in an error. */
const MAX_METHOD_CHARACTERS = 100;
/** Maximum characters of a client's name in stored answers and in the log. */
const MAX_NAME_CHARACTERS = 100;

/** Methods that need authentication after a logout. */
const AUTHENTICATED_METHODS: ReadonlySet<string> = new Set([
  METHODS.sessionNew,
  METHODS.sessionLoad,
  METHODS.sessionResume,
  METHODS.sessionFork,
  METHODS.sessionPrompt,
]);

/** Methods that start work. */
const WORK_METHODS: ReadonlySet<string> = new Set([METHODS.sessionNew, METHODS.sessionFork, METHODS.sessionPrompt]);

/** A client: its `initialize` data, its open sessions and all methods. Independent of the transport. */
export class AcpConnection implements ClientFacts {
  readonly #dependencies: ConnectionDependencies;
  readonly #dispatcher: Dispatcher;
  readonly #methods: ReadonlyMap<string, MethodHandler>;
  readonly #sessions: ClientSessions;
  readonly #closeController = new AbortController();
  readonly #sink: Sink;
  #client: InitializeData | undefined;
  #isLoggedOut = false;
  #removeResponder: (() => void) | undefined;

  constructor(serverDependencies: ConnectionDependencies, sink: Sink) {
    // The client has a name after `initialize` only.
    const logger = createLoggerWithFields(serverDependencies.logger, () => ({ client: this.clientName }));
    const dependencies = { ...serverDependencies, logger };
    this.#dependencies = dependencies;
    this.#sink = sink;
    // Each session that waits for models adds a listener.
    setMaxListeners(0, this.#closeController.signal);
    this.#dispatcher = new Dispatcher({
      sink,
      logger: dependencies.logger,
      maxJsonDepth: dependencies.options.jsonDepth,
      handlers: {
        request: (method, params, context) => this.#callMethod(method, params, context),
        notification: (method, params) => this.#handleNotification(method, params),
        answersCancel: (method) => method === METHODS.sessionPrompt,
      },
    });
    const sessions = new ClientSessions(dependencies, this, this.#dispatcher, sink, this.#closeController.signal);
    this.#sessions = sessions;
    const methods = new Map<string, MethodHandler>([
      [METHODS.sessionNew, (params, context) => sessions.create(params, context)],
      [METHODS.sessionLoad, (params, context) => sessions.attach(params, context, true)],
      [METHODS.sessionResume, (params, context) => sessions.attach(params, context, false)],
      [METHODS.sessionFork, (params, context) => sessions.fork(params, context)],
      [METHODS.sessionSetTitle, (params) => sessions.setTitle(params)],
      [METHODS.sessionArchive, (params) => sessions.setArchived(params, true)],
      [METHODS.sessionUnarchive, (params) => sessions.setArchived(params, false)],
      [METHODS.sessionPrompt, (params, context) => sessions.prompt(params, context)],
      [METHODS.sessionDelete, (params) => sessions.delete(params)],
      [METHODS.sessionClose, (params) => sessions.close(params)],
      [METHODS.sessionList, (params) => listSessions(dependencies.agent, params, this.clientProfile)],
      [METHODS.sessionCancel, (params) => Promise.resolve(sessions.cancel(params))],
      [METHODS.setConfigOption, (params, context) => sessions.setConfigOption(params, context)],
      [METHODS.setMode, (params, context) => sessions.setMode(params, context)],
      [METHODS.authenticate, (params, { signal }) => this.#authenticate(params, signal)],
      [METHODS.logout, () => Promise.resolve(this.#logOut())],
    ]);
    if (!dependencies.agent.canRewind) methods.delete(METHODS.sessionFork);
    this.#methods = methods;
  }

  /** Undefined before `initialize` has succeeded. */
  get client(): InitializeData | undefined {
    return this.#client;
  }

  get clientName(): string {
    const name = [...escapeInvisible(this.#client?.clientName ?? "")].slice(0, MAX_NAME_CHARACTERS).join("");
    return name === "" ? "acp" : `acp:${name}`;
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

  /** Handles one parsed frame; `sessionId`: the session id from the transport; undefined if it sends none. */
  receiveFrame(frame: ClientFrame, sessionId?: string): void {
    this.#dispatcher.receiveFrame(frame, sessionId);
  }

  /** Handles a request and returns the answer instead of sending it to the sink. */
  handleRequest(frame: Extract<ClientFrame, { kind: "request" }>): Promise<ResponseMessage> {
    return this.#dispatcher.handleRequest(frame);
  }

  /** Resolves when every request is answered. */
  waitForIdle(): Promise<void> {
    return this.#dispatcher.waitForIdle();
  }

  /** Cancels every request of the client. The answer to a cancelled prompt is `cancelled`. */
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
    this.#closeController.abort(createCancelledError());
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

  /** Handles `initialize` before the first await, so that the next frames find the client initialized. */
  async #callMethod(method: string, params: unknown, context: RequestContext): Promise<unknown> {
    if (method === METHODS.initialize) return this.#initialize(params);
    const handleMethod = this.#methods.get(method);
    const isAuthMethod = method === METHODS.authenticate || method === METHODS.logout;
    if (!handleMethod || (isAuthMethod && this.#authMethods.length === 0))
      throw new RpcError(ERROR_CODES.methodNotFound, `method not found: ${method.slice(0, MAX_METHOD_CHARACTERS)}`);
    if (!this.isInitialized) throw new RpcError(ERROR_CODES.invalidRequest, "initialize first");
    if (this.#isLoggedOut && AUTHENTICATED_METHODS.has(method)) throw createAuthRequiredError();
    if (WORK_METHODS.has(method) && this.#dependencies.isOverloaded?.())
      throw new RpcError(ERROR_CODES.internal, "server overloaded", undefined, true);
    return handleMethod(readParams(params), context);
  }

  async #handleNotification(method: string, params: unknown): Promise<void> {
    // A cancel must not wait in a queue.
    if (method === METHODS.sessionCancel && this.isInitialized) this.#sessions.cancel(readParams(params));
    else
      await this.#callMethod(method, params, {
        signal: this.#closeController.signal,
        runAfterAnswer: (callback) => callback(),
      });
  }

  #initialize(params: unknown): unknown {
    this.#client = readInitialize(params);
    const { agent } = this.#dependencies;
    const { isEditor } = this.clientProfile;
    const authMethods = this.#authMethods;
    this.updateReachability();
    return {
      protocolVersion: PROTOCOL_VERSION,
      agentCapabilities: {
        loadSession: true,
        promptCapabilities: { image: true, audio: false, embeddedContext: true },
        mcpCapabilities: { http: true, sse: isEditor },
        sessionCapabilities: {
          ...{ list: {}, delete: {}, resume: {}, close: {}, additionalDirectories: {} },
          // From the unstable part of the schema. Clients of the interface specification get its capabilities only.
          ...(isEditor && agent.canRewind && { fork: {} }),
          ...(isEditor && { title: {}, archive: {}, systemPrompt: { mode: { override: {} } } }),
        },
        ...(authMethods.length > 0 && { auth: { logout: {} } }),
      },
      agentInfo: { name: "gantry", title: "Gantry", version: agent.version },
      authMethods,
    };
  }

  /** The login methods that `initialize` lists. */
  get #authMethods(): readonly AuthMethod[] {
    const { authMethods } = this.#dependencies.options;
    return authMethods.length === 0 && this.clientProfile.isEditor ? [PROVIDER_KEY_METHOD] : authMethods;
  }

  async #authenticate(params: Params, signal: AbortSignal): Promise<unknown> {
    const result = await authenticate(params, this.#authMethods, this.#dependencies.agent, signal);
    this.#isLoggedOut = false;
    return result;
  }

  /** `logout`: this client must authenticate before it opens or prompts a session. Active prompts continue. */
  #logOut(): unknown {
    this.#isLoggedOut = true;
    return {};
  }
}
