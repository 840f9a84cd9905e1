import { escapeInvisible } from "../base/printable.js";
import type { AgentEvent } from "../ports/events.js";
import type { Run } from "../ports/run.js";
import type { CommandOutput } from "./command.js";
import { formatCell, truncate } from "./table.js";

/** Maximum characters of a progress line if stderr is not a terminal. */
const MAX_LINE_CHARACTERS = 120;
/** Terminal sequences for dimmed text and for the end of all styles. */
const DIM = "\u001b[2m";
const RESET = "\u001b[0m";

/** Prints the events of a run. */
export interface Printer {
  /** Called when the run has started. */
  begin(run: Run): Promise<void>;
  printEvent(event: AgentEvent): Promise<void>;
  /** Called at the end. `text` is the final output for stdout; undefined if there is none. */
  end(text: string | undefined): Promise<void>;
  /** Prints a line for the user. */
  report(line: string): void;
}

export interface PrinterOptions {
  /** Whether progress is omitted. */
  readonly isQuiet: boolean;
  /** Whether the model's text is streamed to stdout. */
  readonly streamsText: boolean;
  /** Whether colours are used on a terminal. */
  readonly hasColours: boolean;
}

/** Name of the tool that starts a subagent. */
const SUBAGENT_TOOL = "task";

/** Prints text to stdout and progress to stderr. */
export class TextPrinter implements Printer {
  readonly #output: CommandOutput;
  readonly #options: PrinterOptions;
  /** Id of the message whose text was written last; empty before the first text. */
  #messageId = "";
  /** Ids of the calls that start a subagent. */
  readonly #subagentCallIds = new Set<string>();
  /** The last two characters written to stdout. */
  #lastCharacters = "\n\n";
  #hasWritten = false;
  /** First half of a surrogate pair, until the second half arrives. */
  #pendingSurrogate = "";

  constructor(output: CommandOutput, options: PrinterOptions) {
    this.#output = output;
    this.#options = options;
  }

  async begin({ sessionId, provider, model }: Run): Promise<void> {
    this.#printProgress(`session ${sessionId} with ${provider}/${model.id}`);
    return Promise.resolve();
  }

  async printEvent(event: AgentEvent): Promise<void> {
    switch (event.type) {
      case "token":
        return event.text === undefined ? undefined : this.#writeText(event.text, event.messageId);
      case "tool_call":
        if (event.name === SUBAGENT_TOOL) this.#subagentCallIds.add(event.callId);
        return this.#printProgress(`> ${formatCall(event.name, event.title)}`);
      case "tool_progress":
        // The progress of a subagent call is one line for each of its tool calls. The progress of other calls is
        // command output and is not shown.
        if (this.#subagentCallIds.has(event.callId))
          for (const line of event.text.trimEnd().split("\n")) this.#printProgress(`  > ${line}`);
        return;
      case "tool_result":
        if (event.failed) this.#printProgress(`  ${event.refused ? "denied" : "failed"}: ${event.output}`);
        return;
      case "steered":
        return this.#printProgress(`> steered: ${event.text}`);
      case "compaction":
        return this.#printProgress(`> conversation compacted (${event.strategy}): ${event.messages} messages left`);
      case "retry":
        return this.#printProgress(`> retrying in ${Math.ceil(event.delayMs / 1000)} s: ${event.error.message}`);
      default:
        return;
    }
  }

  async end(text: string | undefined): Promise<void> {
    if (text !== undefined) await this.#write(text);
    if (this.#hasWritten && !this.#lastCharacters.endsWith("\n")) await this.#write("\n");
  }

  report(line: string): void {
    const { columns, isStdoutTerminal } = this.#output;
    // Stdout and stderr are usually the same terminal.
    if (columns !== undefined && isStdoutTerminal && !this.#lastCharacters.endsWith("\n")) {
      this.#output.draw("\n");
      this.#lastCharacters = "\n\n";
    }
    this.#output.report(line);
  }

  #printProgress(line: string): void {
    if (this.#options.isQuiet) return;
    const { columns } = this.#output;
    const text = truncate(
      line.startsWith(" ") ? `  ${formatCell(line)}` : formatCell(line),
      columns === undefined ? MAX_LINE_CHARACTERS : columns - 1,
    );
    this.report(columns !== undefined && this.#options.hasColours ? `${DIM}${text}${RESET}` : text);
  }

  async #writeText(text: string, messageId: string): Promise<void> {
    if (!this.#options.streamsText) return;
    if (this.#messageId !== messageId && this.#hasWritten && !this.#lastCharacters.endsWith("\n\n"))
      await this.#write(this.#lastCharacters.endsWith("\n") ? "\n" : "\n\n");
    this.#messageId = messageId;
    const joinedText = this.#pendingSurrogate + text;
    this.#pendingSurrogate = /[\uD800-\uDBFF]$/.test(joinedText) ? joinedText.slice(-1) : "";
    await this.#write(joinedText.slice(0, joinedText.length - this.#pendingSurrogate.length));
  }

  async #write(text: string): Promise<void> {
    if (text === "") return;
    this.#hasWritten = true;
    this.#lastCharacters = (this.#lastCharacters + text).slice(-2);
    // On a terminal, control characters of the model are escaped. Programs receive the unchanged text.
    await this.#output.write(this.#output.isStdoutTerminal ? escapeInvisible(text, true) : text);
  }
}

/** Formats a tool call. Omits the tool's name if the title begins with it: `Read a.txt` of `read`. */
function formatCall(name: string, title: string): string {
  return title.toLowerCase().startsWith(name.toLowerCase()) ? title : `${name}: ${title}`;
}

/** Prints each event as a line of JSON. */
export class JsonPrinter implements Printer {
  readonly #output: CommandOutput;
  readonly #isQuiet: boolean;

  constructor(output: CommandOutput, { isQuiet }: PrinterOptions) {
    this.#output = output;
    this.#isQuiet = isQuiet;
  }

  begin({ id, sessionId, provider, model }: Run): Promise<void> {
    return this.#printLine({ type: "begin", runId: id, sessionId, provider, model: model.id });
  }

  printEvent(event: AgentEvent): Promise<void> {
    // The final result contains the same data.
    if (event.type === "done" || event.type === "error") return Promise.resolve();
    return this.#printLine(event.type === "retry" ? { ...event, error: toErrorFields(event.error) } : event);
  }

  async end(text: string | undefined): Promise<void> {
    if (text !== undefined) await this.#output.write(text);
  }

  report(line: string): void {
    if (!this.#isQuiet) this.#output.report(line);
  }

  #printLine(value: object): Promise<void> {
    return this.#output.write(`${JSON.stringify(value)}\n`);
  }
}

/** Returns the code and message of an error. Errors without a code have the code `internal`. */
export function toErrorFields(error: unknown): { code: string; message: string } {
  const { code } = error as { code?: unknown };
  return {
    code: typeof code === "string" ? code : "internal",
    message: error instanceof Error ? error.message : String(error),
  };
}
