import { seen } from "../base/printable.js";
import type { AgentEvent } from "../ports/events.js";
import type { Run } from "../ports/run.js";
import type { Output } from "./command.js";
import { cell, cut } from "./table.js";

/** What a line about a call shows of it, where stderr is no terminal. */
const WIDTH = 120;
const DIM = "\u001b[2m";
const PLAIN = "\u001b[0m";

/** How a run is told. */
export interface Printer {
  /** It goes. */
  begin(run: Run): Promise<void>;
  event(event: AgentEvent): Promise<void>;
  /** It is over. `text`: what stdout gets of it. */
  end(text: string | undefined): Promise<void>;
  /** A line for people. */
  tell(line: string): void;
}

export interface PrinterOptions {
  readonly quiet: boolean;
  /** Whether stdout gets what the model says as it comes. */
  readonly streams: boolean;
  /** Whether a terminal may have colours. */
  readonly coloured: boolean;
}

/** The tool that asks for a helper. */
const HELPERS = "task";

/** For people and scripts: the text on stdout, what is done on stderr. */
export class TextPrinter implements Printer {
  readonly #output: Output;
  readonly #options: PrinterOptions;
  #messageId = "";
  /** Ids of calls that ask for a helper. */
  readonly #helpers = new Set<string>();
  /** The last two characters that stdout got. */
  #last = "\n\n";
  #isBegun = false;
  /** Half of a character, until the other half comes. */
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
        // A line for each of its own calls; what commands print is theirs.
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
    // Both are the same terminal, as a rule.
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
    // A model may say what steers a terminal; a program gets what was said.
    await this.#output.write(this.#output.isShown ? seen(text, true) : text);
  }
}

/** `Read a.txt` of `read` says it all. */
function callOf(name: string, title: string): string {
  return title.toLowerCase().startsWith(name.toLowerCase()) ? title : `${name}: ${title}`;
}

/** For programs: a line of JSON for each event. */
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
    // The result says the same.
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

/** An error for programs. */
export function errorOf(error: unknown): { code: string; message: string } {
  const { code } = error as { code?: unknown };
  return {
    code: typeof code === "string" ? code : "internal",
    message: error instanceof Error ? error.message : String(error),
  };
}
