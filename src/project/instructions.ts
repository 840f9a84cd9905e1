import { join, relative, sep } from "node:path";
import { lines, printable } from "../base/printable.js";
import { knownFiles, type Known, type KnownText } from "../files/known-file.js";
import type { Owners, OwnedPlace } from "../files/owners.js";
import type { Repository } from "../files/repository.js";

/** What all files of a project together may say, in bytes, and the user's own file. */
const MOST_BYTES = 32_768;
/** The first that is there speaks for its folder. */
const NAMES = ["AGENTS.md", "CLAUDE.md"] as const;
/** Below the project folder so many levels are looked at. */
const MAX_DEPTH = 32;
/** What lies there was brought from elsewhere, and says how others work. */
const OTHERS = new Set(["node_modules", ".git"]);

/** What a file says of how to work. */
export interface Instruction {
  /** Its path from the project folder, as it can stand in a line; absolute for the user's own. */
  readonly from: string;
  readonly text: string;
  /** Whether the file says more. */
  readonly isCut: boolean;
}

/** What the files of a project and the user's own say. Nothing rejects: what cannot be read says nothing. */
export class Instructions {
  readonly #files: Known<KnownText>;
  readonly #own = knownFiles(MOST_BYTES, []);
  readonly #leftOut: OwnedPlace["leftOut"];

  /** What `denied` holds is never read, whatever leads there. `leftOut` is told what is not of the right people. */
  constructor(denied: readonly string[], leftOut?: OwnedPlace["leftOut"]) {
    this.#leftOut = leftOut;
    this.#files = knownFiles(MOST_BYTES, denied);
  }

  /** The user's own, in gantry's home. */
  async own(home: string): Promise<Instruction | undefined> {
    const path = join(home, NAMES[0]);
    const said = await this.#own.read({ path, root: home });
    return said && said.text !== "" ? { from: printable(path), ...said } : undefined;
  }

  /** From the top of the repository down to the project folder; where it is too much, the nearest stay whole. */
  async ofProject({ root, folders, owners }: Repository): Promise<Instruction[]> {
    const project = folders.at(-1) ?? root;
    const found = await Promise.all(folders.map((folder) => this.#in(folder, project, root, owners)));
    return within(
      found.filter((one) => one !== undefined),
      MOST_BYTES,
    );
  }

  /** Of the folders from below the project's down to this one, the outermost first; a file has none. */
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

/** As much as fits, the last ones first; their order stays. */
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

/** One as it stands before a model: where it comes from, and where it ends, whatever it says. */
export function told({ from, text, isCut }: Instruction): string {
  const plain = text.replace(/<(?=[\s/]*instructions\b)/gi, "&lt;");
  const rest = isCut ? "\n[cut here; read the file for the rest]" : "";
  return `<instructions from=${JSON.stringify(from)}>\n${plain}${rest}\n</instructions>`;
}
