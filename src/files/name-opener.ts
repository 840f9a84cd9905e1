import { constants, type BigIntStats } from "node:fs";
import { lstat, open, realpath, stat, type FileHandle } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { PathError } from "../ports/errors.js";
import { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK } from "./handles.js";
import { codeOf, createNotRegularError, createReplacedError } from "./names.js";
import { openOrCreateFolders, OpenedFolder, joinPath } from "./opened-folder.js";
import type { OpenedFile } from "./opened-file.js";
import type { Opener, Target } from "./opener.js";
import type { AccessRules } from "./access-rules.js";

/** Maximum attempts to open a file whose name changes between the steps. */
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
    const { existingPath, missingNames } = await resolveExistingPart(path);
    const fullPath = join(existingPath, ...missingNames);
    this.#rules.requireAllowed(fullPath);
    const stats = missingNames.length === 0 ? await stat(fullPath) : undefined;
    return {
      path: fullPath,
      exists: stats !== undefined,
      isFolder: stats?.isDirectory() ?? false,
      traversedPaths: [resolve(path), fullPath],
    };
  }

  async openFile(path: string): Promise<OpenedFile> {
    for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
      const target = await this.resolve(path);
      if (!target.exists) throw new PathError("not_found", "not found");
      let handle: FileHandle | undefined;
      try {
        // Checks the type before opening, because opening a device can already have side effects.
        const statsBefore = await lstat(target.path);
        if (!statsBefore.isFile() && !statsBefore.isSymbolicLink()) throw createNotRegularError(statsBefore);
        handle = await open(target.path, constants.O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
        const stats = await handle.stat({ bigint: true });
        if (!stats.isFile()) throw createNotRegularError(stats);
        if (await this.#isUnchanged(target.path, stats)) return { handle, path: target.path, stats };
      } catch (error) {
        await handle?.close();
        handle = undefined;
        // The name changed between two steps: try again.
        if ((codeOf(error) !== "ENOENT" && codeOf(error) !== "ELOOP") || attempt === MAX_ATTEMPTS) throw error;
      }
      await handle?.close();
    }
    throw createReplacedError();
  }

  async openFolder(path: string, create: boolean): Promise<OpenedFolder> {
    const { existingPath, missingNames } = await resolveExistingPart(path);
    this.#rules.requireAllowed(join(existingPath, ...missingNames));
    if (missingNames.length > 0 && !create) throw new PathError("not_found", "not found");
    return await openOrCreateFolders(await this.#openRealPath(existingPath), missingNames);
  }

  async #openRealPath(path: string): Promise<OpenedFolder> {
    const handle = await openFolderAt(path);
    let stats: BigIntStats;
    try {
      stats = await handle.stat({ bigint: true });
      if (!stats.isDirectory()) throw new PathError("invalid", "not a folder");
      if (!(await this.#isUnchanged(path, stats))) throw createReplacedError();
    } catch (error) {
      await handle.close();
      throw error;
    }
    return new OpenedFolder(path, {
      getSystemPath: (name) => joinPath(path, name),
      requireAllowed: async () => {
        if (!(await this.#isUnchanged(path, stats))) throw createReplacedError();
      },
      enter: (name) => this.#openRealPath(join(path, name)),
      close: () => handle.close(),
    });
  }

  /**
   * Whether a path still leads to the open file. If so, an earlier replacement of the name does not matter. Throws
   * `PathError` if the path is not allowed.
   */
  async #isUnchanged(path: string, openedStats: BigIntStats): Promise<boolean> {
    const realPath = await realpath(path);
    this.#rules.requireAllowed(realPath);
    const currentStats = await stat(realPath, { bigint: true });
    return currentStats.dev === openedStats.dev && currentStats.ino === openedStats.ino;
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
async function resolveExistingPart(path: string): Promise<{ existingPath: string; missingNames: string[] }> {
  const missingNames: string[] = [];
  for (let folder = resolve(path); ; folder = dirname(folder)) {
    try {
      return { existingPath: await realpath(folder), missingNames };
    } catch (error) {
      if ((codeOf(error) !== "ENOENT" && codeOf(error) !== "ENOTDIR") || dirname(folder) === folder) throw error;
      missingNames.unshift(basename(folder));
    }
  }
}
