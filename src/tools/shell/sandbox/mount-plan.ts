import { dirname, join, relative } from "node:path";
import { isInside } from "../../../files/path-guard.js";

/**
 * What becomes of a path in the sandbox:
 * - `hide`: empty, and nothing below it is shown
 * - `replace`: another folder, or an empty one, in its place; what is planned below it is shown
 * - `keep`: can be read, not written to, nor moved
 * - `write`
 */
type Fate = "hide" | "replace" | "keep" | "write";

interface Mount {
  readonly fate: Fate;
  readonly path: string;
  /** What is mounted there; undefined: an empty folder. */
  readonly source: string | undefined;
}

/** Of two for the same path the later in this list holds. */
const STRICTER: readonly Fate[] = ["replace", "write", "keep", "hide"];

/** Collects what a sandbox makes of the disk, in any order, and puts it into bubblewrap's. Paths are real and absolute. */
export class MountPlan {
  readonly #mounts = new Map<string, Mount>();

  hide(path: string, isFolder: boolean): void {
    this.#add({ fate: "hide", path, source: isFolder ? undefined : "/dev/null" });
  }

  replace(path: string, source?: string): void {
    this.#add({ fate: "replace", path, source });
  }

  keep(path: string, source = path): void {
    this.#add({ fate: "keep", path, source });
  }

  write(path: string): void {
    this.#add({ fate: "write", path, source: path });
  }

  /** Whether a command could change what lies at `path` if nothing more were planned. */
  isWritable(path: string): boolean {
    return this.#around(path)?.fate === "write";
  }

  isHidden(path: string): boolean {
    if (this.#around(path)?.fate === "replace") return true;
    return [...this.#mounts.values()].some((mount) => mount.fate === "hide" && isInside(path, mount.path));
  }

  /** Parents come first, because a mount covers those made below it before. */
  args(): string[] {
    const mounts = this.#visible();
    return [...mounts, ...this.#pins(mounts)]
      .sort((a, b) => depth(a.path) - depth(b.path))
      .flatMap(({ fate, path, source }) => {
        if (source === undefined) return ["--tmpfs", path];
        return [fate === "write" || fate === "replace" ? "--bind" : "--ro-bind", source, path];
      });
  }

  /**
   * Whoever can write to a folder can rename another within it and put a link in its place, even when something is
   * mounted deeper down. What is a mount itself cannot be renamed: so is every folder on the way.
   */
  #pins(mounts: readonly Mount[]): Mount[] {
    const pins = new Map<string, Mount>();
    for (const { path } of mounts) {
      const parent = dirname(path);
      const around = this.#around(parent);
      if (!around || (around.fate !== "write" && around.fate !== "replace") || around.source === undefined) continue;
      for (let at = parent; at !== around.path; at = dirname(at))
        pins.set(at, { fate: around.fate, path: at, source: join(around.source, relative(around.path, at)) });
    }
    return [...pins.values()];
  }

  /** Folders that must be there in a folder put in another's place, as `[that folder, the way in it]`. */
  foundations(): { source: string; way: string }[] {
    return this.#visible().flatMap(({ path }) => {
      const around = this.#around(dirname(path));
      if (around?.fate !== "replace" || around.source === undefined) return [];
      return [{ source: around.source, way: relative(around.path, path) }];
    });
  }

  #add(mount: Mount): void {
    const before = this.#mounts.get(mount.path);
    if (before && STRICTER.indexOf(before.fate) >= STRICTER.indexOf(mount.fate)) return;
    this.#mounts.set(mount.path, mount);
  }

  #visible(): Mount[] {
    const all = [...this.#mounts.values()];
    return all.filter(
      ({ path }) => !all.some((other) => other.fate === "hide" && other.path !== path && isInside(path, other.path)),
    );
  }

  /** The nearest mount that holds `path`, itself too. */
  #around(path: string): Mount | undefined {
    for (let at = path; ; at = dirname(at)) {
      const found = this.#mounts.get(at);
      if (found || dirname(at) === at) return found;
    }
  }
}

function depth(path: string): number {
  return path.split("/").filter((name) => name !== "").length;
}
