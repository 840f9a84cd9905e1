import type { ApiAsk } from "gantry/client";
import { diffRows } from "./diff-rows.js";
import { Editor } from "./editor.js";
import type { KeyInput } from "./keys.js";
import { span, wrap, type Line } from "./spans.js";
import { truncate, escapeInvisible, escapeLine } from "./text.js";

const DIFF_ROWS = 2_000;
/** Time without key presses before the panel accepts an answer, in ms. Keys pressed earlier were not meant for it. */
const QUIET_MS = 500;

type Reply = { choice: string } | { text: string };

export interface AskPanelOptions {
  /** Whether the panel receives the keys, not the prompt. */
  hasKeys: boolean;
  /**
   * Whether it follows an answered question directly. Early key presses were then meant for that question and are
   * dropped.
   */
  followsAnswer: boolean;
  answer(reply: Reply): void;
  /** Monotonic clock, in ms. */
  now: () => number;
}

/**
 * A question of a run. No choice is selected when it appears, and it accepts no key until the keyboard was quiet for a
 * moment. A user who is typing, or holds a key, must not answer it by accident.
 */
export class AskPanel {
  readonly ask: ApiAsk;
  readonly #options: AskPanelOptions;
  readonly #text = new Editor();
  #quietSince: number;
  #at = -1;
  #top = 0;
  #page = 1;
  #body: { columns: number; rows: Line[] } | undefined;
  hasKeys: boolean;
  isSent = false;

  constructor(ask: ApiAsk, options: AskPanelOptions) {
    this.ask = ask;
    this.#options = options;
    this.hasKeys = options.hasKeys;
    this.#quietSince = this.#options.now();
  }

  /** Whether the panel accepts an answer now. */
  get isReady(): boolean {
    return this.#options.now() - this.#quietSince >= QUIET_MS;
  }

  /** Renders the panel in `rows` rows: the scrolled part of the content that fits, and the answers below it. */
  rows(columns: number, rows: number, pendingAskCount: number): Line[] {
    const about = this.#about(columns);
    const answers = this.#answers(columns, Math.max(1, Math.floor(rows / 2)));
    const seen = Math.max(1, rows - answers.length - 1);
    // Reserves a row for the hint about hidden rows.
    const page = about.length > seen ? Math.max(1, seen - 1) : seen;
    this.#page = page;
    this.#top = Math.max(0, Math.min(this.#top, about.length - page));
    const shown = about.slice(this.#top, this.#top + page);
    const remainingRows = about.length - this.#top - shown.length;
    if (about.length > seen)
      shown.push([
        span(
          truncate(remainingRows > 0 ? `   ↓ ${remainingRows} more rows: PgDn` : "   end; PgUp scrolls back", columns),
          "warn",
        ),
      ]);
    return [...shown, ...answers, [span(truncate(`   ${this.#keys(pendingAskCount)}`, columns), "dim")]];
  }

  /** Returns false if the input, and what follows it, belongs to the prompt. */
  press(input: KeyInput): boolean {
    if (input.type === "wheel") this.#top -= input.rows;
    else if (input.type === "key" && input.name === "pageup") this.#top -= this.#page;
    else if (input.type === "key" && input.name === "pagedown") this.#top += this.#page;
    else if (this.isReady) return this.#press(input);
    else {
      this.#quietSince = this.#options.now();
      return this.#options.followsAnswer || input.type === "key";
    }
    return true;
  }

  #press(input: Exclude<KeyInput, { type: "wheel" }>): boolean {
    const { choices, free_text: mayType } = this.ask;
    if (input.type !== "key") {
      const number = /^[1-9]$/.test(input.text) ? Number(input.text) : Infinity;
      // With free text, a digit starts the text ("1. first") and selects no choice.
      this.#at = !mayType && number <= choices.length ? number - 1 : -1;
      if (mayType) this.#text.insert(input.text);
      else return this.#at !== -1;
    } else if (input.name === "up") this.#at = this.#at <= 0 ? choices.length - 1 : this.#at - 1;
    else if (input.name === "down") this.#at = choices.length === 0 ? -1 : (this.#at + 1) % choices.length;
    else if (input.name === "backspace") this.#text.backspace();
    else if (input.name === "enter" && !this.isSent) {
      const choice = choices[this.#at];
      if (choice) this.#send({ choice: choice.id });
      else if (mayType && this.#text.text.trim() !== "") this.#send({ text: this.#text.text });
    }
    return true;
  }

  #send(reply: Reply): void {
    this.isSent = true;
    this.#options.answer(reply);
  }

  #keys(pendingAskCount: number): string {
    const { choices, free_text: mayType } = this.ask;
    if (this.isSent) return "sent";
    if (!this.hasKeys) return "Tab to answer";
    if (!this.isReady) return "...";
    return [
      choices.length > 0 ? (mayType ? "↑↓ choose" : `↑↓ or 1-${choices.length} choose`) : "",
      mayType ? "or type an answer" : "",
      "Enter answers",
      "Tab to the prompt",
      pendingAskCount > 0 ? `${pendingAskCount} more` : "",
    ]
      .filter((part) => part !== "")
      .join(", ");
  }

