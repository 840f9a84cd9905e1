import { join } from "node:path";
import { PathError } from "../ports/errors.js";
import { pinFile, openPinnedFile, realPathOf, procPath, type PinnedFile } from "./handles.js";
import { codeOf, createNotRegularError, createReplacedError } from "./names.js";
import { openOrCreateFolders, OpenedFolder } from "./opened-folder.js";
import type { OpenedFile } from "./opened-file.js";
import type { Opener, Target } from "./opener.js";
import { resolvePath } from "./resolve-path.js";
import type { AccessRules } from "./access-rules.js";

/**
 * Opens paths by walking from file descriptor to file descriptor. The rules check the real path of each open
 * descriptor.
 */
export class HandleOpener implements Opener {
  readonly #rules: AccessRules;

  constructor(rules: AccessRules) {
    this.#rules = rules;
  }

  async resolve(path: string): Promise<Target> {
    const { handle, stats, path: basePath, missingNames, traversedPaths } = await resolvePath(path, this.#rules);
    handle.close();
    const fullPath = join(basePath, ...missingNames);
    this.#rules.requireAllowed(fullPath);
    if (missingNames.length > 0)
      return { path: fullPath, exists: false, isFolder: false, traversedPaths: [...traversedPaths, fullPath] };
    return {
      path: fullPath,
      exists: true,
      isFolder: stats.isDirectory(),
      traversedPaths: [...traversedPaths, fullPath],
    };
  }

  async openFile(path: string): Promise<OpenedFile> {
    const resolvedPath = await resolvePath(path, this.#rules);
    try {
      this.#rules.requireAllowed(join(resolvedPath.path, ...resolvedPath.missingNames));
      if (resolvedPath.missingNames.length > 0) throw new PathError("not_found", "not found");
      if (!resolvedPath.stats.isFile()) throw createNotRegularError(resolvedPath.stats);
      return { handle: await openPinnedFile(resolvedPath.handle), path: resolvedPath.path, stats: resolvedPath.stats };
    } finally {
      resolvedPath.handle.close();
    }
  }

  async openFolder(path: string, create: boolean): Promise<OpenedFolder> {
    const resolvedPath = await resolvePath(path, this.#rules);
    let folder: OpenedFolder;
    try {
      this.#rules.requireAllowed(join(resolvedPath.path, ...resolvedPath.missingNames));
      if (resolvedPath.missingNames.length > 0 && !create) throw new PathError("not_found", "not found");
      if (!resolvedPath.stats.isDirectory()) throw new PathError("invalid", "not a folder");
      folder = this.#wrapFolder(resolvedPath, resolvedPath.path);
    } catch (error) {
      resolvedPath.handle.close();
      throw error;
    }
    return await openOrCreateFolders(folder, resolvedPath.missingNames);
  }

  /** Creates the object for an open folder. The object's `close` closes the handle. */
  #wrapFolder({ handle }: PinnedFile, path: string): OpenedFolder {
    return new OpenedFolder(path, {
      getSystemPath: (name) => procPath(handle, name),
      requireAllowed: async () => this.#rules.requireAllowed(realPathOf(handle)),
      enter: async (name) => {
        const pinnedFolder = await pinFolder(procPath(handle, name));
        try {
          const realPath = realPathOf(pinnedFolder.handle);
          this.#rules.requireAllowed(realPath);
          return this.#wrapFolder(pinnedFolder, realPath);
        } catch (error) {
          pinnedFolder.handle.close();
          throw error;
        }
      },
      close: async () => handle.close(),
    });
  }
}

/** Pins a folder. Rejects if the name leads to another kind of file, also if it is a link to a folder. */
async function pinFolder(path: string): Promise<PinnedFile> {
  const pinnedFile = await pinFile(path).catch((error: unknown) => {
    throw codeOf(error) === "ENOENT" ? createReplacedError() : error;
  });
  if (pinnedFile.stats.isDirectory()) return pinnedFile;
  pinnedFile.handle.close();
  throw pinnedFile.stats.isSymbolicLink()
    ? new PathError("invalid", "the path contains a symbolic link, which is not followed here")
    : new PathError("invalid", "not a folder");
}
