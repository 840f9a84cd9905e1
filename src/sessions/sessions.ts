import { fork } from "./fork.js";
import { found, headOf } from "./require-session.js";
import { helpersOf } from "./subagents.js";
import { restore, revert } from "./revert.js";
import { goesOn, HeldLease, type Background } from "./lease.js";
import { checkFolder, newSession, type NewSession } from "./new-session.js";
import type { Logger } from "../ports/logger.js";
import { InputError, PointNotFoundError, SessionNotFoundError } from "../ports/errors.js";
import type { Bus } from "../base/bus.js";
import type { BusEvents } from "../ports/bus-events.js";
import type { Message } from "../ports/message.js";
import type { Leave, Session, SessionMode, Snapshot } from "../ports/session.js";
import type { SessionDriver, SessionFields, SessionPage, SessionQuery } from "../ports/session-driver.js";
import type { WatchEvent, WatchOptions } from "../ports/watch.js";
import type { FileHistory, UndoneFile } from "../ports/file-history.js";
import type { Undone, UndoOptions } from "./undo.js";
import { SESSION_MODES } from "./session-modes.js";

export type { NewSession } from "./new-session.js";

/** What `Sessions` needs of the agent that it belongs to. */
export interface SessionsOptions {
  /** The store, opened with its first use. */
  store: () => Promise<SessionDriver>;
  bus: Bus<BusEvents>;
  logger: Logger;
  projectDir: string;
  /** Of sessions that are new. */
  mode: SessionMode;
  /** Whether a run of a chain goes on in this process. */
  runs: (rootId: string) => boolean;
  /** Who watches the chain is told that something is new; `messages`: also of what was said. */
  changed: (rootId: string, messages: boolean) => void;
  watch: (id: string, options: WatchOptions) => AsyncIterable<WatchEvent>;
  /** End the run of a chain in this process, if there is one, and wait for its end. */
  stopRun: (rootId: string) => Promise<void>;
  background: Background;
  /** What files were before tools changed them; undefined: nobody keeps that. */
  fileHistory: FileHistory | undefined;
}

/** What a revert does beside putting messages aside. */
export interface RevertOptions {
  /** Whether files come back that tools of this session changed since; default false. */
  files?: boolean | undefined;
  /** With `files`: overwrite what somebody else changed since, too. Default false. */
  force?: boolean | undefined;
}

/** Which messages of a session, and how many. */
export interface MessagesQuery {
  /** `all` (default): the whole conversation, each message as it was said, once. `model`: what the model now sees. */
  view?: "all" | "model" | undefined;
  /** Only greater `seq`s, the first `limit` of them. */
  after?: number | undefined;
  /** Only smaller `seq`s, the last `limit` of them. */
  before?: number | undefined;
  limit?: number | undefined;
}

/** Sessions of a list that asks for no number. */
const PAGE = 50;

/** The rules of sessions. Every id may be an alias, and of a chain any session's. */
export class Sessions {
  readonly #options: SessionsOptions;

  constructor(options: SessionsOptions) {
    this.#options = options;
  }

