import type { Session } from "gantry";
import { newId } from "gantry/plugin";
import { readClientResources, type ClientResourcesResult } from "./client-resources.js";
import { configOptions, setConfigOption } from "./config-options.js";
import type { Dispatcher, RequestContext, Sink } from "./dispatcher.js";
import { invalidParams } from "./errors.js";
import { modeOf, modeState } from "./modes.js";
import { OpenSessions, type ClientFacts, type ConnectionParts } from "./open-sessions.js";
import { optionalString, readCwd, readString } from "./params.js";
import { ClientPrompts } from "./prompts.js";
import type { Turn } from "./turns.js";
import type { PromptResult } from "./wire.js";

type Params = Readonly<Record<string, unknown>>;

export class ClientSessions {
  readonly #parts: ConnectionParts;
  readonly #facts: ClientFacts;
  readonly #sessions: OpenSessions;
  readonly #prompts: ClientPrompts;
  /** The last unfinished change by the client's session id; the session's next request waits for it. */
  readonly #pendingBySessionId = new Map<string, Promise<unknown>>();

  /** `closing` aborts when the client disconnects. */
  constructor(parts: ConnectionParts, facts: ClientFacts, dispatcher: Dispatcher, sink: Sink, closing: AbortSignal) {
    this.#parts = parts;
    this.#facts = facts;
    this.#sessions = new OpenSessions(parts, facts, dispatcher, sink, closing);
    this.#prompts = new ClientPrompts(parts, facts, this.#sessions, this.#pendingBySessionId);
  }

  /** Call this when a session was changed in this process. */
  updated(session: Session): void {
    const open = this.#sessions.get(session.chain.root);
    if (open) this.#sessions.sessionUpdates.changed(open, session);
  }

  deleted(rootId: string): void {
    this.#sessions.close(rootId);
    this.#prompts.forget(rootId);
  }

  /** Whether the client can answer questions of a session that is not open here. */
  answers(root: string): boolean {
    return this.#sessions.canAnswer(root);
  }

  /** Resolves when all watches have ended, after the client has disconnected. */
  ended(): Promise<void> {
    return this.#sessions.ended();
  }

  /** `session/new` */
  async create(params: Params, context: RequestContext): Promise<unknown> {
    const resources = await this.#readResources(params);
    const cwd = await readCwd(params);
    const sessionId = newId();
    const { agent } = this.#parts;
    const sessions = this.#sessions;
    const session = await agent.sessions.create({ projectDir: cwd, title: "ACP Session", alias: sessionId });
    this.#logIgnored(session, resources);
    const open = sessions.opened(session, sessionId);
    open.clientResources = resources;
    open.reportedSeq = 0;
    context.after(() => {
      // Prepare while the answer is sent and the user writes the prompt.
      void agent.prepare();
      sessions.watchLater(open);
      void sessions.sessionUpdates.commands(open);
    });
    return {
      sessionId,
      ...this.#modes(session),
      configOptions: await sessions.sessionUpdates.options(open, session, context),
    };
  }

