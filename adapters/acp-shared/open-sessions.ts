import type { Agent, Logger, Session } from "gantry";
import { ConnectionClient, type AcpClient, type SharedFacts } from "./client.js";
import type { Dispatcher, Sink } from "./dispatcher.js";
import { createSessionNotFoundError } from "./errors.js";
import { OpenSession } from "./open-session.js";
import type { AcpOptions } from "./options.js";
import type { InitializeData } from "./params.js";
import type { ClientProfile } from "./profile.js";
import { SessionUpdates } from "./session-updates.js";
import { Terminals } from "./terminals.js";
import type { Turns } from "./turns.js";
import type { SessionWatch } from "./session-watch.js";
import { CLIENT_METHODS, type SessionUpdate } from "./wire.js";

/** Delay before a session is watched, in ms. The first prompts have priority; the watch sends earlier events too. */
const WATCH_DELAY_MS = 1_000;

/** State that the connections of one transport share. */
export interface ConnectionDependencies {
  agent: Agent;
  options: AcpOptions;
  logger: Logger;
  turns: Turns;
  /** Aborts when new prompts are rejected. */
  drainSignal: AbortSignal;
  /** Whether requests that start work are refused now. Undefined: never. */
  isOverloaded?: (() => boolean) | undefined;
}

/** Facts about the client from `initialize`. */
export interface ClientFacts {
  /** Undefined before `initialize`. */
  readonly client: InitializeData | undefined;
  /** Name in stored answers and in the log: `acp:Zed`, or `acp` without a name. */
  readonly clientName: string;
  readonly clientProfile: ClientProfile;
}

