import { readlink } from "node:fs/promises";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { PathError } from "../ports/errors.js";
import { hold, placeOf, wayTo, type Held, type NameHandle } from "./handles.js";
import { codeOf, replacedMeanwhile } from "./names.js";
import type { Rules } from "./rules.js";

/** Where a path leads: what is there, held, or the deepest of its folders that is. Whoever gets it closes `handle`. */
export interface Reached extends Held {
  /** Where that is, told by the kernel. */
  readonly path: string;
  /** The names after it, of which the first does not exist. */
  readonly rest: readonly string[];
  /** Every path that was walked: the one that was asked for, and one more for each link. */
  readonly ways: readonly string[];
}

/** As the kernel does. */
const MAX_LINKS = 40;
const MAX_BYTES = 4096;
/** Times that a walk begins again because a name changed its meaning under it. */
const ATTEMPTS = 20;

/** Thrown when a name changed its meaning between two steps. */
class Moved extends Error {}

/**
 * Walk an absolute path from handle to handle. No step follows a link: the guard reads it and walks on by itself. What
 * is denied is not even passed. The caller checks the end by `path`, which is where the handle really is.
 * Rejects with `PathError`, or with the system's error.
 */
export async function reach(path: string, rules: Rules): Promise<Reached> {
  const full = resolve(path);
  if (Buffer.byteLength(full) > MAX_BYTES) throw new PathError("invalid", "the path is too long");
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    try {
      return (await leap(full)) ?? (await new Walk(full, rules).run());
    } catch (error) {
      if (!(error instanceof Moved)) throw error;
    }
  }
  throw replacedMeanwhile();
}

/**
 * Most paths hold no link, and then one step is enough: what was opened is where its name says, so no link was on the
 * way. Undefined for everything else; a failure says nothing, because a link may have led it anywhere.
 */
async function leap(path: string): Promise<Reached | undefined> {
  const held = await holdAt(path);
  if (held) return { ...held, path, rest: [], ways: [path] };
  const parent = dirname(path);
  const folder = parent === path ? undefined : await holdAt(parent);
  if (!folder) return undefined;
  const name = path.slice(parent === "/" ? 1 : parent.length + 1);
  if (folder.stats.isDirectory()) {
    try {
      // It is there after all, so it is a link; or it came just now.
      (await hold(wayTo(folder.handle, name))).handle.close();
    } catch (error) {
      if (codeOf(error) === "ENOENT") return { ...folder, path: parent, rest: [name], ways: [path] };
    }
  }
  folder.handle.close();
  return undefined;
}

async function holdAt(path: string): Promise<Held | undefined> {
  const held = await hold(path).catch(() => undefined);
  if (!held) return undefined;
  try {
    if (placeOf(held.handle) === path && !held.stats.isSymbolicLink()) return held;
  } catch {
    // Whoever walks there step by step finds out why.
  }
  held.handle.close();
  return undefined;
}

interface Place extends Held {
  readonly path: string;
}

/** The place of the first link on the way, for the case that it leads nowhere. */
interface FirstLink {
  readonly place: Place;
  readonly rest: readonly string[];
  /** So many names are left when the link's own are walked. */
  readonly after: number;
}

/** One walk; each name a step. */
class Walk {
  readonly #rules: Rules;
  readonly #ways: string[];
  #names: string[];
  #links = 0;
  #first: FirstLink | undefined;
  #open = new Set<NameHandle>();

  constructor(path: string, rules: Rules) {
    this.#rules = rules;
    this.#ways = [path];
    this.#names = namesOf(path);
  }

  async run(): Promise<Reached> {
    let result: Reached | undefined;
    try {
      result = await this.#walk();
      return result;
    } finally {
      for (const handle of this.#open) if (handle !== result?.handle) handle.close();
    }
  }

  async #walk(): Promise<Reached> {
    let at = await this.#root();
    for (let name = this.#next(); name !== undefined; name = this.#next()) {
      const held = await this.#step(at, name);
      if (held === undefined) return this.#end(this.#first?.place ?? at, this.#first?.rest ?? [name, ...this.#names]);
      if (held.stats.isSymbolicLink()) {
        this.#close(held.handle);
        at = await this.#follow(at, name);
        continue;
      }
      const next = { ...held, path: join(at.path, name) };
      this.#rules.pass(next.path);
      if (at !== this.#first?.place) this.#close(at.handle);
      at = next;
      if (this.#names.length > 0 && !held.stats.isDirectory()) {
        if (this.#first && this.#names.length > this.#first.after)
          return this.#end(this.#first.place, this.#first.rest);
        return this.#end(at, this.#names);
      }
    }
    return this.#end(at, []);
  }

  /** The next name; what the first link said is behind us when only the names after it are left. */
  #next(): string | undefined {
    if (this.#first && this.#names.length <= this.#first.after) this.#first = undefined;
    return this.#names.shift();
  }

  async #root(): Promise<Place> {
    return { ...(await this.#keep("/")), path: "/" };
  }

  /** Undefined when there is nothing of that name. */
  async #step(at: Place, name: string): Promise<Held | undefined> {
    try {
      return await this.#keep(wayTo(at.handle, name));
    } catch (error) {
      const code = codeOf(error);
      if (code === "ENOENT" || code === "ENOTDIR") return undefined;
      // What is outside is called so, whatever else is wrong with it.
      this.#rules.check(join(at.path, name, ...this.#names));
      throw error;
    }
  }

  async #follow(at: Place, name: string): Promise<Place> {
    if (++this.#links > MAX_LINKS) throw new PathError("invalid", "too many symbolic links");
    const target = await readlink(wayTo(at.handle, name)).catch((error: unknown) => {
      throw codeOf(error) === "EINVAL" || codeOf(error) === "ENOENT" ? new Moved() : error;
    });
    this.#ways.push(resolve(at.path, target, ...this.#names));
    this.#first ??= { place: at, rest: [name, ...this.#names], after: this.#names.length };
    this.#names = [...namesOf(target), ...this.#names];
    if (!isAbsolute(target)) return at;
    if (at !== this.#first.place) this.#close(at.handle);
    return this.#root();
  }

  async #end(at: Place, rest: readonly string[]): Promise<Reached> {
    const path = placeOf(at.handle);
    // The kernel marks a name that is gone; a file may also be called so.
    if (path !== at.path && path.endsWith(" (deleted)")) throw new Moved();
    return { handle: at.handle, stats: at.stats, path, rest, ways: this.#ways };
  }

  async #keep(way: string): Promise<Held> {
    const held = await hold(way);
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
