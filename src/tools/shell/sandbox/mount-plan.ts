import { dirname, join, relative } from "node:path";
import { isInside } from "../../../files/path-guard.js";

/**
 * The mode of a path in the sandbox:
 *
 * - `hide`: empty, and nothing below it is visible
 * - `replace`: another folder or an empty folder in its place; mounts below it are visible
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
const BY_STRICTNESS: readonly MountMode[] = ["replace", "write", "keep", "hide"];

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
    const mounts = this.#visible();
    return [...mounts, ...this.#pins(mounts)]
      .sort((a, b) => depth(a.path) - depth(b.path))
      .flatMap(({ mode: fate, path, source }) => {
        if (source === undefined) return ["--tmpfs", path];
        return [fate === "write" || fate === "replace" ? "--bind" : "--ro-bind", source, path];
      });
  }

  /**
   * Mounts for all folders between a writable folder and a deeper mount. Without them a command could rename such a
   * folder and put a link in its place. A mount cannot be renamed.
   */
  #pins(mounts: readonly Mount[]): Mount[] {
    const pins = new Map<string, Mount>();
    for (const { path } of mounts) {
      const parent = dirname(path);
      const around = this.#enclosingMount(parent);
      if (!around || (around.mode !== "write" && around.mode !== "replace") || around.source === undefined) continue;
      for (let at = parent; at !== around.path; at = dirname(at))
        pins.set(at, { mode: around.mode, path: at, source: join(around.source, relative(around.path, at)) });
    }
    return [...pins.values()];
  }

  /**
   * Folders that must exist inside a replacement folder, because bubblewrap mounts on them. `way` is relative to
   * `source`.
   */
  mountPoints(): { source: string; way: string }[] {
    return this.#visible().flatMap(({ path }) => {
      const around = this.#enclosingMount(dirname(path));
      if (around?.mode !== "replace" || around.source === undefined) return [];
      return [{ source: around.source, way: relative(around.path, path) }];
    });
  }

  #add(mount: Mount): void {
    const before = this.#mounts.get(mount.path);
    if (before && BY_STRICTNESS.indexOf(before.mode) >= BY_STRICTNESS.indexOf(mount.mode)) return;
    this.#mounts.set(mount.path, mount);
  }

  #visible(): Mount[] {
    const all = [...this.#mounts.values()];
    return all.filter(
      ({ path }) => !all.some((mount) => mount.mode === "hide" && mount.path !== path && isInside(path, mount.path)),
    );
  }

  /** The nearest mount at or above `path`. */
  #enclosingMount(path: string): Mount | undefined {
    for (let at = path; ; at = dirname(at)) {
      const mount = this.#mounts.get(at);
      if (mount || dirname(at) === at) return mount;
    }
  }
}

function depth(path: string): number {
  return path.split("/").filter((name) => name !== "").length;
}
