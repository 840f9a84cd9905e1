import { join } from "node:path";
import { PathError } from "../ports/errors.js";
import { pinFile, openPinned, realPathOf, procPath, type PinnedFile } from "./handles.js";
import { codeOf, notRegular, replacedMeanwhile } from "./names.js";
import { openOrCreateFolders, OpenedFolder } from "./opened-folder.js";
import type { OpenedFile } from "./opened-file.js";
import type { Opener, Target } from "./opener.js";
import { resolvePath } from "./resolve-path.js";
import type { AccessRules } from "./rules.js";

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
    const { handle, stats, path: place, missingNames, traversedPaths } = await resolvePath(path, this.#rules);
    handle.close();
    const full = join(place, ...missingNames);
    this.#rules.check(full);
    if (missingNames.length > 0)
      return { path: full, exists: false, isFolder: false, traversedPaths: [...traversedPaths, full] };
    return { path: full, exists: true, isFolder: stats.isDirectory(), traversedPaths: [...traversedPaths, full] };
  }

  async openFile(path: string): Promise<OpenedFile> {
    const reached = await resolvePath(path, this.#rules);
    try {
      this.#rules.check(join(reached.path, ...reached.missingNames));
      if (reached.missingNames.length > 0) throw new PathError("not_found", "not found");
      if (!reached.stats.isFile()) throw notRegular(reached.stats);
      return { handle: await openPinned(reached.handle), path: reached.path, stats: reached.stats };
    } finally {
      reached.handle.close();
    }
  }

  async openFolder(path: string, create: boolean): Promise<OpenedFolder> {
    const reached = await resolvePath(path, this.#rules);
    let folder: OpenedFolder;
    try {
      this.#rules.check(join(reached.path, ...reached.missingNames));
      if (reached.missingNames.length > 0 && !create) throw new PathError("not_found", "not found");
      if (!reached.stats.isDirectory()) throw new PathError("invalid", "not a folder");
      folder = this.#folder(reached, reached.path);
    } catch (error) {
      reached.handle.close();
      throw error;
    }
    return await openOrCreateFolders(folder, reached.missingNames);
  }

  #folder({ handle }: PinnedFile, path: string): OpenedFolder {
    return new OpenedFolder(path, {
      at: (name) => procPath(handle, name),
      check: async () => this.#rules.check(realPathOf(handle)),
      enter: async (name) => {
        const held = await pinFolder(procPath(handle, name));
        try {
          const place = realPathOf(held.handle);
          this.#rules.check(place);
          return this.#folder(held, place);
        } catch (error) {
          held.handle.close();
          throw error;
        }
      },
      close: async () => handle.close(),
    });
  }
}

async function pinFolder(way: string): Promise<PinnedFile> {
  const held = await pinFile(way).catch((error: unknown) => {
    throw codeOf(error) === "ENOENT" ? replacedMeanwhile() : error;
  });
  if (held.stats.isDirectory()) return held;
  held.handle.close();
  throw held.stats.isSymbolicLink()
    ? new PathError("invalid", "the path contains a symbolic link, which is not followed here")
    : new PathError("invalid", "not a folder");
}
