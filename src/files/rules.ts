import { isAbsolute, sep } from "node:path";
import { PathError } from "../ports/errors.js";
import { folded, isInside } from "./names.js";

/** Kernel interfaces that look like files: reading one can leak secrets, never end, or change the machine. */
const SYSTEM = process.platform === "win32" ? [] : ["/proc", "/sys", "/dev"];

/** What may be opened, asked with the real path of what is open. Paths are resolved. */
export class Rules {
  readonly #roots: readonly string[] | "anywhere";
  readonly #names: readonly string[];
  readonly #denied: readonly string[];

  constructor(roots: readonly string[] | "anywhere", denied: readonly string[]) {
    this.#roots = roots;
    this.#names = [...SYSTEM, ...denied];
    this.#denied = this.#names.map(folded);
  }

  /** The denied paths below this one, as they were given. */
  deniedBelow(path: string): string[] {
    return this.#names.filter((denied) => denied !== path && isInside(denied, path));
  }

  /** Whether something denied lies at or below this path. */
  holdsDenied(path: string): boolean {
    const plain = folded(path);
    return this.#denied.some((denied) => isInside(denied, plain)) || this.isRoot(path);
  }

  /** Whether this path is one of the roots, or holds one. */
  isRoot(path: string): boolean {
    return this.#roots !== "anywhere" && this.#roots.some((root) => isInside(root, path));
  }

  denies(path: string): boolean {
    const plain = folded(path);
    return this.#denied.some((denied) => isAtOrBelow(plain, denied));
  }

  /** Throws `PathError`. */
  pass(path: string): void {
    // A name that the kernel gives to what cannot be reached any more is no path.
    if (!isAbsolute(path) || this.denies(path)) throw new PathError("denied", "access is denied");
  }

  /** Throws `PathError`. */
  check(path: string): void {
    this.pass(path);
    if (this.#roots !== "anywhere" && !this.#roots.some((root) => isAtOrBelow(path, root) || isInside(path, root)))
      throw new PathError("outside", "outside the project folder");
  }
}

/** As `isInside`, for resolved paths. A search asks for each file, and the comparison of text takes a tenth of the time. */
function isAtOrBelow(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
}
