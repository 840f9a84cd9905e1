import { fork } from "./fork.js";
import { requireSession, requireHead } from "./require-session.js";
import { listSubagentSessionIds } from "./subagents.js";
import { restore, revert } from "./revert.js";
import { hasLiveHolder, ActiveLease, type BackgroundTasks } from "./lease.js";
import { checkFolder, createNewSession, type NewSession } from "./new-session.js";
import type { Logger } from "../ports/logger.js";
import { InputError, PointNotFoundError, SessionNotFoundError } from "../ports/errors.js";
import type { Bus } from "../base/bus.js";
import type { BusEvents } from "../ports/bus-events.js";
import type { Message } from "../ports/message.js";
import type { Session, SessionMode, Snapshot } from "../ports/session.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { SessionFields } from "../ports/session-change.js";
import type { SessionPage, SessionQuery } from "../ports/session-queries.js";
import type { WatchEvent, WatchOptions } from "../ports/watch.js";
import type { FileHistory, UndoneFile } from "../ports/file-history.js";
import type { UndoResult, UndoOptions } from "./undo.js";
import { cancelOpenRuns, checkSessionUpdate, type RunCanceller } from "./session-update.js";

export type { NewSession } from "./new-session.js";

/** Dependencies of `Sessions`, from its agent. */
export interface SessionsOptions {
  /** Opens the store with the first call. */
  store: () => Promise<SessionDriver>;
  bus: Bus<BusEvents>;
  logger: Logger;
  projectDir: string;
  /** Default for new sessions. */
  mode: SessionMode;
  /** Whether a run of the chain is active in this process. */
  isRunningHere: (rootId: string) => boolean;
  /** Notifies watchers of a chain of a change. `hasMessageChanges`: whether messages changed too. */
  notifyWatchers: (rootId: string, hasMessageChanges: boolean) => void;
  watch: (id: string, options: WatchOptions) => AsyncIterable<WatchEvent>;
  /** Ends the chain's run in this process, if any, and waits for its end. */
  stopRun: (rootId: string) => Promise<void>;
  runs: () => RunCanceller;
  background: BackgroundTasks;
  /** Records files before tools change them. Undefined: disabled. */
  fileHistory: FileHistory | undefined;
}

/** Options of a revert. */
export interface RevertOptions {
  /** Whether to restore files that tools of this session changed since. Default false. */
  files?: boolean | undefined;
  /** With `files`: whether to overwrite files changed outside the session. Default false. */
  force?: boolean | undefined;
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
export class Sessions {
  readonly #options: SessionsOptions;

  constructor(options: SessionsOptions) {
    this.#options = options;
  }

  /**
   * Creates a session without a run. Rejects with `ProjectFolderError`, or with `SessionExistsError` if the alias is in
   * use.
   */
  async create(input: NewSession = {}): Promise<Session> {
    const session = createNewSession(input, this.#options);
    await checkFolder(session.projectDir);
    const store = await this.#options.store();
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
   * active run. Grants can only be removed. `archived: true` cancels open runs first. Rejects with `InputError` or
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
    const session = await requireSession(store, root);
    this.#options.notifyWatchers(root, false);
    this.#options.bus.emit("session.updated", { sessionId: root, fields: Object.keys(fields), session });
    return session;
  }

  /**
   * Creates a session with a copy of the conversation up to and including a message. The copy shares no data with this
   * session, and stays when this session is deleted. The original messages of a complete chain are copied; the copy is
   * compacted again on use. Rejects with `SessionNotFoundError`, `PointNotFoundError` or `SessionBusyError`.
   */
  async fork(id: string, messageId: string): Promise<Session> {
    return this.#withLease(id, async (store, source) => {
      const session = await fork(store, source, messageId);
      this.#options.bus.emit("session.created", { session });
      this.#options.bus.emit("session.forked", { from: source.chain.root, to: session.id });
      return session;
    });
  }

