import { newId, type Agent, type Logger, type Session } from "gantry";
import { ConnectionClient } from "./client.js";
import { configOptions, setConfigOption } from "./config-options.js";
import { Dispatcher, type RequestContext, type Sink } from "./dispatcher.js";
import { invalidParams, RpcError, sessionBusy, sessionNotFound } from "./errors.js";
import { parseFrame, type Frame } from "./frames.js";
import type { AcpOptions } from "./options.js";
import {
  optionalString,
  readCwd,
  readIgnored,
  readInitialize,
  readParams,
  readString,
  type Initialize,
} from "./params.js";
import { runPrompt } from "./prompt.js";
import { readPrompt } from "./prompt-input.js";
import { replay } from "./replay.js";
import { listSessions } from "./session-list.js";
import type { Turn, Turns } from "./turns.js";
import {
  CLIENT_METHODS,
  CODES,
  METHODS,
  PROTOCOL_VERSION,
  type Profile,
  type PromptResult,
  type ResponseMessage,
  type SessionUpdate,
} from "./wire.js";

/** What connections of one transport share. */
export interface ConnectionParts {
  agent: Agent;
  options: AcpOptions;
  logger: Logger;
  turns: Turns;
}

interface OpenSession {
  /** The client's own word for it. */
  id: string;
  /** Where its tools run; undefined: the session's own folder. */
  cwd: string | undefined;
}

type Params = Readonly<Record<string, unknown>>;
type Method = (params: Params, context: RequestContext) => Promise<unknown>;

/** One client: what it said of itself, the sessions that it opened, and every method. Knows no socket. */
export class AcpConnection {
  readonly #parts: ConnectionParts;
  readonly #sink: Sink;
  readonly #dispatcher: Dispatcher;
  readonly #methods: ReadonlyMap<string, Method>;
  /** By the persisted id of a chain's first session. */
  readonly #open = new Map<string, OpenSession>();
  /** What must be done before a session's next request begins, by the client's id. */
  readonly #order = new Map<string, Promise<unknown>>();
  readonly #closing = new AbortController();
  #client: Initialize | undefined;

