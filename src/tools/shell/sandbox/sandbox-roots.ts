import { constants, fstatSync, readlinkSync, realpathSync } from "node:fs";
import { open, realpath } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { ToolError } from "../../../ports/errors.js";
import { isInside } from "../../../files/path-guard.js";

/** The current state of a folder that commands may write to. */
export interface Root {
  /** Real path, without symbolic links. */
  readonly path: string;
  /** `device:inode`, in the format of `stat -c %d:%i`. */
  readonly identity: string;
  /** User id of the owner. */
  readonly ownerUid: number;
}

/**
 * Resolves each folder that commands may write to once per process.
 *
 * A command can replace a writable folder with a link. Without the cached result, the next command would get write
 * access to the target of that link.
 */
export class SandboxRoots {
  readonly #realPathsByPath = new Map<string, string>();

  /** @param paths Paths that are resolved at once. Other paths are resolved at their first use. */
  constructor(paths: readonly string[]) {
    for (const path of paths) {
      try {
        this.#realPathsByPath.set(path, realpathSync(path));
      } catch {
        // The path does not exist yet.
      }
    }
  }

  /**
   * Opens a folder and returns its current state. Undefined if the folder does not exist or cannot be accessed. Rejects
   * with `ToolError` if the path no longer leads to the same folder.
   */
  async open(path: string): Promise<Root | undefined> {
    const realPath = this.#realPathsByPath.get(path) ?? (await this.#resolveFirstUse(path));
    if (realPath === undefined) return undefined;
    // Reads the state from the open descriptor, so that a concurrent rename has no effect.
    const handle = await open(realPath, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW).catch(
      (error: NodeJS.ErrnoException) => error,
    );
    if (handle instanceof Error) {
      if (handle.code === "ENOENT" || handle.code === "EACCES") return undefined;
      throw createReplacedError(path);
    }
    try {
      // Synchronous: the kernel needs no disk access for this.
      if (readlinkSync(`/proc/self/fd/${handle.fd}`) !== realPath) throw createReplacedError(path);
      const { dev, ino, uid } = fstatSync(handle.fd, { bigint: true });
      return { path: realPath, identity: `${dev}:${ino}`, ownerUid: Number(uid) };
    } finally {
      await handle.close();
    }
  }

  /** Opens the folders that exist and can be accessed. Rejects like `open`. */
  async openAll(paths: readonly string[]): Promise<Root[]> {
    const roots = await Promise.all(paths.map((path) => this.open(path)));
    return roots.filter((root) => root !== undefined);
  }

  async #resolveFirstUse(path: string): Promise<string | undefined> {
    const realPath = await realpath(path).catch(() => undefined);
    if (realPath === undefined) return undefined;
    // A command may have created this link inside a writable folder.
    const parent = dirname(resolve(path));
    if (
      realPath !== resolve(path) &&
      [...this.#realPathsByPath.values()].some((root) => isInside(parent, root) && !isInside(realPath, root))
    )
      throw createReplacedError(path);
    this.#realPathsByPath.set(path, realPath);
    return realPath;
  }
}

function createReplacedError(path: string): ToolError {
  return new ToolError(
    `${path} no longer points to the folder of its first use: commands are refused. Tell the user, who can restore it or restart gantry.`,
  );
}
