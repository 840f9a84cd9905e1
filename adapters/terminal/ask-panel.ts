import type { ApiAsk } from "gantry/client";
import { renderDiff } from "./diff-rows.js";
import { Editor } from "./editor.js";
import type { KeyInput } from "./keys.js";
import { span, wrap, type Line } from "./spans.js";
import { truncate, escapeInvisible, escapeLine } from "./text.js";

/** Maximum rows of the diff of a file. */
const MAX_DIFF_ROWS = 2_000;
/** Number of rows below which hidden rows are not reported. */
const MIN_HINT_ROWS = 4;
/** Time without key presses before the panel accepts an answer, in ms. Earlier keys were not meant for the panel. */
const QUIET_PERIOD_MS = 500;

type Reply = { choice: string } | { text: string };

export interface AskPanelOptions {
  /** Whether the panel receives the keys, not the prompt. */
  hasKeys: boolean;
  /**
   * Whether the question directly follows an answered one. Early keys were then meant for the previous question and
   * are dropped.
   */
  followsAnswer: boolean;
  answer(reply: Reply): void;
  /** Monotonic clock, in ms. */
  now: () => number;
}

/**
 * A question of a run. When the question appears, no choice is selected. The panel accepts no key until the keyboard
 * was quiet for `QUIET_PERIOD_MS`, because a user who is typing or holds a key must not answer by accident.
 */
export class AskPanel {
  readonly ask: ApiAsk;
  readonly #options: AskPanelOptions;
  readonly #editor = new Editor();
  #quietSinceMs: number;
  /** -1: no choice is selected. */
  #choiceIndex = -1;
  #topRow = 0;
  /** Visible rows of the content in the last frame. */
  #pageRows = 1;
  #cachedContent: { columns: number; rows: Line[] } | undefined;
  hasKeys: boolean;
  /** Whether an answer was sent and has not failed. */
  isAnswerSent = false;

  constructor(ask: ApiAsk, options: AskPanelOptions) {
    this.ask = ask;
    this.#options = options;
    this.hasKeys = options.hasKeys;
    this.#quietSinceMs = this.#options.now();
  }

  /** Whether the panel accepts an answer now. */
  get isReady(): boolean {
    return this.#options.now() - this.#quietSinceMs >= QUIET_PERIOD_MS;
  }

  /**
   * Renders the panel in `rows` rows: the visible part of the content, and the answers below the content.
   * `pendingAskCount`: number of further open questions.
   */
  renderRows(columns: number, rows: number, pendingAskCount: number): Line[] {
    const content = this.#renderContent(columns);
    const answers = this.#renderAnswers(columns, Math.max(1, Math.floor(rows / 2)));
    const contentRows = Math.max(1, rows - answers.length - 1);
    // Reserves a row for the hint about hidden rows, unless the screen has no row for it.
    const hasHint = content.length > contentRows && rows >= MIN_HINT_ROWS;
    const pageRows = hasHint ? Math.max(1, contentRows - 1) : contentRows;
    this.#pageRows = pageRows;
    this.#topRow = Math.max(0, Math.min(this.#topRow, content.length - pageRows));
    const visibleRows = content.slice(this.#topRow, this.#topRow + pageRows);
    const remainingRows = content.length - this.#topRow - visibleRows.length;
    if (hasHint)
      visibleRows.push([
        span(
          truncate(remainingRows > 0 ? `   ↓ ${remainingRows} more rows: PgDn` : "   end; PgUp scrolls back", columns),
          "warn",
        ),
      ]);
    return [...visibleRows, ...answers, [span(truncate(`   ${this.#describeKeys(pendingAskCount)}`, columns), "dim")]];
  }

  /** Handles an input. Returns false if this and all further input belongs to the prompt. */
  press(input: KeyInput): boolean {
    if (input.type === "wheel") this.#topRow -= input.rows;
    else if (input.type === "key" && input.name === "pageup") this.#topRow -= this.#pageRows;
    else if (input.type === "key" && input.name === "pagedown") this.#topRow += this.#pageRows;
    else if (this.isReady) return this.#handleAnswerInput(input);
    else {
      this.#quietSinceMs = this.#options.now();
      return this.#options.followsAnswer || input.type === "key";
    }
    return true;
  }

  #handleAnswerInput(input: Exclude<KeyInput, { type: "wheel" }>): boolean {
    const { choices, free_text: acceptsText } = this.ask;
    if (input.type !== "key") {
      const choiceNumber = /^[1-9]$/.test(input.text) ? Number(input.text) : Infinity;
      // With free text, a digit starts the text ("1. first") and selects no choice.
      this.#choiceIndex = !acceptsText && choiceNumber <= choices.length ? choiceNumber - 1 : -1;
      if (acceptsText) this.#editor.insert(input.text);
      else return this.#choiceIndex !== -1;
    } else if (input.name === "up")
      this.#choiceIndex = this.#choiceIndex <= 0 ? choices.length - 1 : this.#choiceIndex - 1;
    else if (input.name === "down")
      this.#choiceIndex = choices.length === 0 ? -1 : (this.#choiceIndex + 1) % choices.length;
    else if (input.name === "backspace") this.#editor.backspace();
    else if (input.name === "enter" && !this.isAnswerSent) {
      const choice = choices[this.#choiceIndex];
      if (choice) this.#send({ choice: choice.id });
      else if (acceptsText && this.#editor.text.trim() !== "") this.#send({ text: this.#editor.text });
    }
    return true;
  }

  #send(reply: Reply): void {
    this.isAnswerSent = true;
    this.#options.answer(reply);
  }

  #describeKeys(pendingAskCount: number): string {
    const { choices, free_text: acceptsText } = this.ask;
    if (this.isAnswerSent) return "sent";
    if (!this.hasKeys) return "Tab to answer";
    if (!this.isReady) return "...";
    return [
      choices.length > 0 ? (acceptsText ? "↑↓ choose" : `↑↓ or 1-${choices.length} choose`) : "",
      acceptsText ? "or type an answer" : "",
      "Enter answers",
      "Tab to the prompt",
      pendingAskCount > 0 ? `${pendingAskCount} more` : "",
    ]
      .filter((part) => part !== "")
      .join(", ");
  }

