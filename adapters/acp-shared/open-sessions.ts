import type { Agent, Logger, Session } from "gantry";
import { ConnectionClient, type AcpClient, type SharedFacts } from "./client.js";
import type { Dispatcher, Sink } from "./dispatcher.js";
import { sessionNotFound } from "./errors.js";
import { OpenSession } from "./open-session.js";
import type { AcpOptions } from "./options.js";
import type { Initialize } from "./params.js";
import type { ClientProfile } from "./profile.js";
import { SessionUpdates } from "./session-updates.js";
import type { Turns } from "./turns.js";
import { escapeInvisible } from "./printable-line.js";
import type { SessionWatch } from "./session-watch.js";
import { CLIENT_METHODS, type SessionUpdate } from "./wire.js";

/** Delay before a new session is watched, in ms, so that the first prompt is not slowed. No event is lost. */
const WATCH_DELAY_MS = 1_000;
/** Maximum characters of a client's name in stored answers. */
const MAX_NAME_CHARACTERS = 100;

/** State that the connections of one transport share. */
export interface ConnectionParts {
  agent: Agent;
  options: AcpOptions;
  logger: Logger;
  turns: Turns;
  /** Aborts when new prompts are rejected. */
  refusing: AbortSignal;
}

/** Facts about the client from `initialize`. */
export interface ClientFacts {
  readonly client: Initialize | undefined;
  readonly clientProfile: ClientProfile;
}

/** The open sessions of one client with their state and watches. */
export class OpenSessions {
  readonly sessionUpdates: SessionUpdates;
  readonly #parts: ConnectionParts;
  readonly #facts: ClientFacts;
  readonly #dispatcher: Dispatcher;
  readonly #sink: Sink;
  readonly #closing: AbortSignal;
  /** Open sessions by the id of the chain's first session. */
  readonly #open = new Map<string, OpenSession>();
  /** Active watches, until they have ended. */
  readonly #watching = new Set<Promise<void>>();
  readonly #shared: SharedFacts = { lacksPermissions: false };

  /** `closing` aborts when the client disconnects. */
  constructor(parts: ConnectionParts, facts: ClientFacts, dispatcher: Dispatcher, sink: Sink, closing: AbortSignal) {
    this.#parts = parts;
    this.#facts = facts;
    this.#dispatcher = dispatcher;
    this.#sink = sink;
    this.#closing = closing;
    const { agent, logger } = parts;
    const update = (sessionId: string, what: SessionUpdate) => this.update(sessionId, what);
    this.sessionUpdates = new SessionUpdates({
      agent,
      logger,
      modes: () => facts.clientProfile.editor,
      update,
      closing,
    });
  }

  /** Name of the client in stored answers. */
  get clientName(): string {
    const name = [...escapeInvisible(this.#facts.client?.clientName ?? "")].slice(0, MAX_NAME_CHARACTERS).join("");
    return name === "" ? "acp" : `acp:${name}`;
  }

  /**
   * Whether runs of a session may ask the client. Editors can always answer; other clients only by `requestPermission`
   * or in a mode other than `auto`.
   */
  canAsk({ mode }: Pick<Session, "mode">): boolean {
    return this.#parts.options.requestPermission || this.#facts.clientProfile.editor || mode !== "auto";
  }

  /**
   * Whether the client can answer questions of a session that is not open here, because it may load the session. For an
   * open session, its watch decides.
   */
  canAnswer(root: string): boolean {
    return !this.#open.has(root) && this.canAsk({ mode: "auto" }) && !this.#shared.lacksPermissions;
  }

  get(root: string): OpenSession | undefined {
    return this.#open.get(root);
  }

  /** The stored session with this id or alias. Rejects with `RpcError` if it does not exist. */
  async stored(sessionId: string): Promise<Session> {
    const session = await this.#parts.agent.sessions.get(sessionId);
    if (!session) throw sessionNotFound(sessionId);
    return session;
  }

  /** Registers a session as open under the client's id. */
  opened(session: Session, id: string): OpenSession {
    const open = this.#open.get(session.chain.root) ?? new OpenSession(session, id);
    open.id = id;
    this.#open.set(open.root, open);
    return open;
  }

  close(root: string): void {
    this.#open.get(root)?.watch?.end();
    this.#open.delete(root);
  }

  /** The client, for tools and questions of a session. */
  client(sessionId: string): AcpClient {
    const { client } = this.#facts;
    const capabilities = {
      readTextFile: client?.readTextFile === true,
      writeTextFile: client?.writeTextFile === true,
    };
    return new ConnectionClient(this.#dispatcher, sessionId, capabilities, this.#shared);
  }

  update(sessionId: string, update: SessionUpdate): void {
    this.#dispatcher.notify(CLIENT_METHODS.update, { sessionId, update });
  }

  ready(sessionId: string): Promise<void> | undefined {
    return this.#sink.ready(sessionId);
  }

  /** Starts the watch of a new session after a delay. */
  watchLater(open: OpenSession): void {
    setTimeout(() => void this.watch(open), WATCH_DELAY_MS).unref();
  }

  /** Starts the watch of a session, unless it is watched. Never rejects. */
  async watch(open: OpenSession): Promise<void> {
    const { logger } = this.#parts;
    try {
      const isWanted = () => !this.#closing.aborted && !open.watch && this.#open.get(open.root) === open;
      if (!isWanted()) return;
      const watching = await this.createWatch(open, await this.stored(open.root));
      if (isWanted()) this.follow(open, watching);
    } catch (error) {
      if (!this.#closing.aborted)
        logger.warn("session watch failed; the client gets no updates of other runs", { session: open.root, error });
    }
  }

  /** Creates a watch without starting it. */
  async createWatch(open: OpenSession, { projectDir }: Session): Promise<SessionWatch> {
    // Loaded on demand: neither the start nor a first prompt needs it.
    const { agent, logger } = this.#parts;
    // The tools define how stored calls are shown.
    const [{ SessionWatch: Watching }] = await Promise.all([import("./session-watch.js"), agent.prepare()]);
    const { clientProfile } = this.#facts;
    return new Watching({
      agent,
      logger,
      open,
      projectDir: open.cwd ?? projectDir,
      ...clientProfile,
      client: this.client(open.id),
      clientName: this.clientName,
      canAsk: (now) => this.canAsk(now),
      send: (update) => this.update(open.id, update),
      reader: () => this.#sink.reader(open.id),
      ready: () => this.#sink.ready(open.id),
      changed: (session) => void this.sessionUpdates.refresh(open, session),
      deleted: () => this.close(open.root),
      closing: this.#closing,
    });
  }

  /** Starts to send the session's events of other clients, in place of an earlier watch. */
  follow(open: OpenSession, watching: SessionWatch): void {
    open.watch?.end();
    open.watch = watching;
    const ended = watching.follow();
    this.#watching.add(ended);
    void ended.finally(() => this.#watching.delete(ended));
  }

  /** Resolves when all watches have ended, after the client has disconnected. */
  async ended(): Promise<void> {
    await Promise.all(this.#watching);
  }
}
