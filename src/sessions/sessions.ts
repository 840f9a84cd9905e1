import { selectPage } from "./message-page.js";
import { SessionServices, type SessionServicesOptions } from "./session-services.js";
import { requireSession, requireHead } from "./require-session.js";
import { listSubagentSessionIds } from "./subagents.js";
import { hasSessions } from "./folder-use.js";
import { hasLiveHolder } from "./lease.js";
import { checkFolder, createNewSession, type NewSession } from "./new-session.js";
import { InputError, SessionNotFoundError } from "../ports/errors.js";
import type { Message } from "../ports/message.js";
import type { Session, SessionMode } from "../ports/session.js";
import type { SessionFields } from "../ports/session-change.js";
import type { MessageSearchPage, SessionPage, SessionQuery } from "../ports/session-queries.js";
import type { WatchEvent, WatchOptions } from "../ports/watch.js";
import type { SearchInput } from "./search/search-messages.js";
import { cancelOpenRuns, checkSessionUpdate, type RunCanceller } from "./session-update.js";

export type { NewSession } from "./new-session.js";

/** Dependencies of `Sessions`, from its agent. */
export interface SessionsOptions extends SessionServicesOptions {
  projectDir: string;
  /** Default for new sessions. */
  mode: SessionMode;
  /** Whether a run of the chain is active in this process. */
  isRunningHere: (rootId: string) => boolean;
  watch: (id: string, options: WatchOptions) => AsyncIterable<WatchEvent>;
  /** Ends the chain's run in this process, if any, and waits for its end. */
  stopRun: (rootId: string) => Promise<void>;
  runs: () => RunCanceller;
}

/** Selects messages of a session. */
export interface MessagesQuery {
  /**
   * `all` (default): the complete conversation, each original message once. `model`: the messages that the model now
   * sees.
   */
  view?: "all" | "model" | undefined;
  /** Only messages with a greater `seq`; the first `limit` of them. */
  after?: number | undefined;
  /** Only messages with a smaller `seq`; the last `limit` of them. */
  before?: number | undefined;
  limit?: number | undefined;
}

/** Default size of a session list. */
const PAGE_SIZE = 50;

/** The rules of sessions. Every id may be an alias, or the id of any session of a chain. */
export class Sessions extends SessionServices {
  readonly #options: SessionsOptions;

  constructor(options: SessionsOptions) {
    super(options);
    this.#options = options;
  }

