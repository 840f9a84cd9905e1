import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { newId, type Agent, type Logger, type Session } from "gantry";
import { ConnectionClient } from "./client.js";
import { configOptions, setConfigOption } from "./config-options.js";
import type { Dispatcher, RequestContext, Sink } from "./dispatcher.js";
import { invalidParams, RpcError, sessionBusy, sessionNotFound } from "./errors.js";
import type { AcpOptions } from "./options.js";
import { optionalString, readCwd, readIgnored, readString, type Initialize } from "./params.js";
import { runPrompt } from "./prompt.js";
import { readPrompt } from "./prompt-input.js";
import { replay } from "./replay.js";
import type { Turn, Turns } from "./turns.js";
import type { Manner } from "./profile.js";
import { visible } from "./visible.js";
import { CLIENT_METHODS, CODES, type PromptResult, type SelectOption, type SessionUpdate } from "./wire.js";

/** So long after a session was opened, in ms, lists of models are asked for. */
const SETTLED_MS = 100;

/** What connections of one transport share. */
export interface ConnectionParts {
  agent: Agent;
  options: AcpOptions;
  logger: Logger;
  turns: Turns;
  /** Aborted when no new prompt is taken. */
  refusing: AbortSignal;
}

/** What a client said of itself, as far as it has. */
export interface ClientFacts {
  readonly client: Initialize | undefined;
  readonly manner: Manner;
}

interface OpenSession {
  /** The client's own word for it. */
  id: string;
  /** Where its tools run; undefined: the session's own folder. */
  cwd: string | undefined;
}

type Params = Readonly<Record<string, unknown>>;

/** The sessions that one client has open, and what it does with them. */
export class ClientSessions {
  readonly #parts: ConnectionParts;
  readonly #facts: ClientFacts;
  readonly #dispatcher: Dispatcher;
  readonly #sink: Sink;
  readonly #closing: AbortSignal;
  /** By the persisted id of a chain's first session. */
  readonly #open = new Map<string, OpenSession>();
  /** What must be done before a session's next request begins, by the client's id. */
  readonly #order = new Map<string, Promise<unknown>>();
  /** Sessions, by their persisted id, of which the log was told that parts of their prompts are left out. */
  readonly #told = new Set<string>();

  /** `closing` aborts when the client is gone. */
  constructor(parts: ConnectionParts, facts: ClientFacts, dispatcher: Dispatcher, sink: Sink, closing: AbortSignal) {
    this.#parts = parts;
    this.#facts = facts;
    this.#dispatcher = dispatcher;
    this.#sink = sink;
    this.#closing = closing;
  }

