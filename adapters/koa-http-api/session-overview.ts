import { isDeepStrictEqual } from "node:util";
import type { Agent, Logger, Session } from "gantry";
import { ACTIVE_STATES } from "./run-routes.js";
import type { Ask, ResponseBody, Session as SessionShape } from "./shapes.js";
import { toWireAsk } from "./wire-live.js";
import { toWireSession } from "./wire-stored.js";

type WireAsk = ResponseBody<typeof Ask>;
type WireSession = ResponseBody<typeof SessionShape>;

/** Interval at which the store is read for changes of other processes, in ms. */
const POLL_INTERVAL_MS = 2_000;
/** Delay after a change of this process, in ms; changes within the delay cause one read. */
const CHANGE_DELAY_MS = 50;
/** Maximum open questions in the list. */
const MAX_ASKS = 100;
/** Number of sessions, last used first, whose changes by other processes are noticed. */
const SESSION_COUNT = 100;
/** Maximum number of active runs that the sessions show. */
const MAX_ACTIVE_RUNS = 1000;

/** Changes since the last ones that a reader took. */
export interface OverviewChanges {
  /** All open questions, newest first; undefined if they did not change. */
  asks: readonly WireAsk[] | undefined;
  /** Changed sessions by id; null for a deleted session. */
  sessions: ReadonlyMap<string, WireSession | null>;
}

/**
 * The open questions and the last used sessions of an agent, for all clients that watch them. The store is read only
 * while a reader is open: after each change of this process, and periodically for changes of other processes.
 */
export class SessionOverview {
  readonly #agent: Agent;
  readonly #logger: Logger;
  readonly #readers = new Set<OverviewReader>();
  #asks: readonly WireAsk[] | undefined;
  /** The last used sessions at the last read, by id; undefined before the first read. */
  #sessions: ReadonlyMap<string, WireSession> | undefined;
  /** Sessions that this process changed since the last read. */
  #changedIds = new Set<string>();
  #removeListeners: (() => void)[] = [];
  #timer: NodeJS.Timeout | undefined;
  #dueMs = Infinity;
  #reading: Promise<void> = Promise.resolve();

  constructor(agent: Agent, logger: Logger) {
    this.#agent = agent;
    this.#logger = logger;
  }

  /** Opens a reader, which gets the questions first. The caller must close it. */
  open(): OverviewReader {
    const reader: OverviewReader = new OverviewReader(() => this.#remove(reader));
    if (this.#readers.size === 0) this.#addListeners();
    this.#readers.add(reader);
    this.#schedule(0);
    return reader;
  }

  /** Resolves when no read is active. */
  #remove(reader: OverviewReader): Promise<void> {
    this.#readers.delete(reader);
    if (this.#readers.size === 0) {
      for (const removeListener of this.#removeListeners.splice(0)) removeListener();
      clearTimeout(this.#timer);
      this.#dueMs = Infinity;
      this.#asks = this.#sessions = undefined;
      this.#changedIds.clear();
    }
    return this.#reading;
  }

  #addListeners(): void {
    const agent = this.#agent;
    const noteChange = (...ids: readonly string[]) => {
      for (const id of ids) this.#changedIds.add(id);
      this.#schedule(CHANGE_DELAY_MS);
    };
    this.#removeListeners = [
      agent.on("session.created", ({ session }) => noteChange(session.id)),
      agent.on("session.updated", ({ sessionId }) => noteChange(sessionId)),
      agent.on("session.reverted", ({ sessionId }) => noteChange(sessionId)),
      agent.on("session.deleted", ({ ids }) => noteChange(...ids)),
      agent.on("run.started", ({ sessionId }) => noteChange(sessionId)),
      agent.on("run.finished", ({ sessionId }) => noteChange(sessionId)),
      agent.on("run.failed", ({ sessionId }) => noteChange(sessionId)),
      agent.on("ask.opened", ({ sessionId }) => noteChange(sessionId)),
      agent.on("ask.closed", ({ sessionId }) => noteChange(sessionId)),
    ];
  }

  #schedule(delayMs: number): void {
    const dueMs = performance.now() + delayMs;
    if (this.#readers.size === 0 || this.#dueMs <= dueMs) return;
    clearTimeout(this.#timer);
    this.#dueMs = dueMs;
    this.#timer = setTimeout(() => {
      this.#dueMs = Infinity;
      // Reads follow one another, so that an older result never replaces a newer one.
      this.#reading = this.#reading.then(() => this.#read());
    }, delayMs);
  }

