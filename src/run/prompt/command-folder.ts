import { join } from "node:path";
import { printableLines } from "../../base/printable.js";
import { textIn } from "../../files/known-file.js";
import { InputError, PathError } from "../../ports/errors.js";
import type { SlashCommand } from "../../ports/slash-command.js";
import { hasTrustedOwners, type OwnedPath } from "../../files/owners.js";
import { PathGuard, type OpenedFolder } from "../../files/path-guard.js";
import { commandText, fillTemplate, oneLine } from "./command-text.js";

/** Maximum commands listed from a folder, entries read for them, and depth of nested folders. */
const MAX_COMMANDS = 128;
const MAX_ENTRIES = 1_000;
const MAX_DEPTH = 3;
/** Maximum size of a command file. */
const MAX_FILE_BYTES = 65_536;
/** Bytes read from a file for its description. */
const HEADER_BYTES = 4_096;
/** Part of a command's name, which is also the name of a file or folder. */
const PART = /^[\p{L}\p{N}][\p{L}\p{N}._-]{0,63}$/u;

/** A folder with one command per file. */
export interface CommandPlace extends Omit<OwnedPath, "path"> {
  /** Absolute path. */
  readonly folder: string;
  /** Absolute paths that are never read, not even through a link. */
  readonly denied: readonly string[];
  /** The displayed origin of a file, from its path in the folder. */
  origin(way: string): string;
}

/** The commands of a folder, read again at each request: `git/commit.md` is `/git:commit`. */
export class CommandFolder {
  readonly #place: CommandPlace;

  constructor(place: CommandPlace) {
    this.#place = place;
  }

  /** Lists the commands, sorted by name. Never rejects: unreadable files are omitted. */
  async list(): Promise<SlashCommand[]> {
    try {
      const guard = await this.#guard();
      const ways: string[] = [];
      await walk(await guard.openFolder(this.#place.folder), "", ways, { remainingEntries: MAX_ENTRIES });
      const commands = await Promise.all(ways.sort().map((way) => this.#command(guard, way).catch(() => undefined)));
      return commands.flatMap((command) => (command?.isUsable === true ? command : []));
    } catch {
      return [];
    }
  }

  /** Reads one command by its name, without listing the folder. Undefined if no readable file has this name. */
  async named(name: string): Promise<SlashCommand | undefined> {
    const parts = name.split(":");
    if (parts.length > MAX_DEPTH || !parts.every((part) => PART.test(part))) return undefined;
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
    const { text: head, isUsable } = await this.#read(guard, way, HEADER_BYTES);
    const { description, hint } = commandText(head);
    return {
      isUsable,
      name,
      description,
      hint,
      origin: oneLine(this.#place.origin(way)),
      prompt: async (words, signal) => {
        const { text, isWhole } = await this.#read(guard, way, MAX_FILE_BYTES);
        signal.throwIfAborted();
        if (!isWhole)
          throw new InputError("commands", `a command of at most ${MAX_FILE_BYTES / 1024} KiB, and /${name} is longer`);
        const promptText = fillTemplate(commandText(text).body, words);
        if (promptText === undefined)
          throw new InputError("commands", `shorter arguments for /${name}, whose template repeats them too often`);
        return { text: promptText };
      },
    };
  }

  async #read(guard: PathGuard, way: string, bytes: number) {
    const path = join(this.#place.folder, way);
    const { handle, stats } = await guard.openFile(path);
    try {
      if (!(await hasTrustedOwners({ ...this.#place, path }, stats))) throw new PathError("denied", "of another user");
      const buffer = Buffer.alloc(Math.min(bytes, Number(stats.size)));
      const { bytesRead } = await handle.read(buffer, 0, buffer.length, 0);
      const isCut = stats.size > BigInt(bytes);
      return {
        text: printableLines(textIn(buffer.subarray(0, bytesRead), isCut)),
        isWhole: !isCut,
        isUsable: stats.size <= MAX_FILE_BYTES,
      };
    } finally {
      await handle.close();
    }
  }
}

/** Collects the paths of command files below an open folder, relative to the top. Closes the folder. */
async function walk(
  folder: OpenedFolder,
  way: string,
  ways: string[],
  looked: { remainingEntries: number },
): Promise<void> {
  const folders: string[] = [];
  try {
    for await (const entry of folder.entries()) {
      if (looked.remainingEntries-- <= 0 || ways.length >= MAX_COMMANDS) return;
      const { name } = entry;
      const isFile = name.endsWith(".md") && !entry.isDirectory();
      if (!PART.test(isFile ? name.slice(0, -".md".length) : name)) continue;
      if (isFile) ways.push(way + name);
      else if (entry.isDirectory() && way.split("/").length < MAX_DEPTH) folders.push(name);
    }
    for (const name of folders) {
      const below = await folder.folder(name).catch(() => undefined);
      if (below) await walk(below, `${way}${name}/`, ways, looked);
    }
  } finally {
    await folder.close();
  }
}
