import { readlink } from "node:fs/promises";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { PathError } from "../ports/errors.js";
import { pinFile, realPathOf, procPath, type PinnedFile, type NameHandle } from "./handles.js";
import { codeOf, createReplacedError } from "./names.js";
import type { AccessRules } from "./access-rules.js";

/** The result of resolving a path: the file, or its deepest existing folder, pinned. The caller must close `handle`. */
export interface ResolvedPath extends PinnedFile {
  /** Real path of the pinned file, from the kernel. */
  readonly path: string;
  /** The names after `path`, of which the first does not exist. Empty if the file exists. */
  readonly missingNames: readonly string[];
  /** Every path that was walked: the requested path, and one more for each followed link. */
  readonly traversedPaths: readonly string[];
}

/** Maximum links of one walk: the limit of the Linux kernel. */
const MAX_LINKS = 40;
/** Maximum length of a path: the limit of the Linux kernel. */
const MAX_PATH_BYTES = 4096;
/** Maximum restarts of a walk after a name changed during the walk. */
const MAX_ATTEMPTS = 20;

/** Thrown if a name changed between two steps. */
class NameChangedError extends Error {}

/**
 * Walks an absolute path from descriptor to descriptor. No step follows a link: the guard reads the link and walks its
 * target. Denied folders are not entered.
 *
 * The caller checks `path` of the result, which is the real path of the descriptor. Rejects with `PathError` or with
 * the system's error.
 */
export async function resolvePath(path: string, rules: AccessRules): Promise<ResolvedPath> {
  const fullPath = resolve(path);
  if (Buffer.byteLength(fullPath) > MAX_PATH_BYTES) throw new PathError("invalid", "the path is too long");
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
    try {
      return (await resolveDirectly(fullPath)) ?? (await new Walk(fullPath, rules).run());
    } catch (error) {
      if (!(error instanceof NameChangedError)) throw error;
    }
  }
  throw createReplacedError();
}

/**
 * Resolves a path in one step, since most paths contain no link. If the real path of the open file equals the requested
 * path, no link was followed.
 *
 * Returns undefined in all other cases. An error proves nothing, because a link may have led to another file.
 */
async function resolveDirectly(path: string): Promise<ResolvedPath | undefined> {
  const pinnedFile = await pinWithoutLinks(path);
  if (pinnedFile) return { ...pinnedFile, path, missingNames: [], traversedPaths: [path] };
  const parent = dirname(path);
  const folder = parent === path ? undefined : await pinWithoutLinks(parent);
  if (!folder) return undefined;
  const name = path.slice(parent === "/" ? 1 : parent.length + 1);
  if (folder.stats.isDirectory()) {
    try {
      // The name exists after all: it is a link or was just created.
      (await pinFile(procPath(folder.handle, name))).handle.close();
    } catch (error) {
      if (codeOf(error) === "ENOENT") return { ...folder, path: parent, missingNames: [name], traversedPaths: [path] };
    }
  }
  folder.handle.close();
  return undefined;
}

/** Pins a path that contains no link. Undefined if the path contains a link or cannot be opened. */
async function pinWithoutLinks(path: string): Promise<PinnedFile | undefined> {
  const pinnedFile = await pinFile(path).catch(() => undefined);
  if (!pinnedFile) return undefined;
  try {
    if (realPathOf(pinnedFile.handle) === path && !pinnedFile.stats.isSymbolicLink()) return pinnedFile;
  } catch {
    // The step-by-step walk reports the reason.
  }
  pinnedFile.handle.close();
  return undefined;
}

interface WalkPosition extends PinnedFile {
  readonly path: string;
}

/**
 * The first link on the path. If its target does not exist, the result of the walk is the folder of the link, with the
 * link as first missing name.
 */
interface FirstLink {
  readonly position: WalkPosition;
  readonly remainingNames: readonly string[];
  /** Number of names that remain after the names of the link's target. */
  readonly namesAfterLink: number;
}

/** One walk; each step resolves one name. */
class Walk {
  readonly #rules: AccessRules;
  readonly #traversedPaths: string[];
  #names: string[];
  #linkCount = 0;
  #firstLink: FirstLink | undefined;
  #openHandles = new Set<NameHandle>();