  async #read(): Promise<void> {
    const changedIds = this.#changedIds;
    this.#changedIds = new Set();
    try {
      const agent = this.#agent;
      const [asks, { sessions }, runs] = await Promise.all([
        agent.asks.list({ open: true, limit: MAX_ASKS }),
        agent.sessions.list({ limit: SESSION_COUNT, archived: "include" }),
        agent.runs.list({ states: ACTIVE_STATES, limit: MAX_ACTIVE_RUNS }),
      ]);
      const runsBySessionId = new Map(runs.map((run) => [run.sessionId, run]));
      const toWire = (session: Session) => toWireSession(session, runsBySessionId.get(session.id));
      const listedSessions = new Map(sessions.map((session) => [session.id, toWire(session)]));
      const changes = await this.#findChanges(listedSessions, changedIds, toWire);
      this.#publish(asks.map(toWireAsk), changes);
      this.#sessions = listedSessions;
    } catch (error) {
      for (const id of changedIds) this.#changedIds.add(id);
      this.#logger.debug("open questions and sessions cannot be read; the next attempt follows", { error });
    }
    this.#schedule(POLL_INTERVAL_MS);
  }

  /** Returns the changed sessions; null for a deleted session. */
  async #findChanges(
    listedSessions: ReadonlyMap<string, WireSession>,
    changedIds: ReadonlySet<string>,
    toWire: (session: Session) => WireSession,
  ): Promise<Map<string, WireSession | null>> {
    const changes = new Map<string, WireSession | null>();
    // Clients load the list after they have opened a stream: the first read has no changes for them.
    if (this.#sessions)
      for (const [id, session] of listedSessions)
        if (!isDeepStrictEqual(session, this.#sessions.get(id))) changes.set(id, session);
    for (const id of new Set([...changedIds, ...(this.#sessions?.keys() ?? [])])) {
      if (listedSessions.has(id)) continue;
      const session = await this.#getRoot(id);
      if (!session) changes.set(id, null);
      // No list contains the sessions of subagents. A session that left the listed ones is unchanged.
      else if (changedIds.has(id) && !session.spawnedBy && !listedSessions.has(session.id))
        changes.set(session.id, toWire(session));
    }
    return changes;
  }

  /** The first session of a chain, which lists show. */
  async #getRoot(id: string): Promise<Session | undefined> {
    const session = await this.#agent.sessions.get(id);
    return session && session.id !== session.chain.root ? this.#agent.sessions.get(session.chain.root) : session;
  }

  #publish(asks: readonly WireAsk[], sessions: ReadonlyMap<string, WireSession | null>): void {
    const areAsksNew = !isDeepStrictEqual(asks, this.#asks);
    if (areAsksNew) this.#asks = asks;
    for (const reader of this.#readers) reader.add(this.#asks ?? asks, areAsksNew, sessions);
  }
}

/** Changes that one client has not taken yet. A slow client gets only the newest state of each session. */
export class OverviewReader {
  /** Removes the reader. Resolves when no read is active. */
  readonly close: () => Promise<void>;
  #hasAsks = false;
  #asks: readonly WireAsk[] | undefined;
  #sessions = new Map<string, WireSession | null>();
  #wake: (() => void) | undefined;

  constructor(close: () => Promise<void>) {
    this.close = close;
  }

  /** Adds the results of a read. `areAsksNew`: whether the questions changed since the last read. */
  add(asks: readonly WireAsk[], areAsksNew: boolean, sessions: ReadonlyMap<string, WireSession | null>): void {
    if (areAsksNew || !this.#hasAsks) this.#asks = asks;
    this.#hasAsks = true;
    for (const [id, session] of sessions) this.#sessions.set(id, session);
    if (this.#asks || this.#sessions.size > 0) this.#wake?.();
  }

  /** Resolves with the changes when there are some; without changes when the signal aborts. */
  async take(signal: AbortSignal): Promise<OverviewChanges> {
    if (!this.#asks && this.#sessions.size === 0 && !signal.aborted)
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        signal.addEventListener("abort", () => resolve(), { once: true });
      });
    this.#wake = undefined;
    const changes = { asks: this.#asks, sessions: this.#sessions };
    this.#asks = undefined;
    this.#sessions = new Map();
    return changes;
  }
}
