import type { Session } from "gantry";
import { newId } from "gantry/plugin";
import { readClientResources, type ClientResourcesResult } from "./client-resources.js";
import { loadConfigOptions, setConfigOption } from "./config-options.js";
import type { Dispatcher, RequestContext, Sink } from "./dispatcher.js";
import { toParamsError } from "./errors.js";
import { archiveSession, forkSession, setSessionTitle } from "./session-changes.js";
import { findMode, toModeState } from "./modes.js";
import type { OpenSession } from "./open-session.js";
import { OpenSessions, type ClientFacts, type ConnectionDependencies } from "./open-sessions.js";
import { readOptionalString, readCwd, readString } from "./params.js";
import { ClientPrompts } from "./prompts.js";
import type { Turn } from "./turns.js";
import type { PromptResult } from "./wire.js";

type Params = Readonly<Record<string, unknown>>;

/** The session methods of one client. */
export class ClientSessions {
  readonly #dependencies: ConnectionDependencies;
  readonly #facts: ClientFacts;
  readonly #sessions: OpenSessions;
  readonly #prompts: ClientPrompts;
  /** Last unfinished change by the client's session id. The next request of the session waits until the change ends. */
  readonly #pendingChangeBySessionId = new Map<string, Promise<unknown>>();

  /** `closeSignal` aborts when the client disconnects. */
  constructor(
    dependencies: ConnectionDependencies,
    facts: ClientFacts,
    dispatcher: Dispatcher,
    sink: Sink,
    closeSignal: AbortSignal,
  ) {
    this.#dependencies = dependencies;
    this.#facts = facts;
    this.#sessions = new OpenSessions(dependencies, facts, dispatcher, sink, closeSignal);
    this.#prompts = new ClientPrompts(dependencies, facts, this.#sessions, this.#pendingChangeBySessionId);
  }

