import { join } from "node:path";
import { toPrintableLines } from "../base/printable.js";
import { decodeText } from "../files/path-cache.js";
import { InputError, PathError } from "../ports/errors.js";
import type { SlashCommand } from "../ports/slash-command.js";
import { hasTrustedOwners, type OwnedPath } from "../files/owners.js";
import { PathGuard, type OpenedFolder } from "../files/path-guard.js";
import { parseCommandFile, fillTemplate, toOneLine } from "./command-text.js";

/** Limits for listing a folder: commands, folder entries read, and depth of nested folders. */
const MAX_COMMANDS = 128;
const MAX_ENTRIES = 1_000;
const MAX_DEPTH = 3;
const MAX_FILE_BYTES = 65_536;
/** Bytes read from a file for its description. */
const HEADER_BYTES = 4_096;
/** A part of a command's name between colons, which is also the name of a file or folder. */
const NAME_PART_PATTERN = /^[\p{L}\p{N}][\p{L}\p{N}._-]{0,63}$/u;

/** A folder with one command per file. */
export interface CommandFolderOptions extends Omit<OwnedPath, "path"> {
  /** Absolute path. */
  readonly folder: string;
  /** Absolute paths that are never read, not even through a link. */
  readonly denied: readonly string[];
  /** Formats the displayed origin of a file, from its path relative to the folder. */
  formatOrigin(relativePath: string): string;
}

/** The commands of a folder, read again at each request: `git/commit.md` is `/git:commit`. */
export class CommandFolder {
  readonly #options: CommandFolderOptions;

  constructor(options: CommandFolderOptions) {
    this.#options = options;
  }

  /** Lists the commands, sorted by name. Never rejects: unreadable files are omitted. */
  async list(): Promise<SlashCommand[]> {
    try {
      const guard = await this.#createGuard();
      const relativePaths: string[] = [];
      await collectPaths(await guard.openFolder(this.#options.folder), "", relativePaths, {
        remainingEntries: MAX_ENTRIES,
      });
      const commands = await Promise.all(
        relativePaths.sort().map((relativePath) => this.#loadCommand(guard, relativePath).catch(() => undefined)),
      );
      return commands.flatMap((command) => (command?.isUsable === true ? command : []));
    } catch {
      return [];
    }
  }

  /** Reads one command by its name, without listing the folder. Undefined if no readable file has this name. */
  async find(name: string): Promise<SlashCommand | undefined> {
    const parts = name.split(":");
    if (parts.length > MAX_DEPTH || !parts.every((namePart) => NAME_PART_PATTERN.test(namePart))) return undefined;
    try {
      return await this.#loadCommand(await this.#createGuard(), `${parts.join("/")}.md`);
    } catch {
      return undefined;
    }
  }

  #createGuard(): Promise<PathGuard> {
    return PathGuard.create({ roots: [this.#options.root], deniedPaths: this.#options.denied });
  }

  async #loadCommand(guard: PathGuard, relativePath: string): Promise<SlashCommand & { isUsable: boolean }> {
    const name = relativePath.slice(0, -".md".length).replaceAll("/", ":");
    const { text: headText, isUsable } = await this.#readFile(guard, relativePath, HEADER_BYTES);
    const { description, hint } = parseCommandFile(headText);
    return {
      isUsable,
      name,
      description,
      hint,
      origin: toOneLine(this.#options.formatOrigin(relativePath)),
      prompt: async (argumentText, signal) => {
        const { text, isComplete } = await this.#readFile(guard, relativePath, MAX_FILE_BYTES);
        signal.throwIfAborted();
        if (!isComplete)
          throw new InputError("commands", `a command of at most ${MAX_FILE_BYTES / 1024} KiB, and /${name} is longer`);
        const promptText = fillTemplate(parseCommandFile(text).body, argumentText);
        if (promptText === undefined)
          throw new InputError("commands", `shorter arguments for /${name}, whose template repeats them too often`);
        return { text: promptText };
      },
    };
  }

  /** `isComplete`: whether `text` is the complete file. `isUsable`: whether the file is within `MAX_FILE_BYTES`. */
  async #readFile(guard: PathGuard, relativePath: string, maxBytes: number) {
    const path = join(this.#options.folder, relativePath);
    const { handle, stats } = await guard.openFile(path);
    try {
      if (!(await hasTrustedOwners({ ...this.#options, path }, stats)))
        throw new PathError("denied", "of another user");
      const buffer = Buffer.alloc(Math.min(maxBytes, Number(stats.size)));
      const { bytesRead } = await handle.read(buffer, 0, buffer.length, 0);
      const isTruncated = stats.size > BigInt(maxBytes);
      return {
        text: toPrintableLines(decodeText(buffer.subarray(0, bytesRead), isTruncated)),
        isComplete: !isTruncated,
        isUsable: stats.size <= MAX_FILE_BYTES,
      };
    } finally {
      await handle.close();
    }
  }
}

/**
 * Collects the paths of command files below an open folder, relative to the top. `parentPath`: the folder's own path,
 * ending in `/`; `""` for the top. Closes the folder.
 */
async function collectPaths(
  folder: OpenedFolder,
  parentPath: string,
  relativePaths: string[],
  quota: { remainingEntries: number },
): Promise<void> {
  const folders: string[] = [];
  try {
    for await (const entry of folder.entries()) {
      if (quota.remainingEntries-- <= 0 || relativePaths.length >= MAX_COMMANDS) return;
      const { name } = entry;
      const isFile = name.endsWith(".md") && !entry.isDirectory();
      if (!NAME_PART_PATTERN.test(isFile ? name.slice(0, -".md".length) : name)) continue;
      if (isFile) relativePaths.push(parentPath + name);
      else if (entry.isDirectory() && parentPath.split("/").length < MAX_DEPTH) folders.push(name);
    }
    for (const name of folders) {
      const subfolder = await folder.openSubfolder(name).catch(() => undefined);
      if (subfolder) await collectPaths(subfolder, `${parentPath}${name}/`, relativePaths, quota);
    }
  } finally {
    await folder.close();
  }
}
