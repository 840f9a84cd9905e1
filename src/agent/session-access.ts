import { monotonicMs } from "../base/clock.js";
import type { BusEvents } from "../ports/bus-events.js";
import type { Session } from "../ports/session.js";

/** Member of an agent that reports events. */
export interface EventSource {
  on<E extends keyof BusEvents>(event: E, listener: (payload: BusEvents[E]) => void): () => void;
}

/** Decides who may see a session. */
export type Access = Pick<Session, "owner" | "shared">;

interface Entry {
  /** Undefined before the first read, and without a session. */
  access: Access | undefined;
  readAtMs: number;
  reading: Promise<Access | undefined> | undefined;
}

/** Maximum number of sessions whose access is cached. Beyond it, all are forgotten. */
const MAX_SESSIONS = 10_000;
/** Time after which the access of another user's session is read again, because another process may change it, in ms. */
const MAX_AGE_MS = 1000;

/** The owners of sessions and whether these are shared, by any id of their chains. One for all users of an agent. */
export class SessionAccess {
  readonly #entries = new Map<string, Entry>();
  readonly #readRoot: (id: string) => Promise<Access | undefined>;

  /** `readRoot` reads the first session of a chain. */
  constructor(agent: EventSource, readRoot: (id: string) => Promise<Access | undefined>) {
    this.#readRoot = readRoot;
    for (const event of ["session.created", "session.updated"] as const)
      agent.on(event, ({ session }) => session.chain.index === 0 && this.remember(session));
  }

  /** Stores the access of a first session that was just read or changed. */
  remember({ id, owner, shared }: Access & { readonly id: string }): void {
    this.#set(id, { access: { ...(owner !== undefined && { owner }), ...(shared && { shared }) } });
  }

  /** Returns the access as it was last read. Reads an unknown or old one for the next call. */
  peek(id: string, user: string): Access | undefined {
    void this.get(id, user);
    return this.#entries.get(id)?.access;
  }

  /**
   * Returns the access, or a promise of it if it must be read. Undefined if there is no such session, or the read fails.
   * The promises of one session resolve in the order of the calls, and before a later call returns no promise.
   */
  get(id: string, user: string): Access | Promise<Access | undefined> | undefined {
    const entry = this.#entries.get(id);
    if (entry?.reading) return entry.reading;
    // The owner of a session never changes.
    if (entry && (entry.access?.owner === user || monotonicMs() - entry.readAtMs < MAX_AGE_MS)) return entry.access;
    const reading = this.#readRoot(id).catch(() => undefined);
    this.#set(id, { access: entry?.access, reading });
    void reading.then((access) => {
      if (this.#entries.get(id)?.reading === reading) this.#set(id, { access });
    });
    return reading;
  }

  #set(id: string, { access, reading }: Pick<Entry, "access"> & Partial<Entry>): void {
    if (this.#entries.size >= MAX_SESSIONS) this.#entries.clear();
    this.#entries.set(id, { access, readAtMs: monotonicMs(), reading });
  }
}