  /**
   * Hides all messages after a message. Files changed meanwhile stay unless `files` is set; the result then lists these
   * files and the snapshot for `restore`. Rejects like `fork`, with `files` also like `undo`.
   */
  async revert(id: string, messageId: string): Promise<Snapshot>;
  async revert(
    id: string,
    messageId: string,
    options: RevertOptions,
  ): Promise<Snapshot & { files?: readonly UndoneFile[] }>;
  async revert(
    id: string,
    messageId: string,
    { files: withFiles = false, force = false }: RevertOptions = {},
  ): Promise<Snapshot & { files?: readonly UndoneFile[] }> {
    if (messageId === "") throw new PointNotFoundError("message");
    return this.#withLease(id, async (store, session, fence) => {
      if (!withFiles) return this.#publishRevert(session, await revert(store, fence, session.id, messageId));
      const { undo } = await import("./undo.js");
      const undoContext = { store, session, fence, history: this.#options.fileHistory };
      const { files, snapshot } = await undo(undoContext, { to: messageId, force });
      // Without messages to hide there is still a snapshot, as without `files`.
      return {
        ...this.#publishRevert(session, snapshot ?? (await revert(store, fence, session.id, messageId))),
        files,
      };
    });
  }

  /**
   * Undoes the last run, or everything after a message: hides the messages and restores files that this session's tools
   * changed. Changes by commands and other programs stay. A file that changed outside the session since prevents the
   * undo. Rejects like `fork`, with `NothingToUndoError`, or with `UndoConflictError`.
   */
  async undo(id: string, options: UndoOptions = {}): Promise<UndoResult> {
    return this.#withLease(id, async (store, session, fence) => {
      const { undo } = await import("./undo.js");
      const result = await undo({ store, session, fence, history: this.#options.fileHistory }, options);
      if (result.snapshot) this.#publishRevert(session, result.snapshot);
      return result;
    });
  }

  /**
   * Reverts the last undo: messages and files are as before the undo. Not possible if messages were added since.
   * Rejects like `undo`.
   */
  async redo(id: string, options: Pick<UndoOptions, "dryRun" | "force"> = {}): Promise<UndoResult> {
    return this.#withLease(id, async (store, session, fence) => {
      const { redo } = await import("./undo.js");
      const result = await redo({ store, session, fence, history: this.#options.fileHistory }, options);
      if (options.dryRun !== true)
        this.#publishRestore(session.chain.root, await requireSession(store, session.chain.root));
      return result;
    });
  }

  /**
   * Restores the conversation from before the revert that made the snapshot. Messages added since are hidden first.
   * Resolves with the new snapshot of these messages; undefined if there were none. Rejects like `fork`.
   */
  async restore(id: string, snapshotId: string): Promise<Snapshot | undefined> {
    return this.#withLease(id, async (store, { id: sessionId, chain }, fence) => {
      const newSnapshot = await restore(store, fence, sessionId, snapshotId);
      this.#publishRestore(chain.root, await requireSession(store, chain.root));
      return newSnapshot;
    });
  }

  /** Snapshots that can be restored, oldest first. Rejects with `SessionNotFoundError`. */
  async snapshots(id: string): Promise<Snapshot[]> {
    return (await requireHead(await this.#options.store(), id)).snapshots;
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
    const { chain } = await requireSession(store, id);
    await this.#options.stopRun(chain.root);
    // The chain's own runs have ended, so no further subagents can start.
    const ids = [chain.root, ...(await listSubagentSessionIds(store, chain.root))];
    for (const subagentId of ids.slice(1)) await this.#options.stopRun(subagentId);
    await store.delete(ids);
    for (const deletedId of ids) this.#options.notifyWatchers(deletedId, true);
    this.#options.bus.emit("session.deleted", { ids });
  }

  #publishRevert({ chain }: Session, snapshot: Snapshot): Snapshot {
    this.#options.notifyWatchers(chain.root, true);
    this.#options.bus.emit("session.reverted", { sessionId: chain.root, snapshotId: snapshot.id });
    return snapshot;
  }

  #publishRestore(rootId: string, session: Session): void {
    this.#options.notifyWatchers(rootId, true);
    this.#options.bus.emit("session.updated", { sessionId: rootId, fields: ["messages"], session });
  }

  /** Runs work under the chain's lease, so that no run is active meanwhile. */
  async #withLease<T>(
    id: string,
    work: (store: SessionDriver, session: Session, fence: number) => Promise<T>,
  ): Promise<T> {
    const store = await this.#options.store();
    const session = await requireSession(store, id);
    const lease = await ActiveLease.take(store, session.chain.root, this.#options.logger);
    try {
      return await work(store, session, lease.fence);
    } finally {
      await lease.releaseWithRetries(this.#options.background);
    }
  }
}

function selectPage(messages: Message[], page: { after?: number; before?: number; limit?: number }): Message[] {
  const { after = -Infinity, before = Infinity, limit = Infinity } = page;
  const matchingMessages = messages.filter((message) => message.seq > after && message.seq < before);
  return page.before !== undefined && page.after === undefined
    ? matchingMessages.slice(-limit)
    : matchingMessages.slice(0, limit);
}
