import { readlink } from "node:fs/promises";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { PathError } from "../ports/errors.js";
import { pinFile, realPathOf, procPath, type PinnedFile, type NameHandle } from "./handles.js";
import { codeOf, replacedMeanwhile } from "./names.js";
import type { AccessRules } from "./rules.js";

/** The result of resolving a path: the file, or its deepest existing folder, pinned. The caller must close `handle`. */
export interface ResolvedPath extends PinnedFile {
  /** Real path of the pinned file, from the kernel. */
  readonly path: string;
  /** The names after `path`. The first one does not exist. Empty if the file exists. */
  readonly missingNames: readonly string[];
  /** Every path that was walked: the requested one, and one more for each link. */
  readonly traversedPaths: readonly string[];
}

/** The limit of the Linux kernel. */
const MAX_LINKS = 40;
const MAX_BYTES = 4096;
/** Maximum restarts of a walk after a name changed during the walk. */
const MAX_ATTEMPTS = 20;

/** Thrown if a name changed between two steps. */
class NameChanged extends Error {}

/**
 * Walks an absolute path from descriptor to descriptor. No step follows a link: the guard reads the link and walks its
 * target. Denied folders are not entered.
 *
 * The caller checks `path` of the result, which is the real path of the descriptor. Rejects with `PathError` or with
 * the system's error.
 */
export async function resolvePath(path: string, rules: AccessRules): Promise<ResolvedPath> {
  const full = resolve(path);
  if (Buffer.byteLength(full) > MAX_BYTES) throw new PathError("invalid", "the path is too long");
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
    try {
      return (await resolveDirectly(full)) ?? (await new Walk(full, rules).run());
    } catch (error) {
      if (!(error instanceof NameChanged)) throw error;
    }
  }
  throw replacedMeanwhile();
}

/**
 * Resolves a path in one step, since most paths contain no link. If the real path of the open file equals the requested
 * path, no link was followed.
 *
 * Returns undefined in all other cases. A failure means nothing, because a link may have led elsewhere.
 */
async function resolveDirectly(path: string): Promise<ResolvedPath | undefined> {
  const held = await pinUnlinked(path);
  if (held) return { ...held, path, missingNames: [], traversedPaths: [path] };
  const parent = dirname(path);
  const folder = parent === path ? undefined : await pinUnlinked(parent);
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

async function pinUnlinked(path: string): Promise<PinnedFile | undefined> {
  const held = await pinFile(path).catch(() => undefined);
  if (!held) return undefined;
  try {
    if (realPathOf(held.handle) === path && !held.stats.isSymbolicLink()) return held;
  } catch {
    // The step-by-step walk reports the reason.
  }
  held.handle.close();
  return undefined;
}

interface WalkPosition extends PinnedFile {
  readonly path: string;
}

/** The position of the first link on the path, for a link whose target does not exist. */
interface FirstLink {
  readonly position: WalkPosition;
  readonly remainingNames: readonly string[];
  /** Number of names that remain after the names of the link's target. */
  readonly namesAfterLink: number;
}

/** One walk; each step resolves one name. */
class Walk {
  readonly #rules: AccessRules;
  readonly #ways: string[];
  #names: string[];
  #links = 0;
  #first: FirstLink | undefined;
  #open = new Set<NameHandle>();

  constructor(path: string, rules: AccessRules) {
    this.#rules = rules;
    this.#ways = [path];
    this.#names = namesOf(path);
  }

  async run(): Promise<ResolvedPath> {
    let result: ResolvedPath | undefined;
    try {
      result = await this.#walk();
      return result;
    } finally {
      for (const handle of this.#open) if (handle !== result?.handle) handle.close();
    }
  }

  async #walk(): Promise<ResolvedPath> {
    let at = await this.#root();
    for (let name = this.#next(); name !== undefined; name = this.#next()) {
      const held = await this.#step(at, name);
      if (held === undefined)
        return this.#end(this.#first?.position ?? at, this.#first?.remainingNames ?? [name, ...this.#names]);
      if (held.stats.isSymbolicLink()) {
        this.#close(held.handle);
        at = await this.#follow(at, name);
        continue;
      }
      const next = { ...held, path: join(at.path, name) };
      this.#rules.pass(next.path);
      if (at !== this.#first?.position) this.#close(at.handle);
      at = next;
      if (this.#names.length > 0 && !held.stats.isDirectory()) {
        if (this.#first && this.#names.length > this.#first.namesAfterLink)
          return this.#end(this.#first.position, this.#first.remainingNames);
        return this.#end(at, this.#names);
      }
    }
    return this.#end(at, []);
  }

  /** Returns the next name. Forgets the first link once only the names after it remain. */
  #next(): string | undefined {
    if (this.#first && this.#names.length <= this.#first.namesAfterLink) this.#first = undefined;
    return this.#names.shift();
  }

  async #root(): Promise<WalkPosition> {
    return { ...(await this.#keep("/")), path: "/" };
  }

  /** Undefined if the name does not exist. */
  async #step(at: WalkPosition, name: string): Promise<PinnedFile | undefined> {
    try {
      return await this.#keep(procPath(at.handle, name));
    } catch (error) {
      const code = codeOf(error);
      if (code === "ENOENT" || code === "ENOTDIR") return undefined;
      // A path outside the roots is reported as such, whatever the system's error was.
      this.#rules.check(join(at.path, name, ...this.#names));
      throw error;
    }
  }

  async #follow(at: WalkPosition, name: string): Promise<WalkPosition> {
    if (++this.#links > MAX_LINKS) throw new PathError("invalid", "too many symbolic links");
    const target = await readlink(procPath(at.handle, name)).catch((error: unknown) => {
      throw codeOf(error) === "EINVAL" || codeOf(error) === "ENOENT" ? new NameChanged() : error;
    });
    this.#ways.push(resolve(at.path, target, ...this.#names));
    this.#first ??= { position: at, remainingNames: [name, ...this.#names], namesAfterLink: this.#names.length };
    this.#names = [...namesOf(target), ...this.#names];
    if (!isAbsolute(target)) return at;
    if (at !== this.#first.position) this.#close(at.handle);
    return this.#root();
  }

  async #end(at: WalkPosition, missingNames: readonly string[]): Promise<ResolvedPath> {
    const path = realPathOf(at.handle);
    // The kernel appends this to the path of a removed file. A file may also have this name.
    if (path !== at.path && path.endsWith(" (deleted)")) throw new NameChanged();
    return { handle: at.handle, stats: at.stats, path, missingNames, traversedPaths: this.#ways };
  }

  async #keep(way: string): Promise<PinnedFile> {
    const held = await pinFile(way);
    this.#open.add(held.handle);
    return held;
  }

  #close(handle: NameHandle): void {
    this.#open.delete(handle);
    handle.close();
  }
}

function namesOf(path: string): string[] {
  return path.split("/").filter((name) => name !== "" && name !== ".");
}
