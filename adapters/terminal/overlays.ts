import { escapeInvisible, escapeLine, truncate } from "./text.js";
import { span, wrap, type Line } from "./spans.js";
import type { KeyInput } from "./keys.js";

/** Maximum visible rows of a list. */
const MAX_LIST_ROWS = 10;

export interface ListEntry {
  readonly id: string;
  readonly label: string;
  readonly about: string;
}

/** A panel over the prompt that receives all keys until it closes. */
export interface Overlay {
  rows(columns: number, rows: number): Line[];
  /** Handles an input. Returns whether the overlay closes. */
  press(input: KeyInput): boolean;
}

/** A text to read. Any key except the arrow keys closes it. */
export class TextOverlay implements Overlay {
  readonly #title: string;
  readonly #text: readonly (readonly [left: string, right: string])[];
  #top = 0;

  constructor(title: string, text: readonly (readonly [left: string, right: string])[]) {
    this.#title = title;
    this.#text = text;
  }

  rows(columns: number, rows: number): Line[] {
    const nameColumns = Math.min(Math.floor(columns / 2), Math.max(0, ...this.#text.map(([name]) => name.length)) + 2);
    const all = this.#text.flatMap(([name, about]) =>
      wrap(
        [span(escapeLine(about))],
        columns,
        [span(`  ${truncate(escapeLine(name), nameColumns).padEnd(nameColumns)}`, "bold")],
        [span(" ".repeat(nameColumns + 2))],
      ),
    );
    this.#top = Math.max(0, Math.min(this.#top, all.length - (rows - 2)));
    const shown = all.slice(this.#top, this.#top + Math.max(1, rows - 2));
    const scrollHint = shown.length < all.length ? "↑↓ scroll, " : "";
    return [[span(` ${this.#title}`, "heading")], ...shown, [span(`  ${scrollHint}Esc closes`, "dim")]];
  }

  press(input: KeyInput): boolean {
    if (input.type === "wheel") this.#top -= input.rows;
    else if (input.type === "key" && input.name === "up") this.#top -= 1;
    else if (input.type === "key" && input.name === "down") this.#top += 1;
    else return true;
    return false;
  }
}

/** A confirmation of an action that cannot be undone. Only `y` confirms. */
export class Confirm implements Overlay {
  readonly #question: string;
  readonly #yes: () => void;

  constructor(question: string, yes: () => void) {
    this.#question = question;
    this.#yes = yes;
  }

  rows(columns: number): Line[] {
    return [
      ...wrap([span(escapeLine(this.#question), "warn")], columns, [span("  ")]),
      [span("  y", "bold"), span(" yes   "), span("any other key", "bold"), span(" no")],
    ];
  }

  press(input: KeyInput): boolean {
    if (input.type === "wheel") return false;
    if (input.type === "text" && input.text === "y") this.#yes();
    return true;
  }
}

/** Contents and actions of a list. */
export interface PickerOptions {
  title: string;
  entries: readonly ListEntry[];
  /** Id of the entry that is currently selected in the session. */
  current?: string | undefined;
  pick(entry: ListEntry): void;
  remove?: (entry: ListEntry) => void;
  /** Called when the selection reaches the end of the list. */
  loadMore?: () => void;
  /** Called when the search text changes. If absent, the list filters its own entries. */
  search?: (text: string) => void;
}

/** A list to choose from. Typing filters it. */
export class Picker implements Overlay {
  readonly #options: PickerOptions;
  #entries: readonly ListEntry[];
  #at = 0;
  #typed = "";
  note = "";

  constructor(options: PickerOptions) {
    this.#options = options;
    this.#entries = options.entries;
    this.#at = Math.max(
      0,
      options.entries.findIndex(({ id }) => id === options.current),
    );
  }

  /** Replaces the entries. Keeps the selected entry selected if it still exists. */
  set entries(entries: readonly ListEntry[]) {
    const before = this.#matches[this.#at]?.id;
    this.#entries = entries;
    const matches = this.#matches;
    const same = matches.findIndex(({ id }) => id === before);
    this.#at = same === -1 ? Math.max(0, Math.min(this.#at, matches.length - 1)) : same;
  }

  get #matches(): readonly ListEntry[] {
    const searchText = this.#typed.toLowerCase();
    if (this.#options.search || searchText === "") return this.#entries;
    return this.#entries.filter(({ label, about }) => `${label} ${about}`.toLowerCase().includes(searchText));
  }

  rows(columns: number, rows: number): Line[] {
    const matches = this.#matches;
    const seen = Math.max(1, Math.min(MAX_LIST_ROWS, rows - 2));
    const top = Math.max(0, Math.min(this.#at - Math.floor(seen / 2), matches.length - seen));
    const list = matches.slice(top, top + seen).map(({ id, label, about }, i): Line => {
      const isAt = top + i === this.#at;
      const mark = `${isAt ? "❯" : " "} ${id === this.#options.current ? "• " : "  "}`;
      const right = truncate(escapeLine(about), Math.max(0, Math.floor(columns / 2) - 2));
      const text = truncate(escapeLine(label), Math.max(1, columns - 6 - right.length));
      return [
        span(mark, "accent"),
        span(text, isAt ? "selected" : "plain"),
        span(right === "" ? "" : `  ${right}`, "dim"),
      ];
    });
    const none: Line = [span(this.note === "" ? "  nothing found" : `  ${this.note}`, "dim")];
    const place = matches.length > seen ? ` ${this.#at + 1}/${matches.length}` : "";
    const keys = `  ↑↓ Enter chooses${this.#options.remove ? ", Ctrl+D deletes" : ""}, type to search, Esc closes${place}`;
    return [
      [
        span(` ${this.#options.title} `, "heading"),
        span(this.#typed === "" ? "" : escapeInvisible(this.#typed), "bold"),
      ],
      ...(list.length > 0 ? list : [none]),
      [span(truncate(keys, columns), "dim")],
    ];
  }

  press(input: KeyInput): boolean {
    const matches = this.#matches;
    if (input.type === "wheel") this.#move(-Math.sign(input.rows));
    else if (input.type !== "key") this.#search(this.#typed + input.text.replaceAll("\n", " "));
    else if (input.name === "up" || (input.ctrl && input.name === "p")) this.#move(-1);
    else if (input.name === "down" || (input.ctrl && input.name === "n")) this.#move(1);
    else if (input.name === "pageup") this.#move(-MAX_LIST_ROWS);
    else if (input.name === "pagedown") this.#move(MAX_LIST_ROWS);
    else if (input.name === "backspace") this.#search(this.#typed.slice(0, -1));
    else if (input.name === "enter") {
      const entry = matches[this.#at];
      if (entry) this.#options.pick(entry);
      return entry !== undefined;
    } else if (input.ctrl && input.name === "d") {
      const entry = matches[this.#at];
      if (entry) this.#options.remove?.(entry);
    } else return input.name === "escape" || (input.ctrl && input.name === "c");
    return false;
  }

  #move(by: number): void {
    const last = this.#matches.length - 1;
    this.#at = Math.max(0, Math.min(last, this.#at + by));
    if (this.#at >= last) this.#options.loadMore?.();
  }

  #search(typed: string): void {
    this.#typed = typed;
    this.#at = 0;
    this.#options.search?.(typed);
  }
}