  /** A session without a run. Rejects with `ProjectFolderError`, or `SessionExistsError` when the alias is taken. */
  async create(input: NewSession = {}): Promise<Session> {
    const session = newSession(input, this.#options);
    await checkFolder(session.projectDir);
    const store = await this.#options.store();
    await store.create({ session });
    this.#options.bus.emit("session.created", { session });
    return session;
  }

  /** By id or alias; undefined when there is none. */
  async get(id: string): Promise<Session | undefined> {
    const store = await this.#options.store();
    return store.get(id);
  }

  /** Originals, newest first; without `limit` 50 of them. Those of helpers where `spawnedBy` asks for them, with any id of their asker's chain. Rejects with `InputError`. */
  async list(query: { [Key in keyof SessionQuery]?: SessionQuery[Key] | undefined } = {}): Promise<SessionPage> {
    const { limit = PAGE, ...rest } = query;
    for (const [field, value] of Object.entries({ limit, offset: rest.offset ?? 0 }))
      if (!Number.isSafeInteger(value) || value < 0) throw new InputError(field, "a whole number, at least 0");
    const store = await this.#options.store();
    const asker = rest.spawnedBy === undefined ? undefined : await store.get(rest.spawnedBy);
    return store.list({ limit, ...rest, ...(asker && { spawnedBy: asker.chain.root }) });
  }

  /** Ascending by `seq`. Rejects with `SessionNotFoundError`. */
  async messages(id: string, query: MessagesQuery = {}): Promise<Message[]> {
    const store = await this.#options.store();
    const { view = "all", ...page } = query;
    if (view === "all") return store.messages((await found(store, id)).id, { ...page, scope: "chain" });
    const head = await store.head(id);
    if (!head) throw new SessionNotFoundError(id);
    return pageOf(head.messages, page);
  }

  /**
   * What the session says, from a cursor on, and then as it comes, whichever process and door it comes from. Rejects with
   * `InputError` (a cursor that never was), `SessionNotFoundError` or `StoreError`.
   */
  watch(id: string, options: WatchOptions = {}): AsyncIterable<WatchEvent> {
    return this.#options.watch(id, options);
  }

  /**
   * Set what the session's next runs use, or its title; `mode` and `leave` hold at once, for a run under way too. Leave can
   * be taken back so, and never given. Rejects with `InputError` or `SessionNotFoundError`.
   */
  async update(
    id: string,
    fields: Pick<SessionFields, "title" | "provider" | "model" | "reasoningEffort" | "mode" | "leave">,
  ): Promise<Session> {
    const store = await this.#options.store();
    const head = await headOf(store, id);
    const root = head.original.id;
    const { mode, leave } = fields;
    if (mode !== undefined && !SESSION_MODES.includes(mode))
      throw new InputError("mode", `one of ${SESSION_MODES.map((one) => JSON.stringify(one)).join(", ")}`);
    if (leave !== undefined) checkLeave(leave, head.original.leave);
    const set: SessionFields = { ...fields, ...(fields.title === undefined ? {} : { titled: true }) };
    await store.write(head.newest.id, { fence: null, sync: true, set });
    const session = await found(store, root);
    this.#options.changed(root, false);
    this.#options.bus.emit("session.updated", { sessionId: root, fields: Object.keys(fields), session });
    return session;
  }

  /**
   * A new session with a copy of the whole conversation up to and including a message; the rest of it is the new one's
   * own, so it survives this one's deletion. Of a chain all that was said is copied, and the copy compacted again when
   * it is used. Rejects with `SessionNotFoundError`, `PointNotFoundError` or `SessionBusyError`.
   */
  async fork(id: string, messageId: string): Promise<Session> {
    return this.#alone(id, async (store, source) => {
      const session = await fork(store, source, messageId);
      this.#options.bus.emit("session.created", { session });
      this.#options.bus.emit("session.forked", { from: source.chain.root, to: session.id });
      return session;
    });
  }

  /**
   * Put aside all that was said after a message. The files that tools changed meanwhile stay as they are, unless they are
   * asked for: those come with the snapshot that `restore` takes. Rejects as `fork`, with files also as `undo`.
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
    return this.#alone(id, async (store, session, fence) => {
      if (!withFiles) return this.#reverted(session, await revert(store, fence, session.id, messageId));
      const { undo } = await import("./undo.js");
      const held = { store, session, fence, history: this.#options.fileHistory };
      const { files, snapshot } = await undo(held, { to: messageId, force });
      // Where nothing was said behind it there is a snapshot all the same, as without files.
      return { ...this.#reverted(session, snapshot ?? (await revert(store, fence, session.id, messageId))), files };
    });
  }

  /**
   * Undo what the last run did, or all behind a message: what was said is put aside, and files come back that this
   * session's tools changed, as they were. What commands and other programs did stays. Where somebody else changed such a
   * file since, nothing is undone. Rejects as `fork`, with `NothingToUndoError`, or with `UndoConflictError`.
   */
  async undo(id: string, options: UndoOptions = {}): Promise<Undone> {
    return this.#alone(id, async (store, session, fence) => {
      const { undo } = await import("./undo.js");
      const undone = await undo({ store, session, fence, history: this.#options.fileHistory }, options);
      if (undone.snapshot) this.#reverted(session, undone.snapshot);
      return undone;
    });
  }

  /** Take the last undo back, unless something was said since: words and files are as before it. Rejects as `undo`. */
  async redo(id: string, options: Pick<UndoOptions, "dryRun" | "force"> = {}): Promise<Undone> {
    return this.#alone(id, async (store, session, fence) => {
      const { redo } = await import("./undo.js");
      const redone = await redo({ store, session, fence, history: this.#options.fileHistory }, options);
      if (options.dryRun !== true) this.#restored(session.chain.root, await found(store, session.chain.root));
      return redone;
    });
  }

  /**
   * The conversation as it was before the revert that made a snapshot. What was said since is put aside first, under
   * the new snapshot that this resolves with; undefined when nothing was. Rejects as `fork`.
   */
  async restore(id: string, snapshotId: string): Promise<Snapshot | undefined> {
    return this.#alone(id, async (store, { id: own, chain }, fence) => {
      const aside = await restore(store, fence, own, snapshotId);
      this.#restored(chain.root, await found(store, chain.root));
      return aside;
    });
  }

  /** What can be restored, oldest first. Rejects with `SessionNotFoundError`. */
  async snapshots(id: string): Promise<Snapshot[]> {
    return (await headOf(await this.#options.store(), id)).snapshots;
  }

  /** Whether a run goes on in the session's chain, in this process or another. Rejects with `SessionNotFoundError`. */
  async isRunning(id: string): Promise<boolean> {
    const store = await this.#options.store();
    const { chain } = await found(store, id);
    if (this.#options.runs(chain.root)) return true;
    // A run ends in the store what others left open: more than one that goes on there cannot be.
    const open = await store.runs({ sessionId: chain.root, states: ["running", "waiting"], limit: 2 });
    return open.some(goesOn);
  }

  /** For good, with its whole chain and its helpers; a running prompt is cancelled first. Rejects with `SessionNotFoundError`. */
  async delete(id: string): Promise<void> {
    const store = await this.#options.store();
    const { chain } = await found(store, id);
    await this.#options.stopRun(chain.root);
    // No run of its own makes more of them now.
    const ids = [chain.root, ...(await helpersOf(store, chain.root))];
    for (const helper of ids.slice(1)) await this.#options.stopRun(helper);
    await store.delete(ids);
    for (const one of ids) this.#options.changed(one, true);
    this.#options.bus.emit("session.deleted", { ids });
  }

  #reverted({ chain }: Session, snapshot: Snapshot): Snapshot {
    this.#options.changed(chain.root, true);
    this.#options.bus.emit("session.reverted", { sessionId: chain.root, snapshotId: snapshot.id });
    return snapshot;
  }

  #restored(rootId: string, session: Session): void {
    this.#options.changed(rootId, true);
    this.#options.bus.emit("session.updated", { sessionId: rootId, fields: ["messages"], session });
  }

  /** Under the chain's lease, so that no run goes on meanwhile. */
  async #alone<T>(id: string, work: (store: SessionDriver, session: Session, fence: number) => Promise<T>): Promise<T> {
    const store = await this.#options.store();
    const session = await found(store, id);
    const lease = await HeldLease.take(store, session.chain.root, this.#options.logger);
    try {
      return await work(store, session, lease.fence);
    } finally {
      await lease.giveBack(this.#options.background);
    }
  }
}

/** Throws `InputError` for leave that is not there already. */
function checkLeave(leave: readonly Leave[], given: readonly Leave[]): void {
  const same = (a: Leave, b: Leave) => a?.tool === b.tool && a.what === b.what;
  if (!Array.isArray(leave) || !leave.every((one) => given.some((other) => same(one as Leave, other))))
    throw new InputError("leave", "some of what the session has, or none");
}

function pageOf(messages: Message[], page: { after?: number; before?: number; limit?: number }): Message[] {
  const { after = -Infinity, before = Infinity, limit = Infinity } = page;
  const range = messages.filter((message) => message.seq > after && message.seq < before);
  return page.before !== undefined && page.after === undefined ? range.slice(-limit) : range.slice(0, limit);
}
