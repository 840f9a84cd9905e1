import { cutMiddle } from "../../../base/cut-text.js";
import type { ToolContext } from "../../../ports/tool.js";
import type { QuickCommands } from "./quick-command.js";
import { tidy } from "../../shell/shell-output.js";

/** A command that says what is wrong with the project, for who changes files of it. */
export interface EditCheck {
  /** A glob for paths from the project folder on. */
  files: string;
  command: string;
  /** Seconds; default 20. */
  timeout?: number;
}

/** Shown of what is new, in characters. */
const SHOWN = 4_000;
/** Runs whose first output is known. */
const RUNS = 32;

/** What a command said before a run changed anything, and what it says now. */
export class CommandCheck {
  readonly #check: EditCheck;
  readonly #commands: QuickCommands;
  readonly #before = new Map<string, Promise<ReadonlyMap<string, number> | undefined>>();

  constructor(check: EditCheck, commands: QuickCommands) {
    this.#check = check;
    this.#commands = commands;
  }

  /** A glob. */
  get files(): string {
    return this.#check.files;
  }

  /** Before a change: what it says by now was there before. Rejects with the signal's reason alone. */
  async before(context: ToolContext): Promise<void> {
    const { runId } = context;
    if (this.#before.has(runId)) return;
    const [oldest] = this.#before.keys();
    if (this.#before.size >= RUNS && oldest !== undefined) this.#before.delete(oldest);
    const said = this.#said(context).then((lines) => (typeof lines === "string" ? undefined : countOf(lines)));
    this.#before.set(runId, said);
    await said.catch((error: unknown) => {
      this.#before.delete(runId);
      throw error;
    });
  }

  /** After it: what is new; `""`: nothing. Rejects with the signal's reason alone. */
  async after(context: ToolContext): Promise<string> {
    const before = await this.#before.get(context.runId);
    if (!before) return "";
    const lines = await this.#said(context);
    const { command } = this.#check;
    if (typeof lines === "string") return lines === "" ? "" : `\`${command}\` ${lines}.`;
    const left = new Map(before);
    const fresh = lines.filter((line) => {
      const known = left.get(keyOf(line)) ?? 0;
      left.set(keyOf(line), known - 1);
      return known <= 0;
    });
    if (fresh.length === 0) return "";
    const said = cutMiddle(fresh.join("\n"), SHOWN, `run ${command} to see all`);
    return `New from \`${command}\` since this run began to change files:\n${said}`;
  }

  /** Its lines; or why there are none to compare. */
  async #said(context: ToolContext): Promise<string[] | string> {
    const { command, timeout = 20 } = this.#check;
    const end = await this.#commands.run(command, timeout * 1000, context);
    if (!end) return "";
    if (end.code === null) return `took longer than ${timeout} s, so nothing was checked`;
    return tidy(end.output)
      .split("\n")
      .map((line) => line.trimEnd())
      .filter((line) => line !== "");
  }
}

/** Where a thing is may change; what is wrong with it is the same. */
function keyOf(line: string): string {
  return line.replace(/\d+/g, "0");
}

function countOf(lines: readonly string[]): Map<string, number> {
  const counted = new Map<string, number>();
  for (const line of lines) counted.set(keyOf(line), (counted.get(keyOf(line)) ?? 0) + 1);
  return counted;
}