  /** Renders the choices and the typed text. Choices are wrapped if they fit, otherwise truncated to one row each. */
  #renderAnswers(columns: number, maxRows: number): Line[] {
    const { choices, free_text: acceptsText } = this.ask;
    const textRows = acceptsText
      ? wrap(
          [span(this.#editor.text === "" ? "…" : escapeInvisible(this.#editor.text).replaceAll("\n", " ⏎ "))],
          columns,
          [span(" > ", "accent")],
          [span("   ")],
        ).slice(-Math.max(1, maxRows - 1))
      : [];
    const choiceRows = choices.map(({ label }, i): Line[] => {
      const sign = span(i === this.#choiceIndex ? " ❯ " : "   ", "accent");
      return wrap(
        [span(`${i + 1} ${escapeLine(label)}`, i === this.#choiceIndex ? "selected" : "plain")],
        columns,
        [sign],
        [span("   ")],
      );
    });
    const limit = Math.max(1, maxRows - textRows.length);
    if (choiceRows.flat().length <= limit) return [...choiceRows.flat(), ...textRows];
    const topIndex = Math.max(0, Math.min(this.#choiceIndex, choiceRows.length - 1) - limit + 1);
    const rows = choiceRows.slice(topIndex, topIndex + limit).map((rows, i): Line => {
      const [firstRow = []] = rows;
      const isTruncated = rows.length > 1;
      const hidesChoices = i === Math.min(limit, choiceRows.length) - 1 && topIndex + limit < choiceRows.length;
      return [
        ...firstRow,
        span(isTruncated ? "…" : "", "dim"),
        span(hidesChoices ? ` ↓ ${choiceRows.length - topIndex - limit}` : "", "warn"),
      ];
    });
    return [...rows, ...textRows];
  }

  /** Renders the question, its reason, and its effect: the diff, or the arguments of the call if there is no diff. */
  #renderContent(columns: number): Line[] {
    if (this.#cachedContent?.columns === columns) return this.#cachedContent.rows;
    const { diff, input, kind, title, reason } = this.ask;
    const innerColumns = Math.max(1, columns - 3);
    const indent = (row: Line): Line => [span("   "), ...row];
    const rows: Line[] = wrap(
      [span(kind === "permission" ? "Allow? " : "", "warn"), span(escapeLine(title), "bold")],
      columns,
      [span(" ? ", "warn")],
      [span("   ")],
    );
    if (reason !== "") for (const row of wrap([span(escapeLine(reason), "dim")], innerColumns)) rows.push(indent(row));
    for (const fileDiff of diff)
      for (const row of renderDiff(fileDiff, innerColumns, MAX_DIFF_ROWS)) rows.push(indent(row));
    if (diff.length === 0 && kind !== "question")
      for (const [name, value] of typeof input === "object" && input !== null
        ? Object.entries(input)
        : [["input", input] as const]) {
        const lines = escapeInvisible(typeof value === "string" ? value : String(JSON.stringify(value))).split("\n");
        for (const [i, line] of lines.entries())
          for (const row of wrap([span(i === 0 ? `${escapeLine(name)}: ` : "  ", "dim"), span(line)], innerColumns))
            rows.push(indent(row));
      }
    this.#cachedContent = { columns, rows };
    return rows;
  }
}