  /** A session that this connection has open got a title. */
  titled(session: Session): void {
    const open = this.#open.get(session.chain.root);
    if (!open) return;
    this.#update(open.id, {
      sessionUpdate: "session_info_update",
      title: visible(session.title),
      updatedAt: session.updatedAt,
    });
  }

  deleted(rootId: string): void {
    this.#open.delete(rootId);
    this.#told.delete(rootId);
  }

  /** `session/new` */
  async create(params: Params, context: RequestContext): Promise<unknown> {
    const ignored = readIgnored(params);
    const cwd = await readCwd(params);
    const sessionId = newId();
    const { agent } = this.#parts;
    const session = await agent.sessions.create({ projectDir: cwd, title: "ACP Session", alias: sessionId });
    this.#opened(session, { id: sessionId, cwd: undefined }, ignored);
    // While the answer is on its way and the prompt is thought of.
    context.after(() => void agent.prepare());
    return { sessionId, configOptions: await this.#options(session, sessionId, context) };
  }

  /** `session/load` and `session/resume`. */
  async attach(params: Params, context: RequestContext, history: boolean): Promise<unknown> {
    const sessionId = readString(params, "sessionId");
    return this.#inOrder(sessionId, async () => {
      const ignored = readIgnored(params);
      const cwd = await readCwd(params);
      const session = await this.#session(sessionId);
      this.#opened(session, { id: sessionId, cwd }, ignored);
      if (history) await this.#replay(session, sessionId, cwd, context.signal);
      context.after(() => void this.#showOptions(session, sessionId));
      return history && this.#facts.manner.profile === "spec" ? null : {};
    });
  }

  async #replay(session: Session, sessionId: string, cwd: string, signal: AbortSignal): Promise<void> {
    const { agent } = this.#parts;
    const { manner } = this.#facts;
    for await (const updates of replay({ agent, rootId: session.chain.root, projectDir: cwd, ...manner })) {
      for (const update of updates) {
        signal.throwIfAborted();
        this.#update(sessionId, update);
        await this.#sink.ready(sessionId);
      }
    }
  }

  /** `session/prompt`; the frame behind it finds its turn already there. */
  prompt(params: Params, context: RequestContext): Promise<PromptResult> {
    const sessionId = readString(params, "sessionId");
    const input = readPrompt(params.prompt, this.#facts.manner.editor);
    const { turns, refusing } = this.#parts;
    if (refusing.aborted) throw new RpcError(CODES.internal, "server shutting down");
    // Up to here nothing was awaited: a cancel that comes right behind finds the turn.
    const before = turns.get(sessionId);
    if (before && !before.cancelled) throw sessionBusy(sessionId);
    const turn = turns.begin(sessionId);
    const cancel = () => turn.cancel();
    if (context.signal.aborted) cancel();
    context.signal.addEventListener("abort", cancel, { once: true });
    const earlier = Promise.all([before?.done, this.#order.get(sessionId)]);
    const work = this.#turn(turn, earlier, sessionId, input).finally(() => turns.end(turn));
    const late = turn.abandoned.then((): PromptResult => ({ stopReason: "cancelled" }));
    return Promise.race([work, late]).finally(() => {
      turn.answered = true;
      // Whoever lost the race is waited for by `turns`, and must not be an unhandled rejection.
      work.catch(() => undefined);
    });
  }

  async #turn(turn: Turn, earlier: Promise<unknown>, sessionId: string, input: ReturnType<typeof readPrompt>) {
    const { agent, logger, turns, options } = this.#parts;
    await earlier;
    const session = await this.#session(sessionId);
    if (turn.cancelled) return { stopReason: "cancelled" as const };
    turns.name(turn, [session.id, session.alias, session.chain.root]);
    const { root } = session.chain;
    const cwd = this.#open.get(root)?.cwd;
    this.#open.set(root, { id: sessionId, cwd });
    this.#tellIgnored(root, input.ignored);
    const { manner, client } = this.#facts;
    return runPrompt(turn, {
      agent,
      logger,
      profile: manner.profile,
      session,
      input,
      cwd,
      client: new ConnectionClient(this.#dispatcher, sessionId, {
        readTextFile: client?.readTextFile === true,
        writeTextFile: client?.writeTextFile === true,
      }),
      ask: options.requestPermission,
      compaction: client?.compaction === true,
      editor: manner.editor,
      send: (update) => this.#update(sessionId, update),
      ready: () => this.#sink.ready(sessionId),
    });
  }

  /** Once a session: who asks must be able to find out where the question went. */
  #tellIgnored(rootId: string, types: readonly string[]): void {
    if (types.length === 0 || this.#told.has(rootId)) return;
    this.#told.add(rootId);
    const { client, manner } = this.#facts;
    const why = manner.editor
      ? "parts of a prompt were left out: gantry cannot read them"
      : "parts of a prompt were left out: only the first text is read; acp.profile or --acp-profile official reads all";
    this.#parts.logger.warn(why, { types: [...new Set(types)], client: client?.clientName ?? "", session: rootId });
  }

  /** `session/cancel`; waits for nothing. */
  cancel(params: Params): null {
    this.#parts.turns.get(readString(params, "sessionId"))?.cancel();
    return null;
  }

  /** `session/close` */
  close(params: Params): Promise<unknown> {
    return this.#stopped(params, async (root) => {
      this.#open.delete(root);
      return {};
    });
  }

  /** `session/delete` */
  delete(params: Params): Promise<unknown> {
    return this.#stopped(params, async (root) => {
      await this.#parts.agent.sessions.delete(root);
      return this.#facts.manner.profile === "spec" ? null : {};
    });
  }

  /** What `then` does with a chain in which nothing runs any more. */
  #stopped(params: Params, then: (root: string) => Promise<unknown>): Promise<unknown> {
    const sessionId = readString(params, "sessionId");
    const stopping = this.#parts.turns.stop([sessionId]);
    return this.#inOrder(sessionId, async () => {
      const { chain, alias } = await this.#session(sessionId);
      await stopping;
      await this.#parts.turns.stop([alias, chain.root]);
      return await then(chain.root);
    });
  }

  /** `session/set_config_option` */
  setConfigOption(params: Params, context: RequestContext): Promise<unknown> {
    const sessionId = readString(params, "sessionId");
    return this.#inOrder(sessionId, async () => {
      const configId = readString(params, "configId");
      const value = optionalString(params, "value");
      if (value === undefined) throw invalidParams("value", "a string");
      const { agent, logger } = this.#parts;
      const before = await this.#session(sessionId);
      const session = await setConfigOption(agent, before, configId, value, context.signal, logger);
      return { configOptions: (await configOptions(agent, session, context.signal, logger)).options };
    });
  }

  /** The options of a new session; what is heard of models later comes as an update. */
  async #options(session: Session, sessionId: string, context: RequestContext) {
    const { agent, logger } = this.#parts;
    const { options, complete } = await configOptions(agent, session, context.signal, logger);
    if (!complete) context.after(() => void this.#showOptions(session, sessionId, options));
    return options;
  }

  /** `told`: what the client has already. */
  async #showOptions(session: Session, sessionId: string, told: readonly SelectOption[] = []): Promise<void> {
    const { agent, logger } = this.#parts;
    try {
      // An editor's first prompt often follows at once, and goes before.
      await sleep(SETTLED_MS, undefined, { signal: this.#closing });
      const { options } = await configOptions(agent, session, this.#closing, logger, true);
      if (options.length > 0 && !isDeepStrictEqual(options, told) && !this.#closing.aborted) {
        this.#update(sessionId, { sessionUpdate: "config_option_update", configOptions: options });
      }
    } catch (error) {
      if (!this.#closing.aborted) logger.warn("no options to show", { error });
    }
  }

  async #session(sessionId: string): Promise<Session> {
    const session = await this.#parts.agent.sessions.get(sessionId);
    if (!session) throw sessionNotFound(sessionId);
    return session;
  }

  #opened(session: Session, open: OpenSession, ignored: readonly string[]): void {
    const before = this.#open.has(session.chain.root);
    this.#open.set(session.chain.root, open);
    if (ignored.length > 0 && !before) {
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
