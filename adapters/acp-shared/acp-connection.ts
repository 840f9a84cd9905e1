import { setMaxListeners } from "node:events";
import type { Session } from "gantry";
import { ClientSessions } from "./client-sessions.js";
import { Dispatcher, type RequestContext, type Sink } from "./dispatcher.js";
import { invalidParams, RpcError } from "./errors.js";
import type { Frame } from "./frames.js";
import type { ClientFacts, ConnectionParts } from "./open-sessions.js";
import { readInitialize, readParams, readString, type Initialize } from "./params.js";
import { mannerOf, type Manner } from "./profile.js";
import { listSessions } from "./session-list.js";
import { CODES, METHODS, PROTOCOL_VERSION, type ResponseMessage } from "./wire.js";

type Params = Readonly<Record<string, unknown>>;
type Method = (params: Params, context: RequestContext) => Promise<unknown>;

/** One client: what it said of itself, the sessions that it opened, and every method. Knows no socket. */
export class AcpConnection implements ClientFacts {
  readonly #parts: ConnectionParts;
  readonly #dispatcher: Dispatcher;
  readonly #methods: ReadonlyMap<string, Method>;
  readonly #sessions: ClientSessions;
  readonly #closing = new AbortController();
  readonly #sink: Sink;
  #client: Initialize | undefined;
  #leave: (() => void) | undefined;

  constructor(parts: ConnectionParts, sink: Sink) {
    this.#parts = parts;
    this.#sink = sink;
    // Each session that waits for models listens.
    setMaxListeners(0, this.#closing.signal);
    this.#dispatcher = new Dispatcher({
      sink,
      logger: parts.logger,
      maxDepth: parts.options.jsonDepth,
      handlers: {
        request: (method, params, context) => this.#request(method, params, context),
        notification: (method, params) => this.#notification(method, params),
        endsItself: (method) => method === METHODS.sessionPrompt,
      },
    });
    const sessions = new ClientSessions(parts, this, this.#dispatcher, sink, this.#closing.signal);
    this.#sessions = sessions;
    const methods = new Map<string, Method>([
      [METHODS.sessionNew, (params, context) => sessions.create(params, context)],
      [METHODS.sessionLoad, (params, context) => sessions.attach(params, context, true)],
      [METHODS.sessionResume, (params, context) => sessions.attach(params, context, false)],
      [METHODS.sessionPrompt, (params, context) => sessions.prompt(params, context)],
      [METHODS.sessionDelete, (params) => sessions.delete(params)],
      [METHODS.sessionClose, (params) => sessions.close(params)],
      [METHODS.sessionList, (params) => listSessions(parts.agent, params, this.manner.profile)],
      [METHODS.sessionCancel, (params) => Promise.resolve(sessions.cancel(params))],
      [METHODS.setConfigOption, (params, context) => sessions.setConfigOption(params, context)],
      [METHODS.setMode, (params, context) => sessions.setMode(params, context)],
    ]);
    if (parts.options.authMethods.length > 0) {
      methods.set(METHODS.authenticate, (params) => Promise.resolve(this.#authenticate(params)));
    }
    this.#methods = methods;
  }

  get client(): Initialize | undefined {
    return this.#client;
  }

  get manner(): Manner {
    return mannerOf(this.#parts.options, this.#client);
  }

  /** Requests of the client that are not answered yet. */
  get unanswered(): number {
    return this.#dispatcher.unanswered;
  }

  /** Whether `initialize` succeeded. */
  get initialized(): boolean {
    return this.#client !== undefined;
  }

  /** Take one text frame. Never throws. */
  receive(text: string): void {
    this.#dispatcher.receive(text);
  }

  /** Take one parsed frame; `sessionId` as the transport names it. */
  receiveFrame(frame: Frame, sessionId?: string): void {
    this.#dispatcher.receiveFrame(frame, sessionId);
  }

  /** Answer a request to the caller rather than to the sink. */
  call(frame: Extract<Frame, { kind: "request" }>): Promise<ResponseMessage> {
    return this.#dispatcher.call(frame);
  }

  /** Resolves when every request is answered. */
  idle(): Promise<void> {
    return this.#dispatcher.idle();
  }

  /** Cancel every request; prompts are answered with `cancelled`. */
  cancelAll(): void {
    this.#dispatcher.cancelAll();
  }

  /** The client opened its first stream or socket, or lost the last one. Questions of sessions wait for it while one is open. */
  reachChanged(): void {
    if (!this.initialized || this.#closing.signal.aborted) return;
    if (this.#sink.isReachable) this.#leave ??= this.#parts.agent.attend((id) => this.#sessions.answers(id));
    else this.#leaveAsks();
  }

  #leaveAsks(): void {
    this.#leave?.();
    this.#leave = undefined;
  }

  /** The client is gone: cancel everything, send nothing more. What was said is kept. Resolves when nothing is watched any more. */
  close(): Promise<void> {
    this.#leaveAsks();
    this.#closing.abort();
    this.#dispatcher.close();
    return this.#sessions.ended();
  }

  /** A session has another title, or is set to something else; its clients are told. */
  updated(session: Session): void {
    this.#sessions.updated(session);
  }

  /** A session is gone. */
  deleted(rootId: string): void {
    this.#sessions.deleted(rootId);
  }

  /** Begins at once, so that frames right behind `initialize` find it done. */
  async #request(method: string, params: unknown, context: RequestContext): Promise<unknown> {
    if (method === METHODS.initialize) return this.#initialize(params);
    const perform = this.#methods.get(method);
    if (!perform) throw new RpcError(CODES.methodNotFound, `method not found: ${method.slice(0, 100)}`);
    if (!this.initialized) throw new RpcError(CODES.invalidRequest, "initialize first");
    return perform(readParams(params), context);
  }

  async #notification(method: string, params: unknown): Promise<void> {
    // A cancel must not wait for its turn, nor for anything else.
    if (method === METHODS.sessionCancel && this.initialized) this.#sessions.cancel(readParams(params));
    else await this.#request(method, params, { signal: this.#closing.signal, after: (what) => what() });
  }

  #initialize(params: unknown): unknown {
    this.#client = readInitialize(params);
    const { agent, options } = this.#parts;
    this.reachChanged();
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

  /** Keys come from the server's own config, so there is nothing to do. */
  #authenticate(params: Params): unknown {
    const methodId = readString(params, "methodId");
    if (!this.#parts.options.authMethods.some(({ id }) => id === methodId)) {
      throw invalidParams("methodId", "the id of one of authMethods");
    }
    return {};
  }
}
