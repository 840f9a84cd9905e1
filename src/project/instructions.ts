import { join, relative, sep } from "node:path";
import { lines, printable } from "../base/printable.js";
import { knownFiles, type Known, type KnownText } from "../files/known-file.js";
import type { Owners, OwnedPlace } from "../files/owners.js";
import type { Repository } from "../files/repository.js";

/** Maximum bytes of all instructions of a project. Also the maximum for the user's own file. */
const MOST_BYTES = 32_768;
/** Names of instruction files. The first that exists in a folder is used. */
const NAMES = ["AGENTS.md", "CLAUDE.md"] as const;
/** Maximum folder levels below the project folder. */
const MAX_DEPTH = 32;
/** Folders with third-party content. Instruction files in them are ignored. */
const OTHERS = new Set(["node_modules", ".git"]);

/** The content of one instruction file. */
export interface Instruction {
  /** Path relative to the project folder, printable on one line. For the user's own file, the absolute path. */
  readonly from: string;
  readonly text: string;
  /** Whether the file has more text. */
  readonly isCut: boolean;
}

/** Reads instruction files of projects and of the user. Files that cannot be read are skipped; no method rejects. */
export class Instructions {
  readonly #files: Known<KnownText>;
  readonly #own = knownFiles(MOST_BYTES, []);
  readonly #leftOut: OwnedPlace["leftOut"];

  /**
   * Paths in `denied` are never read, even through links. `leftOut` is called for files with an owner that is not
   * allowed.
   */
  constructor(denied: readonly string[], leftOut?: OwnedPlace["leftOut"]) {
    this.#leftOut = leftOut;
    this.#files = knownFiles(MOST_BYTES, denied);
  }

  /** Reads the user's own instructions from gantry's home. Undefined if there are none. */
  async own(home: string): Promise<Instruction | undefined> {
    const path = join(home, NAMES[0]);
    const said = await this.#own.read({ path, root: home });
    return said && said.text !== "" ? { from: printable(path), ...said } : undefined;
  }

  /**
   * Reads the instructions from the root of the repository down to the project folder. If they exceed the limit, those
   * nearest to the project folder are kept.
   */
  async ofProject({ root, folders, owners }: Repository): Promise<Instruction[]> {
    const project = folders.at(-1) ?? root;
    const found = await Promise.all(folders.map((folder) => this.#in(folder, project, root, owners)));
    return within(
      found.filter((one) => one !== undefined),
      MOST_BYTES,
    );
  }

  /**
   * Reads the instructions between the project folder (exclusive) and `folder`, the outermost first. Empty outside the
   * project folder and inside skipped folders.
   */
  async below(projectDir: string, folder: string, owners: Owners | undefined): Promise<Instruction[]> {
    const names = relative(projectDir, folder).split(sep).slice(0, MAX_DEPTH);
    if (names[0] === "" || names[0] === ".." || names.some((name) => OTHERS.has(name))) return [];
    const folders = names.map((_, i) => join(projectDir, ...names.slice(0, i + 1)));
    const found = await Promise.all(folders.map((folder) => this.#in(folder, projectDir, projectDir, owners)));
    return found.filter((one) => one !== undefined);
  }

  async #in(
    folder: string,
    project: string,
    root: string,
    owners: Owners | undefined,
  ): Promise<Instruction | undefined> {
    for (const name of NAMES) {
      const path = join(folder, name);
      const said = await this.#files.read({ path, root, owners, leftOut: this.#leftOut });
      if (!said) continue;
      if (said.text === "") return undefined;
      const from = printable(relative(project, path).split(sep).join("/"));
      return { from, text: lines(said.text), isCut: said.isCut };
    }
    return undefined;
  }
}

/**
 * Limits instructions to `bytes`, with priority for the last ones. The order stays the same. One that does not fit is
 * cut.
 */
export function within(all: readonly Instruction[], bytes: number): Instruction[] {
  let left = bytes;
  const kept: Instruction[] = [];
  for (const one of all.toReversed()) {
    const size = Buffer.byteLength(one.text);
    if (size <= left) kept.unshift(one);
    else if (left > 0) kept.unshift({ ...one, text: headOf(one.text, left), isCut: true });
    left = Math.max(0, left - size);
  }
  return kept.filter(({ text }) => text !== "");
}

function headOf(text: string, bytes: number): string {
  return Buffer.from(text)
    .subarray(0, bytes)
    .toString()
    .replace(/\uFFFD$/, "")
    .trimEnd();
}

/** Formats an instruction for the model, with its source in a tag that the text cannot close. */
export function told({ from, text, isCut }: Instruction): string {
  const plain = text.replace(/<(?=[\s/]*instructions\b)/gi, "&lt;");
  const rest = isCut ? "\n[cut here; read the file for the rest]" : "";
  return `<instructions from=${JSON.stringify(from)}>\n${plain}${rest}\n</instructions>`;
}