  constructor(parts: ConnectionParts, sink: Sink) {
    this.#parts = parts;
    this.#sink = sink;
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
    this.#methods = new Map<string, Method>([
      [METHODS.sessionNew, (params, context) => this.#new(params, context)],
      [METHODS.sessionLoad, (params, context) => this.#attach(params, context, true)],
      [METHODS.sessionResume, (params, context) => this.#attach(params, context, false)],
      [METHODS.sessionPrompt, (params, context) => this.#prompt(params, context)],
      [METHODS.sessionDelete, (params) => this.#delete(params)],
      [METHODS.sessionClose, (params) => this.#close(params)],
      [METHODS.sessionList, (params) => listSessions(parts.agent, params, this.#profile)],
      [METHODS.sessionCancel, (params) => Promise.resolve(this.#cancel(params))],
      [METHODS.setConfigOption, (params, context) => this.#setConfigOption(params, context)],
    ]);
    if (parts.options.authMethods.length > 0) {
      const methods = new Map(this.#methods);
      this.#methods = methods.set(METHODS.authenticate, (params) => Promise.resolve(this.#authenticate(params)));
    }
  }

  /** Requests of the client that are not answered yet. */
  get unanswered(): number {
    return this.#dispatcher.unanswered;
  }

  /** Whether `initialize` succeeded. */
  get initialized(): boolean {
    return this.#client !== undefined;
  }

  /** Read a text frame as this connection would. */
  parse(text: string): Frame {
    return parseFrame(text, this.#parts.options.jsonDepth);
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

  /** The client is gone: cancel everything, send nothing more. What was said is kept. */
  close(): void {
    this.#closing.abort();
    this.#dispatcher.close();
    this.#open.clear();
  }

  /** A session that this connection has open got a title. */
  titled(session: Session): void {
    const open = this.#open.get(session.chain.root);
    if (!open) return;
    this.#update(open.id, { sessionUpdate: "session_info_update", title: session.title, updatedAt: session.updatedAt });
  }

  deleted(rootId: string): void {
    this.#open.delete(rootId);
  }

  get #profile(): Profile {
    const { profile, officialClients } = this.#parts.options;
    return this.#client && officialClients.includes(this.#client.clientName) ? "official" : profile;
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
    if (method === METHODS.sessionCancel && this.initialized) this.#cancel(readParams(params));
    else await this.#request(method, params, { signal: this.#closing.signal, after: (what) => what() });
  }

  #initialize(params: unknown): unknown {
    this.#client = readInitialize(params);
    const { agent, options } = this.#parts;
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

  async #new(params: Params, context: RequestContext): Promise<unknown> {
    const ignored = readIgnored(params);
    const cwd = await readCwd(params);
    const sessionId = newId();
    const { agent } = this.#parts;
    const session = await agent.sessions.create({ projectDir: cwd, title: "ACP Session", alias: sessionId });
    this.#opened(session, { id: sessionId, cwd: undefined }, ignored);
    return { sessionId, configOptions: await this.#options(session, sessionId, context) };
  }

  /** `session/load` and `session/resume`. */
  async #attach(params: Params, context: RequestContext, history: boolean): Promise<unknown> {
    const sessionId = readString(params, "sessionId");
    return this.#inOrder(sessionId, async () => {
      const ignored = readIgnored(params);
      const cwd = await readCwd(params);
      const session = await this.#session(sessionId);
      this.#opened(session, { id: sessionId, cwd }, ignored);
      if (history) await this.#replay(session, sessionId, cwd, context.signal);
      context.after(() => void this.#showOptions(session, sessionId));
      return history && this.#profile === "spec" ? null : {};
    });
  }

  async #replay(session: Session, sessionId: string, cwd: string, signal: AbortSignal): Promise<void> {
    for await (const updates of replay(this.#parts.agent, session.chain.root, cwd, this.#profile)) {
      for (const update of updates) {
        signal.throwIfAborted();
        this.#update(sessionId, update);
        await this.#sink.ready(sessionId);
      }
    }
  }

  #prompt(params: Params, context: RequestContext): Promise<PromptResult> {
    const sessionId = readString(params, "sessionId");
    const input = readPrompt(params.prompt, this.#profile);
    const { turns } = this.#parts;
    // Up to here nothing was awaited: a cancel that comes right behind finds the turn.
    const before = turns.get(sessionId);
    if (before && !before.cancelled) throw sessionBusy(sessionId);
    const turn = turns.begin(sessionId);
    const cancel = () => turn.cancel();
    if (context.signal.aborted) cancel();
    context.signal.addEventListener("abort", cancel, { once: true });
    const work = this.#turn(turn, before, sessionId, input).finally(() => turns.end(turn));
    const late = turn.abandoned.then((): PromptResult => ({ stopReason: "cancelled" }));
    return Promise.race([work, late]).finally(() => {
      turn.answered = true;
      // Whoever lost the race is waited for by `turns`, and must not be an unhandled rejection.
      work.catch(() => undefined);
    });
  }

  async #turn(turn: Turn, before: Turn | undefined, sessionId: string, input: ReturnType<typeof readPrompt>) {
    const { agent, logger, turns, options } = this.#parts;
    await before?.done;
    await this.#order.get(sessionId);
    const session = await this.#session(sessionId);
    if (turn.cancelled) return { stopReason: "cancelled" as const };
    turns.name(turn, [session.id, session.alias, session.chain.root]);
    const { root } = session.chain;
    const cwd = this.#open.get(root)?.cwd;
    this.#open.set(root, { id: sessionId, cwd });
    if (input.ignored.length > 0) logger.debug("parts of a prompt were ignored", { types: input.ignored });
    const profile = this.#profile;
    return runPrompt(turn, {
      agent,
      logger,
      profile,
      session,
      input,
      cwd,
      client: new ConnectionClient(this.#dispatcher, sessionId, {
        readTextFile: this.#client?.readTextFile === true,
        writeTextFile: this.#client?.writeTextFile === true,
      }),
      ask: options.requestPermission,
      compaction: this.#client?.compaction === true,
      send: (update) => this.#update(sessionId, update),
      ready: () => this.#sink.ready(sessionId),
    });
  }

  #cancel(params: Params): null {
    this.#parts.turns.get(readString(params, "sessionId"))?.cancel();
    return null;
  }

  #close(params: Params): Promise<unknown> {
    const sessionId = readString(params, "sessionId");
    const stopping = this.#parts.turns.stop([sessionId]);
    return this.#inOrder(sessionId, async () => {
      const { chain, alias } = await this.#session(sessionId);
      await stopping;
      await this.#parts.turns.stop([alias, chain.root]);
      this.#open.delete(chain.root);
      return {};
    });
  }

  #delete(params: Params): Promise<unknown> {
    const sessionId = readString(params, "sessionId");
    const stopping = this.#parts.turns.stop([sessionId]);
    return this.#inOrder(sessionId, async () => {
      const { chain, alias } = await this.#session(sessionId);
      await stopping;
      await this.#parts.turns.stop([alias, chain.root]);
      await this.#parts.agent.sessions.delete(chain.root);
      return this.#profile === "spec" ? null : {};
    });
  }

