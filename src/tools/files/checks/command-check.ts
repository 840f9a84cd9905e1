import { cutMiddle } from "../../../base/cut-text.js";
import type { ToolContext } from "../../../ports/tool.js";
import type { QuickCommands } from "./quick-command.js";
import { cleanOutput } from "../../shell/shell-output.js";

/** A command that reports errors of the project, run when matching files change. */
export interface EditCheck {
  /** Glob for paths relative to the project folder. */
  files: string;
  command: string;
  /** Time limit in seconds. Default: 20. */
  timeout?: number;
}

/** Maximum characters of new lines that are shown. */
const MAX_SHOWN_CHARACTERS = 4_000;
/** Maximum runs whose first output is cached. */
const MAX_CACHED_RUNS = 32;

/** Compares the output of a command before the first change of a run with its current output. */
export class CommandCheck {
  readonly #check: EditCheck;
  readonly #commands: QuickCommands;
  /** Lines of the first output, with their number, by run id. Undefined if the output cannot be compared. */
  readonly #baselinesByRunId = new Map<string, Promise<ReadonlyMap<string, number> | undefined>>();

  constructor(check: EditCheck, commands: QuickCommands) {
    this.#check = check;
    this.#commands = commands;
  }

  /** Glob of the files that the check is for. */
  get files(): string {
    return this.#check.files;
  }

  /** Runs the command before the first change of a run, as the baseline. Rejects only with the signal's reason. */
  async recordBaseline(context: ToolContext): Promise<void> {
    const { runId } = context;
    if (this.#baselinesByRunId.has(runId)) return;
    const [oldestRunId] = this.#baselinesByRunId.keys();
    if (this.#baselinesByRunId.size >= MAX_CACHED_RUNS && oldestRunId !== undefined)
      this.#baselinesByRunId.delete(oldestRunId);
    const lineCounts = this.#readOutputLines(context).then((lines) =>
      typeof lines === "string" ? undefined : countLines(lines),
    );
    this.#baselinesByRunId.set(runId, lineCounts);
    await lineCounts.catch((error: unknown) => {
      this.#baselinesByRunId.delete(runId);
      throw error;
    });
  }

  /**
   * Runs the command after a change and returns the new lines; `""` if there are none. Rejects only with the signal's
   * reason.
   */
  async findNewOutput(context: ToolContext): Promise<string> {
    const baseline = await this.#baselinesByRunId.get(context.runId);
    if (!baseline) return "";
    const lines = await this.#readOutputLines(context);
    const { command } = this.#check;
    if (typeof lines === "string") return lines === "" ? "" : `\`${command}\` ${lines}.`;
    const remainingCounts = new Map(baseline);
    const newLines = lines.filter((line) => {
      const remainingCount = remainingCounts.get(toLineKey(line)) ?? 0;
      remainingCounts.set(toLineKey(line), remainingCount - 1);
      return remainingCount <= 0;
    });
    if (newLines.length === 0) return "";
    const shownLines = cutMiddle(newLines.join("\n"), MAX_SHOWN_CHARACTERS, `run ${command} to see all`);
    return `New output of \`${command}\` since the first change of this run:\n${shownLines}`;
  }

  /**
   * Returns the output lines, or as a string the reason why no output can be compared. `""`: the command could not be
   * started.
   */
  async #readOutputLines(context: ToolContext): Promise<string[] | string> {
    const { command, timeout = 20 } = this.#check;
    const end = await this.#commands.run(command, timeout * 1000, context);
    if (!end) return "";
    if (end.code === null) return `timed out after ${timeout} s; nothing was checked`;
    return cleanOutput(end.output)
      .split("\n")
      .map((line) => line.trimEnd())
      .filter((line) => line !== "");
  }
}

/** Key of a line. Numbers are ignored, because line numbers change while the error stays the same. */
function toLineKey(line: string): string {
  return line.replace(/\d+/g, "0");
}

function countLines(lines: readonly string[]): Map<string, number> {
  const lineCounts = new Map<string, number>();
  for (const line of lines) lineCounts.set(toLineKey(line), (lineCounts.get(toLineKey(line)) ?? 0) + 1);
  return lineCounts;
}
