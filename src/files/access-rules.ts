import { isAbsolute, sep } from "node:path";
import { PathError } from "../ports/errors.js";
import { foldPath, isInside } from "./names.js";

/**
 * Kernel interfaces that look like files. A read can leak secrets, wait forever, or change the state of the machine.
 */
const SYSTEM_FOLDERS = process.platform === "win32" ? [] : ["/proc", "/sys", "/dev"];

/** Decides which paths may be opened. Callers pass the real path of the open file. All paths are resolved. */
export class AccessRules {
  readonly #roots: readonly string[] | "anywhere";
  readonly #deniedPaths: readonly string[];
  readonly #foldedDeniedPaths: readonly string[];

  constructor(roots: readonly string[] | "anywhere", deniedPaths: readonly string[]) {
    this.#roots = roots;
    this.#deniedPaths = [...SYSTEM_FOLDERS, ...deniedPaths];
    this.#foldedDeniedPaths = this.#deniedPaths.map(foldPath);
  }

  /** Returns the denied paths below this path, as configured. */
  listDeniedPathsBelow(path: string): string[] {
    return this.#deniedPaths.filter((deniedPath) => deniedPath !== path && isInside(deniedPath, path));
  }

  /** Whether a denied path lies at or below this path. Also true for a root and for a folder that contains one. */
  containsDeniedPathOrRoot(path: string): boolean {
    const foldedPath = foldPath(path);
    return this.#foldedDeniedPaths.some((deniedPath) => isInside(deniedPath, foldedPath)) || this.containsRoot(path);
  }

  /** Whether this path is a root or contains one. */
  containsRoot(path: string): boolean {
    return this.#roots !== "anywhere" && this.#roots.some((root) => isInside(root, path));
  }

  denies(path: string): boolean {
    const foldedPath = foldPath(path);
    return this.#foldedDeniedPaths.some((deniedPath) => isAtOrBelow(foldedPath, deniedPath));
  }

  /** Throws `PathError` if the path is denied. */
  requireNotDenied(path: string): void {
    // The kernel reports a relative name for files that are no longer reachable.
    if (!isAbsolute(path) || this.denies(path)) throw new PathError("denied", "access is denied");
  }

  /** Throws `PathError` if the path is denied or outside the roots. */
  requireAllowed(path: string): void {
    this.requireNotDenied(path);
    // Most paths pass the fast comparison. `isInside` also ignores letter case on Windows.
    if (this.#roots !== "anywhere" && !this.#roots.some((root) => isAtOrBelow(path, root) || isInside(path, root)))
      throw new PathError("outside", "outside the project folder");
  }
}

/**
 * Like `isInside`, for resolved paths. A search calls this function for each file, and the text comparison takes a
 * tenth of the time.
 */
function isAtOrBelow(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
}