/** The open sessions of one client with their state and watches. */
export class OpenSessions {
  readonly sessionUpdates: SessionUpdates;
  readonly #dependencies: ConnectionDependencies;
  readonly #facts: ClientFacts;
  readonly #dispatcher: Dispatcher;
  readonly #sink: Sink;
  readonly #closeSignal: AbortSignal;
  /** Open sessions by the id of the chain's first session. */
  readonly #openSessionsByRootId = new Map<string, OpenSession>();
  /** Active watches, until they have ended. */
  readonly #activeWatches = new Set<Promise<void>>();
  readonly #sharedFacts: SharedFacts = { lacksPermissions: false };
  /** Created for the first update of a client that shows terminals. */
  #terminals: Terminals | undefined;

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
    this.#dispatcher = dispatcher;
    this.#sink = sink;
    this.#closeSignal = closeSignal;
    const { agent, logger } = dependencies;
    const sendUpdate = (openSession: OpenSession, update: SessionUpdate) => {
      if (this.get(openSession.root) === openSession) this.sendUpdate(openSession.id, update);
    };
    this.sessionUpdates = new SessionUpdates({
      agent,
      logger,
      offersModes: () => facts.clientProfile.isEditor,
      sendUpdate,
      closeSignal,
    });
  }

  /**
   * Whether runs of a session may ask the client. An editor or a client with forms can always answer. Other clients are
   * asked only with the option `requestPermission`, or in a mode other than `auto`.
   */
  canAsk({ mode }: Pick<Session, "mode">): boolean {
    const { clientProfile, client } = this.#facts;
    const canAlwaysAnswer = clientProfile.isEditor || client?.supportsForms === true;
    return this.#dependencies.options.requestPermission || canAlwaysAnswer || mode !== "auto";
  }

  /** Whether the client gets updates of its own prompts only, as the interface specification requires. */
  get #hasOwnUpdatesOnly(): boolean {
    return this.#dependencies.options.profile === "spec";
  }

  /** Whether the client gets changes of the session's title and settings. */
  receivesChanges(openSession: OpenSession): boolean {
    return !this.#hasOwnUpdatesOnly || openSession.hasOwnRuns;
  }

  /**
   * Whether the client can answer questions of a session that is not open here, because it may load the session. A
   * session that is being loaded counts as not open, so that its questions are not denied meanwhile. For an open
   * session, its watch or the client's own prompt decides.
   */
  canAnswer(root: string): boolean {
    if (this.#hasOwnUpdatesOnly) return false;
    const { watch, hasWatchFailed, promptStart, ownRun } = this.#openSessionsByRootId.get(root) ?? {};
    const isDecidedElsewhere = watch?.isFollowing || hasWatchFailed || promptStart !== undefined || ownRun?.asksClient;
    return !isDecidedElsewhere && this.canAsk({ mode: "auto" }) && !this.#sharedFacts.lacksPermissions;
  }

  get(root: string): OpenSession | undefined {
    return this.#openSessionsByRootId.get(root);
  }

  /** The stored session with this id or alias. Rejects with `RpcError` if it does not exist. */
  async requireSession(sessionId: string): Promise<Session> {
    const session = await this.#dependencies.agent.sessions.get(sessionId);
    if (!session) throw createSessionNotFoundError(sessionId);
    return session;
  }

  /** Registers a session as open under the client's id. */
  register(session: Session, id: string): OpenSession {
    const openSession = this.#openSessionsByRootId.get(session.chain.root) ?? new OpenSession(session, id);
    openSession.id = id;
    this.#openSessionsByRootId.set(openSession.root, openSession);
    return openSession;
  }

  close(root: string): void {
    this.#openSessionsByRootId.get(root)?.watch?.end();
    this.#openSessionsByRootId.delete(root);
  }

  /** Creates the interface to the client for tools and questions of a session. */
  createClient(sessionId: string): AcpClient {
    const { client } = this.#facts;
    const capabilities = {
      readTextFile: client?.readTextFile === true,
      writeTextFile: client?.writeTextFile === true,
    };
    const showsForms = client?.supportsForms === true;
    return new ConnectionClient(this.#dispatcher, sessionId, capabilities, this.#sharedFacts, showsForms);
  }

  sendUpdate(sessionId: string, update: SessionUpdate): void {
    if (!this.#facts.clientProfile.showsTerminals) {
      this.#dispatcher.notify(CLIENT_METHODS.update, { sessionId, update });
      return;
    }
    this.#terminals ??= new Terminals();
    this.#dispatcher.notify(CLIENT_METHODS.update, { sessionId, update: this.#terminals.convert(sessionId, update) });
  }

  waitUntilReady(sessionId: string): Promise<void> | undefined {
    return this.#sink.waitUntilReady(sessionId);
  }

  /** Starts the watch of a session after a delay, unless the session is watched already. */
  scheduleWatch(openSession: OpenSession): void {
    if (openSession.watch || openSession.watchTimer || this.#hasOwnUpdatesOnly) return;
    openSession.watchTimer = setTimeout(() => {
      openSession.watchTimer = undefined;
      void this.#watch(openSession);
    }, WATCH_DELAY_MS).unref();
  }

  /** Starts the watch of a session that is open and not watched yet. Never rejects. */
  async #watch(openSession: OpenSession): Promise<void> {
    const { logger } = this.#dependencies;
    try {
      const needsWatch = () =>
        !this.#closeSignal.aborted &&
        !openSession.watch &&
        this.#openSessionsByRootId.get(openSession.root) === openSession;
      if (!needsWatch()) return;
      const sessionWatch = await this.createWatch(openSession, await this.requireSession(openSession.root));
      if (needsWatch()) this.follow(openSession, sessionWatch);
    } catch (error) {
      openSession.hasWatchFailed = true;
      if (!this.#closeSignal.aborted)
        logger.warn("session watch failed; the client gets no updates of other runs", {
          session: openSession.root,
          error,
        });
    }
  }

  /** Creates a watch without starting it. */
  async createWatch(openSession: OpenSession, { projectDir }: Session): Promise<SessionWatch> {
    const { agent, logger } = this.#dependencies;
    // Load the module on demand: neither the start nor a first prompt needs the module. Prepare the agent, because its
    // tools define how stored calls are shown.
    const [{ SessionWatch: Watch }] = await Promise.all([import("./session-watch.js"), agent.prepare()]);
    const { clientProfile } = this.#facts;
    return new Watch({
      agent,
      logger,
      openSession,
      projectDir: openSession.cwd ?? projectDir,
      ...clientProfile,
      client: this.createClient(openSession.id),
      clientName: this.#facts.clientName,
      canAsk: (session) => this.canAsk(session),
      send: (update) => this.sendUpdate(openSession.id, update),
      waitForReader: () => this.#sink.waitForReader(openSession.id),
      waitUntilReady: () => this.#sink.waitUntilReady(openSession.id),
      onSession: (session) => void this.sessionUpdates.refresh(openSession, session),
      onDeleted: () => this.close(openSession.root),
      closeSignal: this.#closeSignal,
    });
  }

  /** Replaces an earlier watch: the new watch sends the session's events of other clients from now on. */
  follow(openSession: OpenSession, sessionWatch: SessionWatch): void {
    if (this.#hasOwnUpdatesOnly) return sessionWatch.end();
    openSession.watch?.end();
    openSession.watch = sessionWatch;
    const watchEnded = sessionWatch.follow();
    this.#activeWatches.add(watchEnded);
    void watchEnded.finally(() => this.#activeWatches.delete(watchEnded));
  }

  /** Resolves when all watches have ended, after the client has disconnected. */
  async waitForWatches(): Promise<void> {
    await Promise.all(this.#activeWatches);
  }
}
