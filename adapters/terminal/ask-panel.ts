import type { Ask } from "gantry/client";
import { diffRows } from "./diff-rows.js";
import { clean, cleanLine } from "./text.js";
import { span, wrap, type Line } from "./spans.js";
import type { Input } from "./keys.js";

const DIFF_ROWS = 2_000;

/**
 * A question of a run. Nothing is chosen when it appears: whoever types while it comes must not answer it by that.
 */
export class AskPanel {
  readonly ask: Ask;
  readonly #answer: (reply: { choice: string } | { text: string }) => void;
  #at = -1;
  #text = "";
  #top = 0;
  /** Whether the keys are for it, not for the prompt. */
  hasKeys: boolean;
  isSent = false;

  constructor(ask: Ask, hasKeys: boolean, answer: (reply: { choice: string } | { text: string }) => void) {
    this.ask = ask;
    this.hasKeys = hasKeys;
    this.#answer = answer;
  }

  rows(columns: number, rows: number, others: number): Line[] {
    const { ask } = this;
    const head: Line[] = wrap(
      [span(ask.kind === "permission" ? "May it? " : "", "warn"), span(cleanLine(ask.title), "bold")],
      columns,
      [span(" ? ", "warn")],
      [span("   ")],
    );
    if (ask.reason !== "") head.push(...wrap([span(cleanLine(ask.reason), "dim")], columns, [span("   ")]));
    const body = this.#body(columns);
    const foot: Line[] = ask.choices.map(({ label }, i): Line => {
      const text = `${i + 1} ${cleanLine(label)}`;
      return [span(i === this.#at ? " ❯ " : "   ", "accent"), span(text, i === this.#at ? "selected" : "plain")];
    });
    if (ask.free_text)
      foot.push(
        ...wrap([span(this.#text === "" ? "…" : clean(this.#text))], columns, [span(" > ", "accent")], [span("   ")]),
      );
    const seen = Math.max(1, rows - head.length - foot.length - 1);
    this.#top = Math.max(0, Math.min(this.#top, body.length - seen));
    const shown = body.slice(this.#top, this.#top + seen);
    const keys = !this.hasKeys
      ? "Tab to answer"
      : [
          ask.choices.length > 0 ? (ask.free_text ? "↑↓ choose" : `↑↓ or 1-${ask.choices.length} choose`) : "",
          ask.free_text ? "or type an answer" : "",
          "Enter answers",
          "Tab to the prompt",
          body.length > shown.length ? `PgUp PgDn ${this.#top + shown.length}/${body.length}` : "",
          others > 0 ? `${others} more` : "",
        ]
          .filter((part) => part !== "")
          .join(", ");
    return [...head, ...shown, ...foot, ...wrap([span(this.isSent ? "sent" : keys, "dim")], columns, [span("   ")])];
  }

  press(input: Input): void {
    const { ask } = this;
    const { choices, free_text: mayType } = ask;
    if (input.type === "wheel") this.#top -= input.rows;
    else if (input.type !== "key") {
      const number = Number(input.text);
      if (mayType) this.#text += input.text;
      else if (Number.isInteger(number) && number >= 1 && number <= choices.length) this.#at = number - 1;
      if (mayType) this.#at = -1;
    } else if (input.name === "up") this.#at = this.#at <= 0 ? choices.length - 1 : this.#at - 1;
    else if (input.name === "down") this.#at = choices.length === 0 ? -1 : (this.#at + 1) % choices.length;
    else if (input.name === "pageup") this.#top -= 5;
    else if (input.name === "pagedown") this.#top += 5;
    else if (input.name === "backspace") this.#text = this.#text.slice(0, -1);
    else if (input.name === "enter" && !this.isSent) {
      const choice = choices[this.#at];
      if (choice) this.#send({ choice: choice.id });
      else if (mayType && this.#text.trim() !== "") this.#send({ text: this.#text });
    }
  }

  #send(reply: { choice: string } | { text: string }): void {
    this.isSent = true;
    this.#answer(reply);
  }

  /** What it would do: the diff, else the arguments of the call. */
  #body(columns: number): Line[] {
    const { diff, input, kind } = this.ask;
    const inner = Math.max(1, columns - 3);
    const indent = (row: Line): Line => [span("   "), ...row];
    if (diff.length > 0) return diff.flatMap((one) => diffRows(one, inner, DIFF_ROWS).map(indent));
    if (kind === "question" || typeof input !== "object" || input === null) return [];
    return Object.entries(input).flatMap(([name, value]) => {
      const text = typeof value === "string" ? value : JSON.stringify(value);
      return clean(text)
        .split("\n")
        .flatMap((line, i) =>
          wrap([span(i === 0 ? `${cleanLine(name)}: ` : "  ", "dim"), span(line)], inner).map(indent),
        );
    });
  }
}
