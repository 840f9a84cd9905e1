import { join, relative, sep } from "node:path";
import { toPrintableLines, toPrintable } from "../base/printable.js";
import { createTextCache, type PathCache, type TextStart } from "../files/path-cache.js";
import type { Owners, OwnedPath } from "../files/owners.js";
import type { Repository } from "../files/repository.js";

/** Maximum bytes of all instructions of a project. Also the maximum for the user's own file. */
const MAX_INSTRUCTION_BYTES = 32_768;
/** Names of instruction files. The first that exists in a folder is used. */
const INSTRUCTION_FILE_NAMES = ["AGENTS.md", "CLAUDE.md"] as const;
/** Maximum folder levels below the project folder. */
const MAX_DEPTH = 32;
/** Folders with third-party content. Instruction files in them are ignored. */
const SKIPPED_FOLDERS = new Set(["node_modules", ".git"]);

/** The content of one instruction file. */
export interface InstructionFile {
  /** Path relative to the project folder, printable on one line. For the user's own file, the absolute path. */
  readonly from: string;
  readonly text: string;
  /** Whether the file has more text. */
  readonly isTruncated: boolean;
}

/** Reads instruction files of projects and of the user. Files that cannot be read are skipped; no method rejects. */
export class Instructions {
  readonly #files: PathCache<TextStart>;
  readonly #userFiles = createTextCache(MAX_INSTRUCTION_BYTES, []);
  readonly #onSkipped: OwnedPath["onSkipped"];

  /**
   * Paths in `deniedPaths` are never read, even through links. `onSkipped` is called for files with an owner that is
   * not allowed.
   */
  constructor(deniedPaths: readonly string[], onSkipped?: OwnedPath["onSkipped"]) {
    this.#onSkipped = onSkipped;
    this.#files = createTextCache(MAX_INSTRUCTION_BYTES, deniedPaths);
  }

  /** Reads the user's own instructions from gantry's home. Undefined if there are none. */
  async readUserInstructions(home: string): Promise<InstructionFile | undefined> {
    const path = join(home, INSTRUCTION_FILE_NAMES[0]);
    const file = await this.#userFiles.read({ path, root: home });
    return file && file.text !== "" ? { from: toPrintable(path), ...file } : undefined;
  }

  /**
   * Reads the instructions from the root of the repository down to the project folder. If they exceed the limit, the
   * instructions nearest to the project folder are kept.
   */
  async readProjectInstructions({ root, folders, owners }: Repository): Promise<InstructionFile[]> {
    const project = folders.at(-1) ?? root;
    const instructions = await Promise.all(folders.map((folder) => this.#readFolder(folder, project, root, owners)));
    return limitInstructions(
      instructions.filter((instruction) => instruction !== undefined),
      MAX_INSTRUCTION_BYTES,
    );
  }

  /**
   * Reads the instructions between the project folder (exclusive) and `folder`, the outermost first. Empty outside the
   * project folder and inside skipped folders.
   */
  async readInstructionsBelow(
    projectDir: string,
    folder: string,
    owners: Owners | undefined,
  ): Promise<InstructionFile[]> {
    const names = relative(projectDir, folder).split(sep).slice(0, MAX_DEPTH);
    if (names[0] === "" || names[0] === ".." || names.some((name) => SKIPPED_FOLDERS.has(name))) return [];
    const folders = names.map((_, i) => join(projectDir, ...names.slice(0, i + 1)));
    const instructions = await Promise.all(
      folders.map((folder) => this.#readFolder(folder, projectDir, projectDir, owners)),
    );
    return instructions.filter((instruction) => instruction !== undefined);
  }

  async #readFolder(
    folder: string,
    projectDir: string,
    root: string,
    owners: Owners | undefined,
  ): Promise<InstructionFile | undefined> {
    for (const name of INSTRUCTION_FILE_NAMES) {
      const path = join(folder, name);
      const file = await this.#files.read({ path, root, owners, onSkipped: this.#onSkipped });
      if (!file) continue;
      if (file.text === "") return undefined;
      const from = toPrintable(relative(projectDir, path).split(sep).join("/"));
      return { from, text: toPrintableLines(file.text), isTruncated: file.isTruncated };
    }
    return undefined;
  }
}

/**
 * Limits instructions to `maxBytes`, with priority for the last instructions. The order stays the same. An instruction
 * that does not fit is truncated.
 */
export function limitInstructions(allInstructions: readonly InstructionFile[], maxBytes: number): InstructionFile[] {
  let remainingBytes = maxBytes;
  const selection: InstructionFile[] = [];
  for (const instruction of allInstructions.toReversed()) {
    const sizeBytes = Buffer.byteLength(instruction.text);
    if (sizeBytes <= remainingBytes) selection.unshift(instruction);
    else if (remainingBytes > 0)
      selection.unshift({ ...instruction, text: takeFirstBytes(instruction.text, remainingBytes), isTruncated: true });
    remainingBytes = Math.max(0, remainingBytes - sizeBytes);
  }
  return selection.filter(({ text }) => text !== "");
}

function takeFirstBytes(text: string, maxBytes: number): string {
  return Buffer.from(text)
    .subarray(0, maxBytes)
    .toString()
    .replace(/\uFFFD$/, "")
    .trimEnd();
}

/** Formats an instruction for the model, with its source in a tag that the text cannot close. */
export function formatInstruction({ from, text, isTruncated }: InstructionFile): string {
  const escapedText = text.replace(/<(?=[\s/]*instructions\b)/gi, "&lt;");
  const cutNote = isTruncated ? "\n[cut here; read the file for the rest]" : "";
  return `<instructions from=${JSON.stringify(from)}>\n${escapedText}${cutNote}\n</instructions>`;
}
