import { isAbsolute, sep } from "node:path";
import { PathError } from "../ports/errors.js";
import { foldPath, isInside } from "./names.js";

/** Kernel interfaces that look like files. Reading one can leak secrets, never end or change the machine. */
const SYSTEM_FOLDERS = process.platform === "win32" ? [] : ["/proc", "/sys", "/dev"];

/** Decides which paths may be opened. Callers pass the real path of the open file. All paths are resolved. */
export class AccessRules {
  readonly #roots: readonly string[] | "anywhere";
  readonly #deniedPaths: readonly string[];
  readonly #foldedDeniedPaths: readonly string[];

  constructor(roots: readonly string[] | "anywhere", denied: readonly string[]) {
    this.#roots = roots;
    this.#deniedPaths = [...SYSTEM_FOLDERS, ...denied];
    this.#foldedDeniedPaths = this.#deniedPaths.map(foldPath);
  }

  /** The denied paths below this one, as configured. */
  deniedBelow(path: string): string[] {
    return this.#deniedPaths.filter((deniedPath) => deniedPath !== path && isInside(deniedPath, path));
  }

  /** Whether a denied path lies at or below this path. Also true for a root and for a folder that contains one. */
  holdsDenied(path: string): boolean {
    const foldedPath = foldPath(path);
    return this.#foldedDeniedPaths.some((deniedPath) => isInside(deniedPath, foldedPath)) || this.isRoot(path);
  }

  /** Whether this path is a root or contains one. */
  isRoot(path: string): boolean {
    return this.#roots !== "anywhere" && this.#roots.some((root) => isInside(root, path));
  }

  denies(path: string): boolean {
    const foldedPath = foldPath(path);
    return this.#foldedDeniedPaths.some((deniedPath) => isAtOrBelow(foldedPath, deniedPath));
  }

  /** Throws `PathError` if the path is denied. */
  pass(path: string): void {
    // The kernel reports a relative name for files that are no longer reachable.
    if (!isAbsolute(path) || this.denies(path)) throw new PathError("denied", "access is denied");
  }

  /** Throws `PathError` if the path is denied or outside the roots. */
  check(path: string): void {
    this.pass(path);
    if (this.#roots !== "anywhere" && !this.#roots.some((root) => isAtOrBelow(path, root) || isInside(path, root)))
      throw new PathError("outside", "outside the project folder");
  }
}

/**
 * Like `isInside`, for resolved paths. A search calls it for each file, and the text comparison takes a tenth of the
 * time.
 */
function isAtOrBelow(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
}
