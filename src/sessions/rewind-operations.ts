import type { Bus } from "../base/bus.js";
import { nowNotBefore } from "../base/ids.js";
import type { BusEvents } from "../ports/bus-events.js";
import { InputError, PointNotFoundError } from "../ports/errors.js";
import type { FileHistory, UndoneFile } from "../ports/file-history.js";
import type { Logger } from "../ports/logger.js";
import type { Session, Snapshot } from "../ports/session.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { WorktreeApplyOptions, WorktreeFile, Worktrees } from "../ports/worktrees.js";
import { fork } from "./fork.js";
import { ActiveLease, type BackgroundTasks } from "./lease.js";
import { requireSession } from "./require-session.js";
import { findMessageBefore, restore, revert } from "./revert.js";
import { undoChange, type ChangeUndoOptions } from "./undo-change.js";
import { redo, undo, type UndoContext, type UndoOptions, type UndoResult } from "./undo.js";

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
  /** Worktrees of sessions. Undefined: sessions have none. */
  worktrees: Worktrees | undefined;
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

/** Options of a fork. */
export interface ForkOptions {
  /** Name of the user to whom the new session belongs. Default: none. */
  owner?: string | undefined;
}

const CHANGED_OUTCOMES: ReadonlySet<UndoneFile["outcome"]> = new Set(["restored", "recreated", "removed"]);

/** The code of the methods of `SessionRewinds`, which document it. Loaded at the first use. */
export class RewindOperations {
  readonly #services: RewindServices;

  constructor(services: RewindServices) {
    this.#services = services;
  }

  async fork(id: string, messageId: string, { owner }: ForkOptions): Promise<Session> {
    return this.#withLease(id, async ({ store, session: source }) => {
      const session = await fork(store, source, messageId, owner);
      this.#services.bus.emit("session.created", { session });
      this.#services.bus.emit("session.forked", { from: source.chain.root, to: session.id });
      return session;
    });
  }

  async revert(
    id: string,
    messageId: string,
    { files: withFiles = false, force = false, before = false }: RevertOptions,
  ): Promise<Snapshot & { files?: readonly UndoneFile[] }> {
    if (messageId === "") throw new PointNotFoundError("message");
    return this.#withLease(id, async (context) => {
      const { store, session, fence } = context;
      const hideMessages = async () => {
        const lastMessageId = before ? await findMessageBefore(store, session.id, messageId) : messageId;
        return revert(store, fence, session.id, lastMessageId);
      };
      if (!withFiles) return this.#publishRevert(session, await hideMessages());
      const { files, snapshot } = await undo(context, { [before ? "before" : "to"]: messageId, force });
      await this.#publishFiles(context, files);
      // Without messages to hide there is still a snapshot, as without `files`.
      return { ...this.#publishRevert(session, snapshot ?? (await hideMessages())), files };
    });
  }

  async undo(id: string, options: UndoOptions): Promise<UndoResult> {
    return this.#withLease(id, async (context) => {
      const result = await undo(context, options);
      if (options.dryRun !== true) await this.#publishFiles(context, result.files);
      if (result.snapshot) this.#publishRevert(context.session, result.snapshot);
      return result;
    });
  }

  async redo(id: string, options: Pick<UndoOptions, "dryRun" | "force">): Promise<UndoResult> {
    return this.#withLease(id, async (context) => {
      const result = await redo(context, options);
      if (options.dryRun === true) return result;
      await this.#publishFiles(context, result.files);
      await this.#publishRestore(context);
      return result;
    });
  }

  async restore(id: string, snapshotId: string): Promise<Snapshot | undefined> {
    return this.#withLease(id, async (context) => {
      const newSnapshot = await restore(context.store, context.fence, context.session.id, snapshotId);
      await this.#publishRestore(context);
      return newSnapshot;
    });
  }

  async undoChange(id: string, options: ChangeUndoOptions): Promise<UndoneFile> {
    return this.#withLease(id, async (context) => {
      const file = await undoChange(context, options);
      if (options.dryRun !== true) await this.#publishFiles(context, [file]);
      return file;
    });
  }

  async applyWorktree(id: string, options: WorktreeApplyOptions): Promise<WorktreeFile[]> {
    return this.#withLease(id, async ({ session }) => {
      const { worktrees } = this.#services;
      if (!worktrees) throw new InputError("worktree", "a session that works in a worktree");
      return worktrees.apply(session.projectDir, options);
    });
  }

  #publishRevert({ chain }: Session, snapshot: Snapshot): Snapshot {
    this.#services.notifyWatchers(chain.root, true);
    this.#services.bus.emit("session.reverted", { sessionId: chain.root, snapshotId: snapshot.id });
    return snapshot;
  }

  async #publishRestore({ store, session: { chain } }: UndoContext): Promise<void> {
    const session = await requireSession(store, chain.root);
    this.#services.notifyWatchers(chain.root, true);
    this.#services.bus.emit("session.updated", { sessionId: chain.root, fields: ["messages"], session });
  }

  /** Reports files that an operation changed. Watchers in any process get the state again. */
  async #publishFiles({ store, session, fence }: UndoContext, files: readonly UndoneFile[]): Promise<void> {
    const { root } = session.chain;
    const paths = files.flatMap(({ path, outcome }) => (CHANGED_OUTCOMES.has(outcome) ? [path] : []));
    if (paths.length === 0) return;
    await store.write(session.id, { fence, sync: false, set: { updatedAt: nowNotBefore(session.updatedAt, store) } });
    this.#services.notifyWatchers(root, false);
    this.#services.bus.emit("session.files_restored", { sessionId: root, paths });
  }

  /** Runs work under the chain's lease, so that no run is active meanwhile. */
  async #withLease<T>(id: string, work: (context: UndoContext) => Promise<T>): Promise<T> {
    const store: SessionDriver = await this.#services.store();
    const session = await requireSession(store, id);
    const lease = await ActiveLease.take(store, session.chain.root, this.#services.logger);
    try {
      return await work({ store, session, fence: lease.fence, history: this.#services.fileHistory });
    } finally {
      await lease.releaseWithRetries(this.#services.background);
    }
  }
}
