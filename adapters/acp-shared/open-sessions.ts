import type { Agent, Logger, Session } from "gantry";
import { ConnectionClient, type AcpClient, type SharedFacts } from "./client.js";
import type { Dispatcher, Sink } from "./dispatcher.js";
import { sessionNotFound } from "./errors.js";
import { OpenSession } from "./open-session.js";
import type { AcpOptions } from "./options.js";
import type { Initialize } from "./params.js";
import type { Manner } from "./profile.js";
import { SessionNews } from "./session-updates.js";
import type { Turns } from "./turns.js";
import { visible } from "./printable-line.js";
import type { Watching } from "./session-watch.js";
import { CLIENT_METHODS, type SessionUpdate } from "./wire.js";

/** A session that is new is watched so much later, in ms: its client's first prompt goes before. Nothing is lost by it. */
const WATCHED_MS = 1_000;
/** Of a client's name so many characters are stored with its answers. */
const NAME = 100;

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

/** The sessions that one client has open: what it knows of each, and what tells it the rest. */
export class OpenSessions {
  readonly news: SessionNews;
  readonly #parts: ConnectionParts;
  readonly #facts: ClientFacts;
  readonly #dispatcher: Dispatcher;
  readonly #sink: Sink;
  readonly #closing: AbortSignal;
  /** By the persisted id of a chain's first session. */
  readonly #open = new Map<string, OpenSession>();
  /** All that watch, until they have ended. */
  readonly #watching = new Set<Promise<void>>();
  readonly #shared: SharedFacts = { lacksPermissions: false };

  /** `closing` aborts when the client is gone. */
  constructor(parts: ConnectionParts, facts: ClientFacts, dispatcher: Dispatcher, sink: Sink, closing: AbortSignal) {
    this.#parts = parts;
    this.#facts = facts;
    this.#dispatcher = dispatcher;
    this.#sink = sink;
    this.#closing = closing;
    const { agent, logger } = parts;
    const update = (sessionId: string, what: SessionUpdate) => this.update(sessionId, what);
    this.news = new SessionNews({ agent, logger, modes: () => facts.manner.editor, update, closing });
  }

  /** Names the client in what is stored of its answers. */
  get askedAt(): string {
    const name = [...visible(this.#facts.client?.clientName ?? "")].slice(0, NAME).join("");
    return name === "" ? "acp" : `acp:${name}`;
  }

  /** Whether a session's runs may ask the client: editors know how, of any other somebody has to have said so. */
  mayAsk({ mode }: Pick<Session, "mode">): boolean {
    return this.#parts.options.requestPermission || this.#facts.manner.editor || mode !== "auto";
  }

  /**
   * Whether the client's person can answer questions of a session that is not open here: the client may load it. Those of
   * an open session are put to the client, and its watcher says whether they are answered.
   */
  answers(root: string): boolean {
    return !this.#open.has(root) && this.mayAsk({ mode: "auto" }) && !this.#shared.lacksPermissions;
  }

  get(root: string): OpenSession | undefined {
    return this.#open.get(root);
  }

  /** A session as it is stored, by any of its ids. Rejects with `RpcError` when there is none. */
  async stored(sessionId: string): Promise<Session> {
    const session = await this.#parts.agent.sessions.get(sessionId);
    if (!session) throw sessionNotFound(sessionId);
    return session;
  }

  /** The client has a session open, under this id. */
  opened(session: Session, id: string): OpenSession {
    const open = this.#open.get(session.chain.root) ?? new OpenSession(session, id);
    open.id = id;
    this.#open.set(open.root, open);
    return open;
  }

  close(root: string): void {
    this.#open.get(root)?.watching?.end();
    this.#open.delete(root);
  }

  /** The client itself, as a session's tools and questions reach it. */
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

  /** Have a new session watched in a while. */
  watchLater(open: OpenSession): void {
    setTimeout(() => void this.watch(open), WATCHED_MS).unref();
  }

  /** Have a session watched, unless it is. Never rejects. */
  async watch(open: OpenSession): Promise<void> {
    const { logger } = this.#parts;
    try {
      const isWanted = () => !this.#closing.aborted && !open.watching && this.#open.get(open.root) === open;
      if (!isWanted()) return;
      const watching = await this.watching(open, await this.stored(open.root));
      if (isWanted()) this.follow(open, watching);
    } catch (error) {
      if (!this.#closing.aborted) logger.warn("a session could not be watched", { session: open.root, error });
    }
  }

  /** What watches a session for the client, before it begins. */
  async watching(open: OpenSession, { projectDir }: Session): Promise<Watching> {
    // No start and no first prompt needs it.
    const { agent, logger } = this.#parts;
    // How a stored call is shown the tools say.
    const [{ Watching }] = await Promise.all([import("./session-watch.js"), agent.prepare()]);
    const { manner } = this.#facts;
    return new Watching({
      agent,
      logger,
      open,
      projectDir: open.cwd ?? projectDir,
      ...manner,
      client: this.client(open.id),
      askedAt: this.askedAt,
      mayAsk: (now) => this.mayAsk(now),
      send: (update) => this.update(open.id, update),
      reader: () => this.#sink.reader(open.id),
      ready: () => this.#sink.ready(open.id),
      changed: (session) => void this.news.found(open, session),
      deleted: () => this.close(open.root),
      closing: this.#closing,
    });
  }

  /** From now on the client is told what others do in the session. */
  follow(open: OpenSession, watching: Watching): void {
    open.watching?.end();
    open.watching = watching;
    const ended = watching.follow();
    this.#watching.add(ended);
    void ended.finally(() => this.#watching.delete(ended));
  }

  /** Resolves when nothing is watched any more; the client is gone. */
  async ended(): Promise<void> {
    await Promise.all(this.#watching);
  }
}
