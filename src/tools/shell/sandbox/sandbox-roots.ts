import { constants, fstatSync, readlinkSync, realpathSync } from "node:fs";
import { open, realpath } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { ToolError } from "../../../ports/errors.js";
import { isInside } from "../../../files/path-guard.js";

/** A folder that commands may write to, as it is now. */
export interface Root {
  /** Without symbolic links. */
  readonly path: string;
  /** `device:inode`, as `stat -c %d:%i` says it. */
  readonly identity: string;
  /** Whose it is. */
  readonly owner: number;
}

/**
 * Resolves the folders that commands may write to, each once: what a name led to when it was first used is what it
 * means until the process ends. A command can put a link in the place of a folder that it may write to, and the next
 * one would be given what the link leads to.
 */
export class SandboxRoots {
  readonly #known = new Map<string, string>();

  /** @param paths Those that are known from the start; the others are met with the first command in them. */
  constructor(paths: readonly string[]) {
    for (const path of paths) {
      try {
        this.#known.set(path, realpathSync(path));
      } catch {
        // Not there yet.
      }
    }
  }

  /** Rejects with `ToolError` where the path leads elsewhere than before. Undefined where there is nothing. */
  async open(path: string): Promise<Root | undefined> {
    const real = this.#known.get(path) ?? (await this.#meet(path));
    if (real === undefined) return undefined;
    // Looked at through what is open, so that it does not matter what is renamed meanwhile.
    const handle = await open(real, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW).catch(
      (error: NodeJS.ErrnoException) => error,
    );
    if (handle instanceof Error) {
      if (handle.code === "ENOENT" || handle.code === "EACCES") return undefined;
      throw replaced(path);
    }
    try {
      // What is open is answered by the kernel, at once.
      if (readlinkSync(`/proc/self/fd/${handle.fd}`) !== real) throw replaced(path);
      const { dev, ino, uid } = fstatSync(handle.fd, { bigint: true });
      return { path: real, identity: `${dev}:${ino}`, owner: Number(uid) };
    } finally {
      await handle.close();
    }
  }

  async #meet(path: string): Promise<string | undefined> {
    const real = await realpath(path).catch(() => undefined);
    if (real === undefined) return undefined;
    // A link within a folder that commands write to may be a command's work.
    const parent = dirname(resolve(path));
    if (
      real !== resolve(path) &&
      [...this.#known.values()].some((root) => isInside(parent, root) && !isInside(real, root))
    )
      throw replaced(path);
    this.#known.set(path, real);
    return real;
  }
}

function replaced(path: string): ToolError {
  return new ToolError(
    `${path} leads elsewhere than when it was first used: no command is run. Tell the user, who can put it back or restart gantry.`,
  );
}
