import { createHash } from "node:crypto";
import { dirname } from "node:path";
import { INSTRUCTION_PREFIX, findInstructionVersion } from "../../conversation/conversation.js";
import type { Location } from "../../ports/tool-display.js";
import type { ToolKind } from "../../ports/tool-display.js";
import type { ToolOutput } from "../../ports/tool.js";
import { formatInstruction, limitInstructions, type InstructionFile } from "../../project/instructions.js";
import type { CallState } from "../tools/tool-state.js";
import type { Conversation } from "../../conversation/conversation.js";
import type { Project } from "../../project/project.js";

/** Maximum bytes of instructions in one tool result, and their maximum share of the stored output. */
const MAX_RESULT_BYTES = 16_384;
const MAX_RESULT_SHARE = 0.5;
/** Maximum bytes of instructions for all calls of one answer. */
const MAX_ANSWER_BYTES = 32_768;
/** Maximum folders that are checked for one call. */
const MAX_FOLDERS = 16;

export const INSTRUCTIONS_HEADER =
  "[Instruction files of the folders that you accessed. They come from the repository, like the project instructions; each applies below its folder.]";

/** The members of a run that are needed to find instructions below its project folder. */
interface InstructionRun {
  readonly project: Project;
  readonly projectDir: string;
  readonly conversation: Conversation;
  /** Maximum stored bytes of the text of one tool output. */
  readonly toolOutputBytes: number;
}

/**
 * Appends the instruction files below the project folder to the results of calls that work there. One instance for the
 * calls of one answer.
 */
export class NestedInstructions {
  readonly #run: InstructionRun;
  /** Paths already appended for other calls of this answer, whose results are not in the conversation yet. */
  readonly #appendedPaths = new Set<string>();
  #remainingBytes = MAX_ANSWER_BYTES;

  constructor(run: InstructionRun) {
    this.#run = run;
  }

  /**
   * Appends instructions that no message in the model's context contains in their current version. The version is
   * stored with the result: every process can read it, and a compaction drops it together with the text, unless it
   * attaches the file again.
   */
  async appendTo(
    output: ToolOutput,
    kind: ToolKind,
    locations: readonly Location[],
    state: CallState,
  ): Promise<ToolOutput> {
    if (output.failed === true || locations.length === 0) return output;
    const { project, projectDir, conversation, toolOutputBytes } = this.#run;
    // A location with a line, or of an edit, is a file. Any other location may be a folder.
    const folders = locations.map(({ path, line }) => (line !== undefined || kind === "edit" ? dirname(path) : path));
    const checkedFolders = [...new Set(folders)].slice(0, MAX_FOLDERS);
    const instructions = (await Promise.all(checkedFolders.map((folder) => project.below(projectDir, folder)))).flat();
    const newFiles = new Map(
      instructions
        .map((instruction) => [instruction.from, { instruction, version: computeVersion(instruction) }] as const)
        .filter(
          ([from, { version }]) =>
            !this.#appendedPaths.has(from) && findInstructionVersion(conversation.messages, from) !== version,
        ),
    );
    const maxBytes = Math.min(MAX_RESULT_BYTES, Math.floor(toolOutputBytes * MAX_RESULT_SHARE));
    // Files of the outermost folders come first, so that they stay complete if the limit is reached.
    const sortedFiles = [...newFiles.values()]
      .map(({ instruction }) => instruction)
      .sort((a, b) => countDepth(a.from) - countDepth(b.from));
    const appendedFiles = limitInstructions(sortedFiles, maxBytes - INSTRUCTIONS_HEADER.length);
    const appendedBytes = appendedFiles.reduce((sum, { text }) => sum + Buffer.byteLength(text), 0);
    // If the rest of the limit is too small, the calls of the next answer append the instructions.
    if (appendedBytes === 0 || appendedBytes > this.#remainingBytes) return output;
    this.#remainingBytes -= appendedBytes;
    for (const { from } of appendedFiles) {
      this.#appendedPaths.add(from);
      state.set(INSTRUCTION_PREFIX + from, newFiles.get(from)?.version);
    }
    return {
      ...output,
      text: [output.text, INSTRUCTIONS_HEADER, ...appendedFiles.map(formatInstruction)].join("\n\n"),
    };
  }
}

/** Computes a hash that identifies the version of an instruction file. 16 characters are sufficient for that. */
export function computeVersion({ text }: InstructionFile): string {
  return createHash("sha256").update(text).digest("base64url").slice(0, 16);
}

function countDepth(path: string): number {
  return path.split("/").length;
}
