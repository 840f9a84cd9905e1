import { constants, type BigIntStats } from "node:fs";
import { lstat, open, realpath, stat, type FileHandle } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { PathError } from "../ports/errors.js";
import { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK } from "./handles.js";
import { codeOf, notRegular, replacedMeanwhile } from "./names.js";
import { openOrCreateFolders, OpenedFolder, joinPath } from "./opened-folder.js";
import type { OpenedFile } from "./opened-file.js";
import type { Opener, Target } from "./opener.js";
import type { AccessRules } from "./rules.js";

const MAX_ATTEMPTS = 5;

/**
 * Opener for systems without paths through a descriptor (macOS, Windows, Linux without /proc).
 *
 * Weaker than `HandleOpener`: it resolves the name, opens it, and compares the open file with a new resolution of the name.
 * A process that swaps a parent folder at the right moments can still redirect the access. Such a process needs write
 * access to the project.
 */
export class NameOpener implements Opener {
  readonly #rules: AccessRules;

  constructor(rules: AccessRules) {
    this.#rules = rules;
  }

  async resolve(path: string): Promise<Target> {
    const { existing, missingNames } = await resolveNearest(path);
    const full = join(existing, ...missingNames);
    this.#rules.check(full);
    const stats = missingNames.length === 0 ? await stat(full) : undefined;
    return {
      path: full,
      exists: stats !== undefined,
      isFolder: stats?.isDirectory() ?? false,
      traversedPaths: [resolve(path), full],
    };
  }

  async openFile(path: string): Promise<OpenedFile> {
    for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
      const target = await this.resolve(path);
      if (!target.exists) throw new PathError("not_found", "not found");
      let handle: FileHandle | undefined;
      try {
        // Checks the type before opening, because opening a device can already have side effects.
        const before = await lstat(target.path);
        if (!before.isFile() && !before.isSymbolicLink()) throw notRegular(before);
        handle = await open(target.path, constants.O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
        const stats = await handle.stat({ bigint: true });
        if (!stats.isFile()) throw notRegular(stats);
        if (await this.#stillThere(target.path, stats)) return { handle, path: target.path, stats };
      } catch (error) {
        await handle?.close();
        handle = undefined;
        // The name changed between two steps: try again.
        if ((codeOf(error) !== "ENOENT" && codeOf(error) !== "ELOOP") || attempt === MAX_ATTEMPTS) throw error;
      }
      await handle?.close();
    }
    throw replacedMeanwhile();
  }

  async openFolder(path: string, create: boolean): Promise<OpenedFolder> {
    const { existing, missingNames } = await resolveNearest(path);
    this.#rules.check(join(existing, ...missingNames));
    if (missingNames.length > 0 && !create) throw new PathError("not_found", "not found");
    return await openOrCreateFolders(await this.#enter(existing), missingNames);
  }

  async #enter(path: string): Promise<OpenedFolder> {
    const handle = await openFolderAt(path);
    let stats: BigIntStats;
    try {
      stats = await handle.stat({ bigint: true });
      if (!stats.isDirectory()) throw new PathError("invalid", "not a folder");
      if (!(await this.#stillThere(path, stats))) throw replacedMeanwhile();
    } catch (error) {
      await handle.close();
      throw error;
    }
    return new OpenedFolder(path, {
      at: (name) => joinPath(path, name),
      check: async () => {
        if (!(await this.#stillThere(path, stats))) throw replacedMeanwhile();
      },
      enter: (name) => this.#enter(join(path, name)),
      close: () => handle.close(),
    });
  }

  /** Whether an allowed path still leads to the open file. If so, earlier meanings of the name do not matter. */
  async #stillThere(path: string, opened: BigIntStats): Promise<boolean> {
    const real = await realpath(path);
    this.#rules.check(real);
    const now = await stat(real, { bigint: true });
    return now.dev === opened.dev && now.ino === opened.ino;
  }
}

async function openFolderAt(path: string): Promise<FileHandle> {
  try {
    return await open(path, constants.O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_DIRECTORY);
  } catch (error) {
    throw codeOf(error) === "ENOTDIR" ? new PathError("invalid", "not a folder") : error;
  }
}

/** Resolves the symbolic links of the existing part of `path`. `missingNames` are the remaining names, unchanged. */
async function resolveNearest(path: string): Promise<{ existing: string; missingNames: string[] }> {
  const missingNames: string[] = [];
  for (let at = resolve(path); ; at = dirname(at)) {
    try {
      return { existing: await realpath(at), missingNames };
    } catch (error) {
      if ((codeOf(error) !== "ENOENT" && codeOf(error) !== "ENOTDIR") || dirname(at) === at) throw error;
      missingNames.unshift(basename(at));
    }
  }
}