  /** Call this when a session was changed in this process. Sends the changes if the client has the session open. */
  reportSession(session: Session): void {
    const openSession = this.#sessions.get(session.chain.root);
    if (openSession && this.#sessions.receivesChanges(openSession))
      this.#sessions.sessionUpdates.sendChanges(openSession, session);
  }

  handleDeletion(rootId: string): void {
    this.#sessions.close(rootId);
    this.#prompts.forgetSession(rootId);
  }

  /** Whether the client can answer questions of a session that it has not opened. */
  canAnswer(root: string): boolean {
    return this.#sessions.canAnswer(root);
  }

  /** Resolves when all watches have ended, after the client has disconnected. */
  waitForWatches(): Promise<void> {
    return this.#sessions.waitForWatches();
  }

  /** `session/new` */
  async create(params: Params, context: RequestContext): Promise<unknown> {
    const resources = await this.#readResources(params);
    const cwd = await readCwd(params);
    const sessionId = newId();
    const { agent } = this.#dependencies;
    const sessions = this.#sessions;
    const session = await agent.sessions.create({ projectDir: cwd, title: "ACP Session", alias: sessionId });
    this.#logIgnoredFields(session, resources);
    const openSession = sessions.register(session, sessionId);
    openSession.clientResources = resources;
    openSession.reportedSeq = 0;
    context.runAfterAnswer(() => {
      // Prepare while the answer is sent and the user writes the prompt.
      void agent.prepare();
      sessions.scheduleWatch(openSession);
      void sessions.sessionUpdates.sendCommands(openSession);
    });
    return {
      sessionId,
      ...this.#toModeFields(session),
      configOptions: await sessions.sessionUpdates.loadOptions(openSession, session, context),
    };
  }

  /** `session/load` and `session/resume`. */
  async attach(params: Params, context: RequestContext, replaysHistory: boolean): Promise<unknown> {
    const sessionId = readString(params, "sessionId");
    return this.#runInOrder(sessionId, async () => {
      const resources = await this.#readResources(params);
      const cwd = await readCwd(params);
      const session = await this.#sessions.requireSession(sessionId);
      await this.#open(session, sessionId, { cwd, resources }, context, replaysHistory);
      return replaysHistory && this.#facts.clientProfile.profile === "spec" ? null : this.#toModeFields(session);
    });
  }

  /** `session/fork`: copies the conversation to a new session and opens it without its history. */
  fork(params: Params, context: RequestContext): Promise<unknown> {
    const sessionId = readString(params, "sessionId");
    return this.#runInOrder(sessionId, async () => {
      const resources = await this.#readResources(params);
      const cwd = await readCwd(params);
      const session = await forkSession(this.#dependencies.agent, sessionId, cwd);
      const openSession = await this.#open(session, session.id, { cwd, resources }, context, false);
      const configOptions = await this.#sessions.sessionUpdates.loadOptions(openSession, session, context);
      return { sessionId: session.id, ...this.#toModeFields(session), configOptions };
    });
  }

  /** `session/set_title`. Clients that have the session open get a `session_info_update`. */
  setTitle(params: Params): Promise<unknown> {
    const sessionId = readString(params, "sessionId");
    return this.#runInOrder(sessionId, () => setSessionTitle(this.#dependencies.agent, sessionId, params));
  }

  /** `session/archive` and `session/unarchive`. The first ends all prompts of the session, and closes it. */
  setArchived(params: Params, archived: boolean): Promise<unknown> {
    const sessionId = readString(params, "sessionId");
    const { agent, turns } = this.#dependencies;
    const stop = archived ? turns.stop([sessionId], () => true) : undefined;
    return this.#runInOrder(sessionId, async () => {
      await stop;
      const root = await archiveSession(agent, sessionId, archived);
      if (archived) this.#sessions.close(root);
      return {};
    });
  }

  /** Opens a stored session under the client's id. Sends its history before it resolves, or skips it. */
  async #open(
    session: Session,
    sessionId: string,
    { cwd, resources }: { cwd: string; resources: ClientResourcesResult },
    context: RequestContext,
    replaysHistory: boolean,
  ): Promise<OpenSession> {
    const sessions = this.#sessions;
    this.#logIgnoredFields(session, resources);
    const openSession = sessions.register(session, sessionId);
    openSession.reset(session, cwd, resources);
    const sessionWatch = await sessions.createWatch(openSession, session);
    // Read the current position before the answer, so that every later event is reported.
    if (!replaysHistory) await sessionWatch.skip();
    else
      for await (const updates of sessionWatch.replay(context.signal))
        for (const update of updates) {
          context.signal.throwIfAborted();
          sessions.sendUpdate(sessionId, update);
          await sessions.waitUntilReady(sessionId);
        }
    context.runAfterAnswer(() => {
      if (sessions.get(openSession.root) === openSession) sessions.follow(openSession, sessionWatch);
      void sessions.sessionUpdates.sendOptions(openSession);
      void sessions.sessionUpdates.sendCommands(openSession);
    });
    return openSession;
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
    const isOwn = (turn: Turn) => this.#prompts.isOwnTurn(turn);
    return this.#runAfterStop(params, isOwn, (root) => {
      this.#sessions.close(root);
      return Promise.resolve({});
    });
  }

  /** `session/delete` */
  delete(params: Params): Promise<unknown> {
    const matchesAll = () => true;
    return this.#runAfterStop(params, matchesAll, async (root) => {
      await this.#dependencies.agent.sessions.delete(root);
      return this.#facts.clientProfile.profile === "spec" ? null : {};
    });
  }

  /** `session/set_config_option` */
  setConfigOption(params: Params, context: RequestContext): Promise<unknown> {
    const sessionId = readString(params, "sessionId");
    return this.#runInOrder(sessionId, async () => {
      const configId = readString(params, "configId");
      const value = readOptionalString(params, "value");
      if (value === undefined) throw toParamsError("value", "a string");
      const { agent, logger } = this.#dependencies;
      const optionDependencies = { agent, logger, offersModes: this.#facts.clientProfile.isEditor };
      const storedSession = await this.#sessions.requireSession(sessionId);
      const openSession = this.#sessions.get(storedSession.chain.root);
      const session = await this.#sessions.sessionUpdates.applySetting(openSession, () =>
        setConfigOption(optionDependencies, storedSession, configId, value, context.signal),
      );
      const { options } = await loadConfigOptions(optionDependencies, session, context.signal);
      if (openSession) openSession.reportedOptions = options;
      return { configOptions: options };
    });
  }

  /** `session/set_mode` */
  setMode(params: Params, context: RequestContext): Promise<unknown> {
    const sessionId = readString(params, "sessionId");
    return this.#runInOrder(sessionId, async () => {
      const mode = findMode(readString(params, "modeId"));
      if (!mode) throw toParamsError("modeId", "the id of one of the session's modes");
      const { chain } = await this.#sessions.requireSession(sessionId);
      const openSession = this.#sessions.get(chain.root);
      const { sessionUpdates } = this.#sessions;
      const updateMode = () => this.#dependencies.agent.sessions.update(chain.root, { mode });
      await sessionUpdates.applySetting(openSession, updateMode, mode);
      if (openSession && this.#facts.clientProfile.isEditor)
        context.runAfterAnswer(() => void sessionUpdates.sendOptions(openSession, 0));
      return {};
    });
  }

  /** The field `modes` of an answer; empty for clients that do not show modes. */
  #toModeFields({ mode }: Session) {
    return this.#facts.clientProfile.isEditor ? { modes: toModeState(mode) } : {};
  }

  #readResources(params: Params): Promise<ClientResourcesResult> {
    const { agent, options } = this.#dependencies;
    return readClientResources(params, agent, {
      // Profile `spec` ignores the fields, as the interface specifies, unless `mcp` is set.
      readsFields: options.mcp ?? options.profile !== "spec",
      // The same as `mcpCapabilities.sse` in the result of `initialize`.
      allowsSse: this.#facts.clientProfile.isEditor,
    });
  }

  #logIgnoredFields(session: Session, { ignoredFields }: ClientResourcesResult): void {
    const { root } = session.chain;
    if (ignoredFields.length > 0 && !this.#sessions.get(root))
      this.#dependencies.logger.info(`${ignoredFields.join(" and ")} accepted and ignored`, { session: root });
  }

  /** Stops the matching prompts of a chain, then calls `work` with the root id. */
  #runAfterStop(
    params: Params,
    matches: (turn: Turn) => boolean,
    work: (root: string) => Promise<unknown>,
  ): Promise<unknown> {
    const sessionId = readString(params, "sessionId");
    // Stop at once. The other ids of the session are known only after the read.
    const firstStop = this.#dependencies.turns.stop([sessionId], matches);
    return this.#runInOrder(sessionId, async () => {
      const { chain, alias } = await this.#sessions.requireSession(sessionId);
      await firstStop;
      await this.#dependencies.turns.stop([alias, chain.root], matches);
      return await work(chain.root);
    });
  }

  /** Runs the changes of a session one after another, in the order of the requests. Settles like `work`. */
  #runInOrder<T>(sessionId: string, work: () => Promise<T>): Promise<T> {
    const previousChange = this.#pendingChangeBySessionId.get(sessionId);
    const result = previousChange ? previousChange.then(work) : work();
    const settled = result.then(
      () => undefined,
      () => undefined,
    );
    this.#pendingChangeBySessionId.set(sessionId, settled);
    void settled.then(() => {
      if (this.#pendingChangeBySessionId.get(sessionId) === settled) this.#pendingChangeBySessionId.delete(sessionId);
    });
    return result;
  }
}