  /** `session/load` and `session/resume`. */
  async attach(params: Params, context: RequestContext, history: boolean): Promise<unknown> {
    const sessionId = readString(params, "sessionId");
    return this.#inOrder(sessionId, async () => {
      const resources = await this.#readResources(params);
      const cwd = await readCwd(params);
      const sessions = this.#sessions;
      const session = await sessions.stored(sessionId);
      this.#logIgnored(session, resources);
      const open = sessions.opened(session, sessionId);
      open.reopened(session, cwd, resources);
      const watching = await sessions.createWatch(open, session);
      // Await the current position: every event after the answer is reported, however slowly the store returns earlier
      // messages.
      if (!history) await watching.skip();
      else
        for await (const updates of watching.replay(context.signal))
          for (const update of updates) {
            context.signal.throwIfAborted();
            sessions.update(sessionId, update);
            await sessions.ready(sessionId);
          }
      context.after(() => {
        if (sessions.get(open.root) === open) sessions.follow(open, watching);
        void sessions.sessionUpdates.show(open);
        void sessions.sessionUpdates.commands(open);
      });
      return history && this.#facts.clientProfile.profile === "spec" ? null : this.#modes(session);
    });
  }

  /** `session/prompt` */
  prompt(params: Params, context: RequestContext): Promise<PromptResult> {
    return this.#prompts.prompt(params, context);
  }

  /** `session/cancel`; takes effect at once. */
  cancel(params: Params): null {
    return this.#prompts.cancel(params);
  }

  /** `session/close`: ends this client's prompt; runs of other clients in the session continue. */
  close(params: Params): Promise<unknown> {
    const isOwn = (turn: Turn) => this.#prompts.isOwn(turn);
    return this.#afterStop(params, isOwn, (root) => {
      this.#sessions.close(root);
      return Promise.resolve({});
    });
  }

  /** `session/delete` */
  delete(params: Params): Promise<unknown> {
    const all = () => true;
    return this.#afterStop(params, all, async (root) => {
      await this.#parts.agent.sessions.delete(root);
      return this.#facts.clientProfile.profile === "spec" ? null : {};
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
      const parts = { agent, logger, modes: this.#facts.clientProfile.editor };
      const before = await this.#sessions.stored(sessionId);
      const open = this.#sessions.get(before.chain.root);
      const session = await this.#sessions.sessionUpdates.answering(open, () =>
        setConfigOption(parts, before, configId, value, context.signal),
      );
      const { options } = await configOptions(parts, session, context.signal);
      if (open) open.options = options;
      return { configOptions: options };
    });
  }

  /** `session/set_mode` */
  setMode(params: Params, context: RequestContext): Promise<unknown> {
    const sessionId = readString(params, "sessionId");
    return this.#inOrder(sessionId, async () => {
      const mode = modeOf(readString(params, "modeId"));
      if (!mode) throw invalidParams("modeId", "the id of one of the session's modes");
      const { chain } = await this.#sessions.stored(sessionId);
      const open = this.#sessions.get(chain.root);
      const { sessionUpdates } = this.#sessions;
      const set = () => this.#parts.agent.sessions.update(chain.root, { mode });
      await sessionUpdates.answering(open, set, mode);
      if (open && this.#facts.clientProfile.editor) context.after(() => void sessionUpdates.show(open, 0));
      return {};
    });
  }

  /** `modes` of an answer; empty for clients that do not show them. */
  #modes({ mode }: Session) {
    return this.#facts.clientProfile.editor ? { modes: modeState(mode) } : {};
  }

  #readResources(params: Params): Promise<ClientResourcesResult> {
    const { agent, options } = this.#parts;
    // Profile `spec` ignores both fields, as the interface specifies, unless `mcp` is set.
    return readClientResources(params, agent, options.mcp ?? options.profile !== "spec");
  }

  #logIgnored(session: Session, { ignored }: ClientResourcesResult): void {
    const { root } = session.chain;
    if (ignored.length > 0 && !this.#sessions.get(root))
      this.#parts.logger.info(`${ignored.join(" and ")} accepted and ignored`, { session: root });
  }

  /** Stops the matching prompts of a chain, then calls `then` with the root id. */
  #afterStop(
    params: Params,
    which: (turn: Turn) => boolean,
    then: (root: string) => Promise<unknown>,
  ): Promise<unknown> {
    const sessionId = readString(params, "sessionId");
    const stopping = this.#parts.turns.stop([sessionId], which);
    return this.#inOrder(sessionId, async () => {
      const { chain, alias } = await this.#sessions.stored(sessionId);
      await stopping;
      await this.#parts.turns.stop([alias, chain.root], which);
      return await then(chain.root);
    });
  }

  /** Runs changes of one session one after another, in the order of the requests. */
  #inOrder<T>(sessionId: string, work: () => Promise<T>): Promise<T> {
    const before = this.#pendingBySessionId.get(sessionId);
    const done = before ? before.then(work) : work();
    const settled = done.then(
      () => undefined,
      () => undefined,
    );
    this.#pendingBySessionId.set(sessionId, settled);
    void settled.then(() => {
      if (this.#pendingBySessionId.get(sessionId) === settled) this.#pendingBySessionId.delete(sessionId);
    });
    return done;
  }
}
