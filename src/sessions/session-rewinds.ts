import { now } from "../base/ids.js";
import type { Bus } from "../base/bus.js";
import type { BusEvents } from "../ports/bus-events.js";
import { PointNotFoundError } from "../ports/errors.js";
import type { ChangedFiles, FileHistory, UndoneFile } from "../ports/file-history.js";
import type { Logger } from "../ports/logger.js";
import type { Session, Snapshot } from "../ports/session.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { ChangedFilesQuery } from "./changed-files.js";
import { fork } from "./fork.js";
import { ActiveLease, type BackgroundTasks } from "./lease.js";
import { requireHead, requireSession } from "./require-session.js";
import { findMessageBefore, restore, revert } from "./revert.js";
import type { ChangeUndoOptions } from "./undo-change.js";
import type { UndoOptions, UndoResult } from "./undo.js";

/** Services for changes of earlier content. */
export interface RewindServices {
  /** Opens the store with the first call. */
  store: () => Promise<SessionDriver>;
  bus: Bus<BusEvents>;
  logger: Logger;
  /** Notifies watchers of a chain of a change. `hasMessageChanges`: whether messages changed too. */
  notifyWatchers: (rootId: string, hasMessageChanges: boolean) => void;
  background: BackgroundTasks;
  /** Records files before tools change them. Undefined: disabled. */
  fileHistory: FileHistory | undefined;
}

/** Options of a revert. */
export interface RevertOptions {
  /** Whether to restore files that tools of this session changed since. Default false. */
  files?: boolean | undefined;
  /** Whether to hide the message too. Default false. */
  before?: boolean | undefined;
  /** With `files`: whether to overwrite files changed outside the session. Default false. */
  force?: boolean | undefined;
}

const CHANGED_OUTCOMES: ReadonlySet<UndoneFile["outcome"]> = new Set(["restored", "recreated", "removed"]);

/** Changes what a session did before: forks, reverts, undos. Each works under the chain's lease. */
export class SessionRewinds {
  readonly #services: RewindServices;

  constructor(services: RewindServices) {
    this.#services = services;
  }

  /**
   * Creates a session with a copy of the conversation up to and including a message. The copy shares no data with this
   * session, and stays when this session is deleted. The original messages of a complete chain are copied; the copy is
   * compacted again on use. Rejects with `SessionNotFoundError`, `PointNotFoundError` or `SessionBusyError`.
   */
  async fork(id: string, messageId: string): Promise<Session> {
    return this.#withLease(id, async (store, source) => {
      const session = await fork(store, source, messageId);
      this.#services.bus.emit("session.created", { session });
      this.#services.bus.emit("session.forked", { from: source.chain.root, to: session.id });
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
    { files: withFiles = false, force = false, before = false }: RevertOptions = {},
  ): Promise<Snapshot & { files?: readonly UndoneFile[] }> {
    if (messageId === "") throw new PointNotFoundError("message");
    return this.#withLease(id, async (store, session, fence) => {
      const hideMessages = async () => {
        const lastMessageId = before ? await findMessageBefore(store, session.id, messageId) : messageId;
        return revert(store, fence, session.id, lastMessageId);
      };
      if (!withFiles) return this.#publishRevert(session, await hideMessages());
      const { undo } = await import("./undo.js");
      const undoContext = { store, session, fence, history: this.#services.fileHistory };
      const { files, snapshot } = await undo(undoContext, { [before ? "before" : "to"]: messageId, force });
      await this.#publishFiles(store, session, fence, files);
      // Without messages to hide there is still a snapshot, as without `files`.
      return { ...this.#publishRevert(session, snapshot ?? (await hideMessages())), files };
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
      const result = await undo({ store, session, fence, history: this.#services.fileHistory }, options);
      if (options.dryRun !== true) await this.#publishFiles(store, session, fence, result.files);
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
      const result = await redo({ store, session, fence, history: this.#services.fileHistory }, options);
      if (options.dryRun === true) return result;
      await this.#publishFiles(store, session, fence, result.files);
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
    return (await requireHead(await this.#services.store(), id)).snapshots;
  }

  /**
   * Files that tools of the session or of one run changed, with the texts before and after. Rejects with
   * `SessionNotFoundError` or `RunNotFoundError`.
   */
  async changes(id: string, query: ChangedFilesQuery = {}): Promise<ChangedFiles> {
    const { listChangedFiles } = await import("./changed-files.js");
    return listChangedFiles(await this.#services.store(), id, query, this.#services.fileHistory);
  }

  /**
   * Undoes the changes of one file, or some of its lines, and keeps the messages. `redo` reverts it. Rejects like
   * `undo`, or with `InputError` for invalid lines.
   */
  async undoChange(id: string, options: ChangeUndoOptions): Promise<UndoneFile> {
    return this.#withLease(id, async (store, session, fence) => {
      const { undoChange } = await import("./undo-change.js");
      const file = await undoChange({ store, session, history: this.#services.fileHistory }, options);
      if (options.dryRun !== true) await this.#publishFiles(store, session, fence, [file]);
      return file;
    });
  }

  #publishRevert({ chain }: Session, snapshot: Snapshot): Snapshot {
    this.#services.notifyWatchers(chain.root, true);
    this.#services.bus.emit("session.reverted", { sessionId: chain.root, snapshotId: snapshot.id });
    return snapshot;
  }

  #publishRestore(rootId: string, session: Session): void {
    this.#services.notifyWatchers(rootId, true);
    this.#services.bus.emit("session.updated", { sessionId: rootId, fields: ["messages"], session });
  }

  /** Reports files that an operation changed. Watchers in any process get the state again. */
  async #publishFiles(
    store: SessionDriver,
    session: Session,
    fence: number,
    files: readonly UndoneFile[],
  ): Promise<void> {
    const { root } = session.chain;
    const paths = files.flatMap(({ path, outcome }) => (CHANGED_OUTCOMES.has(outcome) ? [path] : []));
    if (paths.length === 0) return;
    await store.write(session.id, { fence, sync: false, set: { updatedAt: now() } });
    this.#services.notifyWatchers(root, false);
    this.#services.bus.emit("session.files_restored", { sessionId: root, paths });
  }

  /** Runs work under the chain's lease, so that no run is active meanwhile. */
  async #withLease<T>(
    id: string,
    work: (store: SessionDriver, session: Session, fence: number) => Promise<T>,
  ): Promise<T> {
    const store = await this.#services.store();
    const session = await requireSession(store, id);
    const lease = await ActiveLease.take(store, session.chain.root, this.#services.logger);
    try {
      return await work(store, session, lease.fence);
    } finally {
      await lease.releaseWithRetries(this.#services.background);
    }
  }
}