  #setConfigOption(params: Params, context: RequestContext): Promise<unknown> {
    const sessionId = readString(params, "sessionId");
    return this.#inOrder(sessionId, async () => {
      const configId = readString(params, "configId");
      const value = optionalString(params, "value");
      if (value === undefined) throw invalidParams("value", "a string");
      const { agent, logger } = this.#parts;
      const session = await setConfigOption(agent, await this.#session(sessionId), configId, value, context.signal);
      return { configOptions: (await configOptions(agent, session, context.signal, logger)).options };
    });
  }

  /** The options of a new session; what is heard of models later comes as an update. */
  async #options(session: Session, sessionId: string, context: RequestContext) {
    const { agent, logger } = this.#parts;
    const { options, complete } = await configOptions(agent, session, context.signal, logger);
    if (!complete) context.after(() => void this.#showOptions(session, sessionId));
    return options;
  }

  async #showOptions(session: Session, sessionId: string): Promise<void> {
    const { agent, logger } = this.#parts;
    try {
      const { options } = await configOptions(agent, session, this.#closing.signal, logger, true);
      if (options.length > 0 && !this.#closing.signal.aborted) {
        this.#update(sessionId, { sessionUpdate: "config_option_update", configOptions: options });
      }
    } catch (error) {
      logger.warn("no options to show", { error });
    }
  }

  async #session(sessionId: string): Promise<Session> {
    const session = await this.#parts.agent.sessions.get(sessionId);
    if (!session) throw sessionNotFound(sessionId);
    return session;
  }

  #opened(session: Session, open: OpenSession, ignored: readonly string[]): void {
    this.#open.set(session.chain.root, open);
    if (ignored.length > 0) {
      this.#parts.logger.info(`${ignored.join(" and ")} accepted and ignored`, { session: session.chain.root });
    }
  }

  /** Requests of one session that change it are done one behind the other. */
  #inOrder<T>(sessionId: string, work: () => Promise<T>): Promise<T> {
    const before = this.#order.get(sessionId);
    const done = before ? before.then(work) : work();
    const settled = done.then(
      () => undefined,
      () => undefined,
    );
    this.#order.set(sessionId, settled);
    void settled.then(() => {
      if (this.#order.get(sessionId) === settled) this.#order.delete(sessionId);
    });
    return done;
  }

  #update(sessionId: string, update: SessionUpdate): void {
    this.#dispatcher.notify(CLIENT_METHODS.update, { sessionId, update });
  }
}