  /**
   * Creates a session without a run. Rejects with `ProjectFolderError`, or with `SessionExistsError` if the alias is in
   * use.
   */
  async create(input: NewSession = {}): Promise<Session> {
    await checkFolder(input.projectDir ?? this.#options.projectDir);
    const store = await this.#options.store();
    const session = createNewSession(input, this.#options, store);
    await store.create({ session });
    this.#options.bus.emit("session.created", { session });
    return session;
  }

  /** Returns the session with an id or alias; undefined if there is none. */
  async get(id: string): Promise<Session | undefined> {
    const store = await this.#options.store();
    return store.get(id);
  }

  /**
   * Originals, newest first. Default `limit`: 50. Sessions of subagents are listed only with `spawnedBy`, which takes
   * any id of the parent's chain. Rejects with `InputError`.
   */
  async list(query: { [Key in keyof SessionQuery]?: SessionQuery[Key] | undefined } = {}): Promise<SessionPage> {
    const { limit = PAGE_SIZE, ...filter } = query;
    for (const [field, value] of Object.entries({ limit, offset: filter.offset ?? 0 }))
      if (!Number.isSafeInteger(value) || value < 0) throw new InputError(field, "a whole number, at least 0");
    const store = await this.#options.store();
    const parent = filter.spawnedBy === undefined ? undefined : await store.get(filter.spawnedBy);
    return store.list({ limit, ...filter, ...(parent && { spawnedBy: parent.chain.root }) });
  }

  /** Finds messages by their words. Default `limit`: 50. A page may be empty although `next` is set. */
  async search(query: SearchInput): Promise<MessageSearchPage> {
    return (await import("./search/search-messages.js")).searchSessions(this.#options.store, query);
  }

  /** Messages in ascending `seq`. Rejects with `SessionNotFoundError`. */
  async messages(id: string, query: MessagesQuery = {}): Promise<Message[]> {
    const store = await this.#options.store();
    const { view = "all", ...page } = query;
    if (view === "all") return store.messages((await requireSession(store, id)).id, { ...page, scope: "chain" });
    const head = await store.head(id);
    if (!head) throw new SessionNotFoundError(id);
    return selectPage(head.messages, page);
  }

  /**
   * Events of the session from a cursor on: first the stored ones, then new ones from any process and client. Rejects
   * with `InputError` (invalid cursor), `SessionNotFoundError` or `StoreError`.
   */
  watch(id: string, options: WatchOptions = {}): AsyncIterable<WatchEvent> {
    return this.#options.watch(id, options);
  }

  /**
   * Sets the title, or settings of the session's next runs. `mode` and `permissionGrants` apply at once, also to an
   * active run. Grants can only be removed. `archived: true` cancels open runs first. `shared` also applies to subagents. Rejects with `InputError` or
   * `SessionNotFoundError`.
   */
  async update(
    id: string,
    fields: Omit<SessionFields, "hasFinalTitle" | "rewinds" | "projectDir" | "updatedAt">,
  ): Promise<Session> {
    const store = await this.#options.store();
    const head = await requireHead(store, id);
    const root = head.root.id;
    checkSessionUpdate(fields, head.root);
    if (fields.archived) await cancelOpenRuns(this.#options.runs(), root);
    const set: SessionFields = { ...fields, ...(fields.title === undefined ? {} : { hasFinalTitle: true }) };
    await store.write(head.newest.id, { fence: null, sync: true, set });
    if (fields.shared !== undefined)
      for (const id of await listSubagentSessionIds(store, root)) {
        await store.write(id, { fence: null, sync: true, set: { shared: fields.shared } });
        this.#options.notifyWatchers(id, false);
      }
    const session = await requireSession(store, root);
    this.#options.notifyWatchers(root, false);
    this.#options.bus.emit("session.updated", { sessionId: root, fields: Object.keys(fields), session });
    return session;
  }

  /**
   * Whether a run is active in the session's chain, in this process or another. Rejects with `SessionNotFoundError`.
   */
  async isRunning(id: string): Promise<boolean> {
    const store = await this.#options.store();
    const { chain } = await requireSession(store, id);
    if (this.#options.isRunningHere(chain.root)) return true;
    // A new run stores the end of interrupted ones, so at most one active run is stored.
    const activeRuns = await store.runs({ sessionId: chain.root, states: ["running", "waiting"], limit: 2 });
    return activeRuns.some(hasLiveHolder);
  }

  /**
   * Permanently deletes the complete chain and its subagents' sessions, after cancelling active runs. Rejects with
   * `SessionNotFoundError`.
   */
  async delete(id: string): Promise<void> {
    const store = await this.#options.store();
    const { chain, projectDir } = await requireSession(store, id);
    await this.#options.stopRun(chain.root);
    // The chain's own runs have ended, so no further subagents can start.
    const ids = [chain.root, ...(await listSubagentSessionIds(store, chain.root))];
    for (const subagentId of ids.slice(1)) await this.#options.stopRun(subagentId);
    const isUsed = (folder: string) => hasSessions(store, folder);
    const removeWorktree = await this.#options.worktrees?.prepareRemoval(projectDir, isUsed);
    await store.delete(ids);
    for (const deletedId of ids) this.#options.notifyWatchers(deletedId, true);
    this.#options.bus.emit("session.deleted", { ids });
    await removeWorktree?.();
  }
}
