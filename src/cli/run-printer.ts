import { escapeInvisible } from "../base/printable.js";
import type { AgentEvent } from "../ports/events.js";
import type { Run } from "../ports/run.js";
import type { Output } from "./command.js";
import { cell, cut } from "./table.js";

/** Maximum characters of a progress line if stderr is not a terminal. */
const WIDTH = 120;
const DIM = "\u001b[2m";
const PLAIN = "\u001b[0m";

/** Prints the events of a run. */
export interface Printer {
  /** Called when the run has started. */
  begin(run: Run): Promise<void>;
  event(event: AgentEvent): Promise<void>;
  /** Called at the end. `text` is the final output for stdout, if any. */
  end(text: string | undefined): Promise<void>;
  /** Prints a line for the user. */
  tell(line: string): void;
}

export interface PrinterOptions {
  readonly quiet: boolean;
  /** Whether the model's text is streamed to stdout. */
  readonly streams: boolean;
  /** Whether colours are used on a terminal. */
  readonly coloured: boolean;
}

/** Name of the tool that starts a subagent. */
const HELPERS = "task";

/** Prints text to stdout and progress to stderr. */
export class TextPrinter implements Printer {
  readonly #output: Output;
  readonly #options: PrinterOptions;
  #messageId = "";
  /** Ids of the calls that start a subagent. */
  readonly #helpers = new Set<string>();
  /** The last two characters written to stdout. */
  #last = "\n\n";
  #isBegun = false;
  /** First half of a surrogate pair, until the second half arrives. */
  #half = "";

  constructor(output: Output, options: PrinterOptions) {
    this.#output = output;
    this.#options = options;
  }

  async begin({ sessionId, provider, model }: Run): Promise<void> {
    this.#progress(`session ${sessionId} with ${provider}/${model.id}`);
    return Promise.resolve();
  }

  async event(event: AgentEvent): Promise<void> {
    switch (event.type) {
      case "token":
        return event.text === undefined ? undefined : this.#say(event.text, event.messageId);
      case "tool_call":
        if (event.name === HELPERS) this.#helpers.add(event.callId);
        return this.#progress(`> ${callOf(event.name, event.title)}`);
      case "tool_progress":
        // The progress of a subagent call is one line for each of its tool calls. The progress of other calls is
        // command output and is not shown.
        if (this.#helpers.has(event.callId))
          for (const line of event.text.trimEnd().split("\n")) this.#progress(`  > ${line}`);
        return;
      case "tool_result":
        if (event.failed) this.#progress(`  ${event.refused ? "refused" : "failed"}: ${event.output}`);
        return;
      case "steered":
        return this.#progress(`> told by somebody else: ${event.text}`);
      case "compaction":
        return this.#progress(`> the conversation was compacted (${event.strategy}): ${event.messages} messages left`);
      case "retry":
        return this.#progress(`> asked again in ${Math.ceil(event.delayMs / 1000)} s: ${event.error.message}`);
      default:
        return;
    }
  }

  async end(text: string | undefined): Promise<void> {
    if (text !== undefined) await this.#write(text);
    if (this.#isBegun && !this.#last.endsWith("\n")) await this.#write("\n");
  }

  tell(line: string): void {
    const { columns, isShown } = this.#output;
    // Stdout and stderr are usually the same terminal.
    if (columns !== undefined && isShown && !this.#last.endsWith("\n")) {
      this.#output.draw("\n");
      this.#last = "\n\n";
    }
    this.#output.tell(line);
  }

  #progress(line: string): void {
    if (this.#options.quiet) return;
    const { columns } = this.#output;
    const text = cut(
      line.startsWith(" ") ? `  ${cell(line)}` : cell(line),
      columns === undefined ? WIDTH : columns - 1,
    );
    this.tell(columns !== undefined && this.#options.coloured ? `${DIM}${text}${PLAIN}` : text);
  }

  async #say(text: string, messageId: string): Promise<void> {
    if (!this.#options.streams) return;
    if (this.#messageId !== messageId && this.#isBegun && !this.#last.endsWith("\n\n"))
      await this.#write(this.#last.endsWith("\n") ? "\n" : "\n\n");
    this.#messageId = messageId;
    const whole = this.#half + text;
    this.#half = /[\uD800-\uDBFF]$/.test(whole) ? whole.slice(-1) : "";
    await this.#write(whole.slice(0, whole.length - this.#half.length));
  }

  async #write(text: string): Promise<void> {
    if (text === "") return;
    this.#isBegun = true;
    this.#last = (this.#last + text).slice(-2);
    // On a terminal, control characters of the model are escaped. Programs receive the unchanged text.
    await this.#output.write(this.#output.isShown ? escapeInvisible(text, true) : text);
  }
}

/** Omits the tool's name if the title begins with it: `Read a.txt` of `read`. */
function callOf(name: string, title: string): string {
  return title.toLowerCase().startsWith(name.toLowerCase()) ? title : `${name}: ${title}`;
}

/** Prints each event as a line of JSON. */
export class JsonPrinter implements Printer {
  readonly #output: Output;
  readonly #quiet: boolean;

  constructor(output: Output, { quiet }: PrinterOptions) {
    this.#output = output;
    this.#quiet = quiet;
  }

  begin({ id, sessionId, provider, model }: Run): Promise<void> {
    return this.#line({ type: "begin", runId: id, sessionId, provider, model: model.id });
  }

  event(event: AgentEvent): Promise<void> {
    // The final result contains the same data.
    if (event.type === "done" || event.type === "error") return Promise.resolve();
    return this.#line(event.type === "retry" ? { ...event, error: errorOf(event.error) } : event);
  }

  async end(text: string | undefined): Promise<void> {
    if (text !== undefined) await this.#output.write(text);
  }

  tell(line: string): void {
    if (!this.#quiet) this.#output.tell(line);
  }

  #line(value: object): Promise<void> {
    return this.#output.write(`${JSON.stringify(value)}\n`);
  }
}

export function errorOf(error: unknown): { code: string; message: string } {
  const { code } = error as { code?: unknown };
  return {
    code: typeof code === "string" ? code : "internal",
    message: error instanceof Error ? error.message : String(error),
  };
}
