import { join } from "node:path";
import { lines } from "../../base/printable.js";
import { textIn } from "../../files/known-file.js";
import { InputError, PathError } from "../../ports/errors.js";
import type { SlashCommand } from "../../ports/slash-command.js";
import { isVouched, type OwnedPlace } from "../../files/owners.js";
import { PathGuard, type OpenedFolder } from "../../files/path-guard.js";
import { commandText, filled, oneLine } from "./command-text.js";

/** Commands of a folder that are listed, entries that are looked at for them, and folders in folders. */
const MOST = 128;
const LOOKED = 1_000;
const DEPTH = 3;
/** Of a command's file. */
const BYTES = 65_536;
/** So much of it tells what it is. */
const HEAD = 4_096;
/** A part of a command's name, which is that of a file or folder too. */
const PART = /^[\p{L}\p{N}][\p{L}\p{N}._-]{0,63}$/u;

/** Where commands are kept, one a file. */
export interface CommandPlace extends Omit<OwnedPlace, "path"> {
  /** Absolute path. */
  readonly folder: string;
  /** Never read, whatever leads there. */
  readonly denied: readonly string[];
  /** What people are told of where a file lies in it. */
  origin(way: string): string;
}

/** The commands of a folder, read whenever somebody looks: `git/commit.md` is `/git:commit`. */
export class CommandFolder {
  readonly #place: CommandPlace;

  constructor(place: CommandPlace) {
    this.#place = place;
  }

  /** Sorted by name. Never rejects: what cannot be read is left out. */
  async list(): Promise<SlashCommand[]> {
    try {
      const guard = await this.#guard();
      const ways: string[] = [];
      await walk(await guard.openFolder(this.#place.folder), "", ways, { left: LOOKED });
      const found = await Promise.all(ways.sort().map((way) => this.#command(guard, way).catch(() => undefined)));
      return found.flatMap((one) => (one?.isUsable === true ? one : []));
    } catch {
      return [];
    }
  }

  /** The one of that name, found by its name alone; undefined where there is none that can be read. */
  async named(name: string): Promise<SlashCommand | undefined> {
    const parts = name.split(":");
    if (parts.length > DEPTH || !parts.every((part) => PART.test(part))) return undefined;
    try {
      return await this.#command(await this.#guard(), `${parts.join("/")}.md`);
    } catch {
      return undefined;
    }
  }

  #guard(): Promise<PathGuard> {
    return PathGuard.create({ roots: [this.#place.root], denied: this.#place.denied });
  }

  async #command(guard: PathGuard, way: string): Promise<SlashCommand & { isUsable: boolean }> {
    const name = way.slice(0, -".md".length).replaceAll("/", ":");
    const { text: head, isUsable } = await this.#read(guard, way, HEAD);
    const { description, hint } = commandText(head);
    return {
      isUsable,
      name,
      description,
      hint,
      origin: oneLine(this.#place.origin(way)),
      prompt: async (words, signal) => {
        const { text, isWhole } = await this.#read(guard, way, BYTES);
        signal.throwIfAborted();
        if (!isWhole)
          throw new InputError("commands", `a command of at most ${BYTES / 1024} KiB, and /${name} is longer`);
        const said = filled(commandText(text).body, words);
        if (said === undefined)
          throw new InputError("commands", `less behind /${name}, which would repeat it far too often`);
        return { text: said };
      },
    };
  }

  async #read(guard: PathGuard, way: string, bytes: number) {
    const path = join(this.#place.folder, way);
    const { handle, stats } = await guard.openFile(path);
    try {
      if (!(await isVouched({ ...this.#place, path }, stats))) throw new PathError("denied", "of another user");
      const buffer = Buffer.alloc(Math.min(bytes, Number(stats.size)));
      const { bytesRead } = await handle.read(buffer, 0, buffer.length, 0);
      const isCut = stats.size > BigInt(bytes);
      return {
        text: lines(textIn(buffer.subarray(0, bytesRead), isCut)),
        isWhole: !isCut,
        isUsable: stats.size <= BYTES,
      };
    } finally {
      await handle.close();
    }
  }
}

/** Ways to the files below an open folder, which is closed. */
async function walk(folder: OpenedFolder, way: string, ways: string[], looked: { left: number }): Promise<void> {
  const folders: string[] = [];
  try {
    for await (const entry of folder.entries()) {
      if (looked.left-- <= 0 || ways.length >= MOST) return;
      const { name } = entry;
      const isFile = name.endsWith(".md") && !entry.isDirectory();
      if (!PART.test(isFile ? name.slice(0, -".md".length) : name)) continue;
      if (isFile) ways.push(way + name);
      else if (entry.isDirectory() && way.split("/").length < DEPTH) folders.push(name);
    }
    for (const name of folders) {
      const below = await folder.folder(name).catch(() => undefined);
      if (below) await walk(below, `${way}${name}/`, ways, looked);
    }
  } finally {
    await folder.close();
  }
}
