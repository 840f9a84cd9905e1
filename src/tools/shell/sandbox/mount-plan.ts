import { dirname, join, relative } from "node:path";

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
  /** Path that is mounted at `path`. Undefined for an empty folder. */
  readonly source: string | undefined;
}

/** If a path has two modes, the later one in this list applies. */
const MODES_BY_STRICTNESS: readonly MountMode[] = ["replace", "write", "keep", "hide"];

/** Collects the mounts of a sandbox in any order and sorts them for bubblewrap. Paths are real and absolute. */
export class MountPlan {
  readonly #mountsByPath = new Map<string, Mount>();

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
    return this.#findEnclosingMount(path)?.mode === "write";
  }

  isHidden(path: string): boolean {
    if (this.#findEnclosingMount(path)?.mode === "replace") return true;
    return [...this.#mountsByPath.values()].some((mount) => mount.mode === "hide" && isInside(path, mount.path));
  }

  /** Returns bubblewrap's arguments. Parents come first, because a mount covers earlier mounts below it. */
  createArguments(): string[] {
    const mounts = this.#listVisibleMounts();
    return [...mounts, ...this.#createPins(mounts)]
      .sort((left, right) => countLevels(left.path) - countLevels(right.path))
      .flatMap(({ mode, path, source }) => {
        if (source === undefined) return ["--tmpfs", path];
        return [mode === "write" || mode === "replace" ? "--bind" : "--ro-bind", source, path];
      });
  }

  /**
   * Creates mounts for all folders between a writable folder and a deeper mount. Without these mounts a command could
   * rename such a folder and replace it with a link. A mount cannot be renamed.
   */
  #createPins(mounts: readonly Mount[]): Mount[] {
    const pins = new Map<string, Mount>();
    for (const { path } of mounts) {
      const parent = dirname(path);
      const enclosingMount = this.#findEnclosingMount(parent);
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
   * Returns the folders that must exist inside a replacement folder, because bubblewrap mounts on them. `relativePath`
   * is relative to `source`.
   */
  listMountPoints(): { source: string; relativePath: string }[] {
    return this.#listVisibleMounts().flatMap(({ path }) => {
      const enclosingMount = this.#findEnclosingMount(dirname(path));
      if (enclosingMount?.mode !== "replace" || enclosingMount.source === undefined) return [];
      return [{ source: enclosingMount.source, relativePath: relative(enclosingMount.path, path) }];
    });
  }

  #add(mount: Mount): void {
    const earlierMount = this.#mountsByPath.get(mount.path);
    if (earlierMount && MODES_BY_STRICTNESS.indexOf(earlierMount.mode) >= MODES_BY_STRICTNESS.indexOf(mount.mode))
      return;
    this.#mountsByPath.set(mount.path, mount);
  }

  #listVisibleMounts(): Mount[] {
    const mounts = [...this.#mountsByPath.values()];
    return mounts.filter(
      ({ path }) => !mounts.some((mount) => mount.mode === "hide" && mount.path !== path && isInside(path, mount.path)),
    );
  }

  /** Returns the nearest mount at or above `path`. */
  #findEnclosingMount(path: string): Mount | undefined {
    for (let ancestor = path; ; ancestor = dirname(ancestor)) {
      const mount = this.#mountsByPath.get(ancestor);
      if (mount || dirname(ancestor) === ancestor) return mount;
    }
  }
}

/** Like `isInside` of src/files, which would normalize both paths for each pair of mounts. */
function isInside(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder === "/" ? folder : `${folder}/`);
}

function countLevels(path: string): number {
  return path.split("/").filter((name) => name !== "").length;
}
