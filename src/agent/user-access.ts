import { realpath } from "node:fs/promises";
import { isInside } from "../files/names.js";
import { ConfigError, ForbiddenError, InputError, SessionNotFoundError } from "../ports/errors.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { Session, SessionMode } from "../ports/session.js";
import type { User, UserScope } from "../ports/user.js";
import { SESSION_MODES } from "../sessions/session-modes.js";
import { isVisibleTo } from "../sessions/visible-to.js";

/** Separates the user's name from the caller's part of an idempotency key. Names contain no such character. */
const KEY_SEPARATOR = "\u0001";

/** Checks of one user: scopes, sessions, folders. */
export class UserAccess {
  readonly user: User;
  readonly #store: () => Promise<SessionDriver>;

  constructor(user: User, store: () => Promise<SessionDriver>) {
    this.user = user;
    this.#store = store;
  }

  /** The name with which stores filter; undefined for a user who sees everything. */
  get filter(): { visibleTo?: string } {
    return this.has("admin") ? {} : { visibleTo: this.user.name };
  }

  has(scope: UserScope): boolean {
    const { scopes } = this.user;
    return scopes.includes(scope) || scopes.includes("admin");
  }

  /** Throws `ForbiddenError` if the user lacks the scope. */
  require(scope: UserScope): void {
    if (!this.has(scope)) throw new ForbiddenError(`the scope ${scope} is required`);
  }

  /** Throws `ForbiddenError` if the mode allows more than the current one, and the user may not approve. */
  checkMode(mode: SessionMode, currentMode: SessionMode): void {
    // `SESSION_MODES` begins with the mode that allows most.
    if (SESSION_MODES.indexOf(mode) < SESSION_MODES.indexOf(currentMode)) this.require("approve");
  }

  /** Whether the session of a first session belongs to the user, or the user may act as its owner. */
  isOwner(root: Session): boolean {
    return root.owner === this.user.name || this.has("admin");
  }

  /** Returns the first session of a chain if the user may see it. `id`: any id of the chain, or an alias. */
  async findVisible(id: string): Promise<Session | undefined> {
    const store = await this.#store();
    if (!store.separatesUsers) throw new ConfigError(`the session store ${store.name} cannot separate users`);
    const root = await readRoot(store, id);
    return root && isVisibleTo(root, this.filter.visibleTo) ? root : undefined;
  }

  /** Like `findVisible`, but rejects with `SessionNotFoundError`. */
  async requireVisible(id: string): Promise<Session> {
    const root = await this.findVisible(id);
    if (!root) throw new SessionNotFoundError(id);
    return root;
  }

  /** Rejects with `InputError` for a folder outside the user's folders. A missing folder is outside. */
  async checkFolders(projectDir: string, folders: readonly string[] = []): Promise<void> {
    const { projectRoots } = this.user;
    if (!projectRoots) return;
    if (!(await isInAny(projectDir, projectRoots)))
      throw new InputError("projectDir", "a folder in which the user may work");
    for (const folder of folders)
      if (!(await isInAny(folder, projectRoots))) throw new InputError("folders", "folders in which the user may work");
  }

  /** Returns the key under which the user's run is stored, so that two users can use the same key. */
  toStoredKey(key: string): string {
    return `${this.user.name}${KEY_SEPARATOR}${key}`;
  }
}

/** Reads the first session of a chain. `id`: any id of the chain, or an alias. */
export async function readRoot(store: SessionDriver, id: string): Promise<Session | undefined> {
  const session = await store.get(id);
  return session && session.chain.root !== session.id ? store.get(session.chain.root) : session;
}

/** Whether a folder is one of the roots, or inside one. Symbolic links are resolved. */
export async function isInAny(folder: string, roots: readonly string[]): Promise<boolean> {
  const toRealPath = (path: string): Promise<string | undefined> => realpath(path).catch(() => undefined);
  const [path, ...rootPaths] = await Promise.all([folder, ...roots].map(toRealPath));
  return path !== undefined && rootPaths.some((root) => root !== undefined && isInside(path, root));
}
