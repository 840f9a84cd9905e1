import { dirname, join, relative } from "node:path";
import { isInside } from "../../../files/path-guard.js";

/**
 * The mode of a path in the sandbox:
 *
 * - `hide`: empty, and nothing below it is visible
 * - `replace`: replaced by another folder or an empty folder; mounts below it are visible
 * - `keep`: readable, but cannot be changed or moved
 * - `write`: readable and writable
 */
type MountMode = "hide" | "replace" | "keep" | "write";

interface Mount {
  readonly mode: MountMode;
  readonly path: string;
  /** Path that is mounted there. Undefined: an empty folder. */
  readonly source: string | undefined;
}

/** If a path has two modes, the later one in this list applies. */
const MODES_BY_STRICTNESS: readonly MountMode[] = ["replace", "write", "keep", "hide"];

/** Collects the mounts of a sandbox in any order and sorts them for bubblewrap. Paths are real and absolute. */
export class MountPlan {
  readonly #mounts = new Map<string, Mount>();

  hide(path: string, isFolder: boolean): void {
    this.#add({ mode: "hide", path, source: isFolder ? undefined : "/dev/null" });
  }

  replace(path: string, source?: string): void {
    this.#add({ mode: "replace", path, source });
  }

  makeReadOnly(path: string, source = path): void {
    this.#add({ mode: "keep", path, source });
  }

  makeWritable(path: string): void {
    this.#add({ mode: "write", path, source: path });
  }

  /** Whether a command could change `path` with the current plan. */
  isWritable(path: string): boolean {
    return this.#enclosingMount(path)?.mode === "write";
  }

  isHidden(path: string): boolean {
    if (this.#enclosingMount(path)?.mode === "replace") return true;
    return [...this.#mounts.values()].some((mount) => mount.mode === "hide" && isInside(path, mount.path));
  }

  /** Returns bubblewrap's arguments. Parents come first, because a mount covers earlier mounts below it. */
  args(): string[] {
    const mounts = this.#listVisible();
    return [...mounts, ...this.#createPins(mounts)]
      .sort((a, b) => countLevels(a.path) - countLevels(b.path))
      .flatMap(({ mode, path, source }) => {
        if (source === undefined) return ["--tmpfs", path];
        return [mode === "write" || mode === "replace" ? "--bind" : "--ro-bind", source, path];
      });
  }

  /**
   * Mounts for all folders between a writable folder and a deeper mount. Without them a command could rename such a
   * folder and replace it with a link. A mount cannot be renamed.
   */
  #createPins(mounts: readonly Mount[]): Mount[] {
    const pins = new Map<string, Mount>();
    for (const { path } of mounts) {
      const parent = dirname(path);
      const enclosingMount = this.#enclosingMount(parent);
      if (
        !enclosingMount ||
        (enclosingMount.mode !== "write" && enclosingMount.mode !== "replace") ||
        enclosingMount.source === undefined
      )
        continue;
      for (let folder = parent; folder !== enclosingMount.path; folder = dirname(folder))
        pins.set(folder, {
          mode: enclosingMount.mode,
          path: folder,
          source: join(enclosingMount.source, relative(enclosingMount.path, folder)),
        });
    }
    return [...pins.values()];
  }

  /**
   * Folders that must exist inside a replacement folder, because bubblewrap mounts on them. `relativePath` is relative
   * to `source`.
   */
  mountPoints(): { source: string; relativePath: string }[] {
    return this.#listVisible().flatMap(({ path }) => {
      const enclosingMount = this.#enclosingMount(dirname(path));
      if (enclosingMount?.mode !== "replace" || enclosingMount.source === undefined) return [];
      return [{ source: enclosingMount.source, relativePath: relative(enclosingMount.path, path) }];
    });
  }

  #add(mount: Mount): void {
    const earlierMount = this.#mounts.get(mount.path);
    if (earlierMount && MODES_BY_STRICTNESS.indexOf(earlierMount.mode) >= MODES_BY_STRICTNESS.indexOf(mount.mode))
      return;
    this.#mounts.set(mount.path, mount);
  }

  #listVisible(): Mount[] {
    const mounts = [...this.#mounts.values()];
    return mounts.filter(
      ({ path }) => !mounts.some((mount) => mount.mode === "hide" && mount.path !== path && isInside(path, mount.path)),
    );
  }

  /** The nearest mount at or above `path`. */
  #enclosingMount(path: string): Mount | undefined {
    for (let ancestor = path; ; ancestor = dirname(ancestor)) {
      const mount = this.#mounts.get(ancestor);
      if (mount || dirname(ancestor) === ancestor) return mount;
    }
  }
}

function countLevels(path: string): number {
  return path.split("/").filter((name) => name !== "").length;
}