  constructor(path: string, rules: AccessRules) {
    this.#rules = rules;
    this.#traversedPaths = [path];
    this.#names = splitNames(path);
  }

  async run(): Promise<ResolvedPath> {
    let result: ResolvedPath | undefined;
    try {
      result = await this.#walk();
      return result;
    } finally {
      for (const handle of this.#openHandles) if (handle !== result?.handle) handle.close();
    }
  }

  async #walk(): Promise<ResolvedPath> {
    let position = await this.#openRoot();
    for (let name = this.#takeName(); name !== undefined; name = this.#takeName()) {
      const pinnedFile = await this.#pinName(position, name);
      if (pinnedFile === undefined)
        return this.#createResult(
          this.#firstLink?.position ?? position,
          this.#firstLink?.remainingNames ?? [name, ...this.#names],
        );
      if (pinnedFile.stats.isSymbolicLink()) {
        this.#close(pinnedFile.handle);
        position = await this.#followLink(position, name);
        continue;
      }
      const nextPosition = { ...pinnedFile, path: join(position.path, name) };
      this.#rules.requireNotDenied(nextPosition.path);
      if (position !== this.#firstLink?.position) this.#close(position.handle);
      position = nextPosition;
      if (this.#names.length > 0 && !pinnedFile.stats.isDirectory()) {
        if (this.#firstLink && this.#names.length > this.#firstLink.namesAfterLink)
          return this.#createResult(this.#firstLink.position, this.#firstLink.remainingNames);
        return this.#createResult(position, this.#names);
      }
    }
    return this.#createResult(position, []);
  }

  /**
   * Returns the next name; undefined after the last. Forgets the first link once only the names after the link remain.
   */
  #takeName(): string | undefined {
    if (this.#firstLink && this.#names.length <= this.#firstLink.namesAfterLink) this.#firstLink = undefined;
    return this.#names.shift();
  }

  async #openRoot(): Promise<WalkPosition> {
    return { ...(await this.#pin("/")), path: "/" };
  }

  /** Pins a name in a folder. Undefined if the name does not exist. */
  async #pinName(position: WalkPosition, name: string): Promise<PinnedFile | undefined> {
    try {
      return await this.#pin(procPath(position.handle, name));
    } catch (error) {
      const code = codeOf(error);
      if (code === "ENOENT" || code === "ENOTDIR") return undefined;
      // A path outside the roots is reported as such, whatever the system's error was.
      this.#rules.requireAllowed(join(position.path, name, ...this.#names));
      throw error;
    }
  }

  async #followLink(position: WalkPosition, name: string): Promise<WalkPosition> {
    if (++this.#linkCount > MAX_LINKS) throw new PathError("invalid", "too many symbolic links");
    const target = await readlink(procPath(position.handle, name)).catch((error: unknown) => {
      throw codeOf(error) === "EINVAL" || codeOf(error) === "ENOENT" ? new NameChangedError() : error;
    });
    this.#traversedPaths.push(resolve(position.path, target, ...this.#names));
    this.#firstLink ??= { position, remainingNames: [name, ...this.#names], namesAfterLink: this.#names.length };
    this.#names = [...splitNames(target), ...this.#names];
    if (!isAbsolute(target)) return position;
    if (position !== this.#firstLink.position) this.#close(position.handle);
    return this.#openRoot();
  }

  async #createResult(position: WalkPosition, missingNames: readonly string[]): Promise<ResolvedPath> {
    const path = realPathOf(position.handle);
    // The kernel appends " (deleted)" to the path of a removed file. The name of a file can also end like this.
    if (path !== position.path && path.endsWith(" (deleted)")) throw new NameChangedError();
    return { handle: position.handle, stats: position.stats, path, missingNames, traversedPaths: this.#traversedPaths };
  }

  async #pin(pathToPin: string): Promise<PinnedFile> {
    const pinnedFile = await pinFile(pathToPin);
    this.#openHandles.add(pinnedFile.handle);
    return pinnedFile;
  }

  #close(handle: NameHandle): void {
    this.#openHandles.delete(handle);
    handle.close();
  }
}

function splitNames(path: string): string[] {
  return path.split("/").filter((name) => name !== "" && name !== ".");
}