  /** The choices and the typed text. Choices are wrapped if they fit, otherwise cut to one row each. */
  #answers(columns: number, most: number): Line[] {
    const { choices, free_text: mayType } = this.ask;
    const typed = mayType
      ? wrap(
          [span(this.#text.text === "" ? "…" : escapeInvisible(this.#text.text).replaceAll("\n", " ⏎ "))],
          columns,
          [span(" > ", "accent")],
          [span("   ")],
        ).slice(-Math.max(1, most - 1))
      : [];
    const each = choices.map(({ label }, i): Line[] => {
      const sign = span(i === this.#at ? " ❯ " : "   ", "accent");
      return wrap(
        [span(`${i + 1} ${escapeLine(label)}`, i === this.#at ? "selected" : "plain")],
        columns,
        [sign],
        [span("   ")],
      );
    });
    const room = Math.max(1, most - typed.length);
    if (each.flat().length <= room) return [...each.flat(), ...typed];
    const top = Math.max(0, Math.min(this.#at, each.length - 1) - room + 1);
    const rows = each.slice(top, top + room).map((rows, i): Line => {
      const [first = []] = rows;
      const isCut = rows.length > 1;
      const hidden = i === Math.min(room, each.length) - 1 && top + room < each.length;
      return [...first, span(isCut ? "…" : "", "dim"), span(hidden ? ` ↓ ${each.length - top - room}` : "", "warn")];
    });
    return [...rows, ...typed];
  }

  /** The question, its reason, and its effect: the diff, or else the arguments of the call. */
  #about(columns: number): Line[] {
    if (this.#body?.columns === columns) return this.#body.rows;
    const { diff, input, kind, title, reason } = this.ask;
    const inner = Math.max(1, columns - 3);
    const indent = (row: Line): Line => [span("   "), ...row];
    const rows: Line[] = wrap(
      [span(kind === "permission" ? "Allow? " : "", "warn"), span(escapeLine(title), "bold")],
      columns,
      [span(" ? ", "warn")],
      [span("   ")],
    );
    if (reason !== "") for (const row of wrap([span(escapeLine(reason), "dim")], inner)) rows.push(indent(row));
    for (const fileDiff of diff) for (const row of diffRows(fileDiff, inner, DIFF_ROWS)) rows.push(indent(row));
    if (diff.length === 0 && kind !== "question")
      for (const [name, value] of typeof input === "object" && input !== null
        ? Object.entries(input)
        : [["input", input] as const]) {
        const lines = escapeInvisible(typeof value === "string" ? value : String(JSON.stringify(value))).split("\n");
        for (const [i, line] of lines.entries())
          for (const row of wrap([span(i === 0 ? `${escapeLine(name)}: ` : "  ", "dim"), span(line)], inner))
            rows.push(indent(row));
      }
    this.#body = { columns, rows };
    return rows;
  }
}
