import { createHash } from "node:crypto";
import { dirname } from "node:path";
import { TOLD, toldOf } from "../../conversation/stored-state.js";
import type { Location } from "../../ports/tool-display.js";
import type { ToolKind, ToolOutput } from "../../ports/tool.js";
import { told, within, type Instruction } from "../../project/instructions.js";
import type { CallState } from "../tools/tool-state.js";
import type { Conversation } from "../../conversation/conversation.js";
import type { Project } from "../../project/project.js";

/** Of one result, so many bytes at most are instructions, and never more than this share of what is kept of it. */
const MOST_BYTES = 16_384;
const SHARE = 0.5;
/** Of the calls of one answer together. */
const MOST_OF_ALL = 32_768;
/** Folders of one call that are looked at. */
const FOLDERS = 16;

const HEAD =
  "[Files of instructions lie on the way to what you looked at. They are the repository's, as those at the beginning: work as they say below their folders.]";

/** The fields of a run that find instructions below its project folder. */
interface InstructionRun {
  readonly agent: { readonly project: Project };
  readonly projectDir: string;
  readonly conversation: Conversation;
  readonly limits: { readonly toolOutputBytes: number };
}

/** Tells what files of instructions below the project folder say, with the results that come from there. One for the calls of an answer. */
export class NestedInstructions {
  readonly #run: InstructionRun;
  /** By calls that run beside each other: what one of them tells is in no message yet. */
  readonly #telling = new Set<string>();
  #left = MOST_OF_ALL;

  constructor(run: InstructionRun) {
    this.#run = run;
  }

  /**
   * The result with what was not told yet: what no message before the model tells, or tells in another version. Which ones
   * they are is stored with the result, so it is known to any process, and forgotten with the text.
   */
  async with(
    output: ToolOutput,
    kind: ToolKind,
    locations: readonly Location[],
    state: CallState,
  ): Promise<ToolOutput> {
    if (output.failed === true || locations.length === 0) return output;
    const { agent, projectDir, conversation, limits } = this.#run;
    // What has lines or is edited is a file; anything else may be a folder.
    const folders = locations.map(({ path, line }) => (line !== undefined || kind === "edit" ? dirname(path) : path));
    const looked = [...new Set(folders)].slice(0, FOLDERS);
    const found = (await Promise.all(looked.map((folder) => agent.project.below(projectDir, folder)))).flat();
    const news = new Map(
      found
        .map((one) => [one.from, { one, version: versionOf(one) }] as const)
        .filter(([from, { version }]) => !this.#telling.has(from) && toldOf(conversation.messages, from) !== version),
    );
    const room = Math.min(MOST_BYTES, Math.floor(limits.toolOutputBytes * SHARE));
    // The outermost before those in it, which stay whole where there is too much.
    const all = [...news.values()].map(({ one }) => one).sort((a, b) => depthOf(a.from) - depthOf(b.from));
    const fitting = within(all, room - HEAD.length);
    const size = fitting.reduce((sum, { text }) => sum + Buffer.byteLength(text), 0);
    // For what there is no room now, there is with the calls of the next answer that look there.
    if (size === 0 || size > this.#left) return output;
    this.#left -= size;
    for (const { from } of fitting) {
      this.#telling.add(from);
      state.set(TOLD + from, news.get(from)?.version);
    }
    return { ...output, text: [output.text, HEAD, ...fitting.map(told)].join("\n\n") };
  }
}

/** Tells one version of what a file says from another. */
function versionOf({ text }: Instruction): string {
  return createHash("sha256").update(text).digest("base64url").slice(0, 16);
}

function depthOf(path: string): number {
  return path.split("/").length;
}
