import { escapeInvisible, escapeLine, truncate } from "./text.js";
import { span, wrap, type Line } from "./spans.js";
import type { KeyInput } from "./keys.js";

/** Maximum visible rows of a list. */
const MAX_LIST_ROWS = 10;

export interface ListEntry {
  readonly id: string;
  readonly label: string;
  readonly description: string;
}

/** A panel above the prompt. The panel receives all keys until it closes. */
export interface Overlay {
  renderRows(columns: number, rows: number): Line[];
  /** Handles an input. Returns whether the overlay closes. */
  press(input: KeyInput): boolean;
}

/** A text in two columns. Any key except the arrow keys closes the overlay. */
export class TextOverlay implements Overlay {
  readonly #title: string;
  readonly #lines: readonly (readonly [left: string, right: string])[];
  #topRow = 0;

  constructor(title: string, text: readonly (readonly [left: string, right: string])[]) {
    this.#title = title;
    this.#lines = text;
  }

  renderRows(columns: number, rows: number): Line[] {
    const nameColumns = Math.min(Math.floor(columns / 2), Math.max(0, ...this.#lines.map(([name]) => name.length)) + 2);
    const allRows = this.#lines.flatMap(([name, description]) =>
      wrap(
        [span(escapeLine(description))],
        columns,
        [span(`  ${truncate(escapeLine(name), nameColumns).padEnd(nameColumns)}`, "bold")],
        [span(" ".repeat(nameColumns + 2))],
      ),
    );
    this.#topRow = Math.max(0, Math.min(this.#topRow, allRows.length - (rows - 2)));
    const visibleRows = allRows.slice(this.#topRow, this.#topRow + Math.max(1, rows - 2));
    const scrollHint = visibleRows.length < allRows.length ? "↑↓ scroll, " : "";
    return [[span(` ${this.#title}`, "heading")], ...visibleRows, [span(`  ${scrollHint}Esc closes`, "dim")]];
  }

  press(input: KeyInput): boolean {
    if (input.type === "wheel") this.#topRow -= input.rows;
    else if (input.type === "key" && input.name === "up") this.#topRow -= 1;
    else if (input.type === "key" && input.name === "down") this.#topRow += 1;
    else return true;
    return false;
  }
}

/** A confirmation of an action that cannot be undone. Only `y` confirms. */
export class Confirmation implements Overlay {
  readonly #question: string;
  readonly #onConfirm: () => void;
  readonly #details: readonly string[];

  /** `details`: lines below the question. Default: none. */
  constructor(question: string, onConfirm: () => void, details: readonly string[] = []) {
    this.#question = question;
    this.#onConfirm = onConfirm;
    this.#details = details;
  }

  renderRows(columns: number, rows: number): Line[] {
    const details = this.#details.map((line): Line => [span(truncate(`  ${escapeLine(line)}`, columns), "dim")]);
    return [
      ...wrap([span(escapeLine(this.#question), "warn")], columns, [span("  ")]),
      ...details.slice(0, Math.max(0, rows - 2)),
      [span("  y", "bold"), span(" yes   "), span("any other key", "bold"), span(" no")],
    ];
  }

  press(input: KeyInput): boolean {
    if (input.type === "wheel") return false;
    if (input.type === "text" && input.text === "y") this.#onConfirm();
    return true;
  }
}

/** Contents and actions of a list. */
export interface PickerOptions {
  title: string;
  entries: readonly ListEntry[];
  /** Id of the entry that the session uses now; undefined if there is none. */
  currentId?: string | undefined;
  pick(entry: ListEntry): void;
  /** Called on Ctrl+D. If absent, entries cannot be removed. */
  remove?: (entry: ListEntry) => void;
  /** Called when the selection reaches the end of the list. */
  loadMore?: () => void;
  /** Called when the search text changes. If absent, the list filters its own entries. */
  search?: (text: string) => void;
}

/** A list from which the user chooses an entry. Typing filters the list. */
export class Picker implements Overlay {
  readonly #options: PickerOptions;
  #entries: readonly ListEntry[];
  #selectedIndex = 0;
  #searchText = "";
  /** Shown instead of an empty list. Default: `nothing found`. */
  emptyText = "";

  constructor(options: PickerOptions) {
    this.#options = options;
    this.#entries = options.entries;
    this.#selectedIndex = Math.max(
      0,
      options.entries.findIndex(({ id }) => id === options.currentId),
    );
  }

  /** Replaces the entries. The selected entry stays selected if it still exists. */
  set entries(entries: readonly ListEntry[]) {
    const selectedId = this.#matches[this.#selectedIndex]?.id;
    this.#entries = entries;
    const matches = this.#matches;
    const newIndex = matches.findIndex(({ id }) => id === selectedId);
    this.#selectedIndex = newIndex === -1 ? Math.max(0, Math.min(this.#selectedIndex, matches.length - 1)) : newIndex;
  }

  get #matches(): readonly ListEntry[] {
    const searchText = this.#searchText.toLowerCase();
    if (this.#options.search || searchText === "") return this.#entries;
    return this.#entries.filter(({ label, description }) =>
      `${label} ${description}`.toLowerCase().includes(searchText),
    );
  }

  renderRows(columns: number, rows: number): Line[] {
    const matches = this.#matches;
    const visibleCount = Math.max(1, Math.min(MAX_LIST_ROWS, rows - 2));
    const topIndex = Math.max(
      0,
      Math.min(this.#selectedIndex - Math.floor(visibleCount / 2), matches.length - visibleCount),
    );
    const listRows = matches.slice(topIndex, topIndex + visibleCount).map(({ id, label, description }, i): Line => {
      const isSelected = topIndex + i === this.#selectedIndex;
      const mark = `${isSelected ? "❯" : " "} ${id === this.#options.currentId ? "• " : "  "}`;
      const detail = truncate(escapeLine(description), Math.max(0, Math.floor(columns / 2) - 2));
      const text = truncate(escapeLine(label), Math.max(1, columns - 6 - detail.length));
      return [
        span(mark, "accent"),
        span(text, isSelected ? "selected" : "plain"),
        span(detail === "" ? "" : `  ${detail}`, "dim"),
      ];
    });
    const emptyRow: Line = [span(this.emptyText === "" ? "  nothing found" : `  ${this.emptyText}`, "dim")];
    const positionText = matches.length > visibleCount ? ` ${this.#selectedIndex + 1}/${matches.length}` : "";
    const keyHelp = `  ↑↓ Enter chooses${this.#options.remove ? ", Ctrl+D deletes" : ""}, type to search, Esc closes${positionText}`;
    return [
      [
        span(` ${this.#options.title} `, "heading"),
        span(this.#searchText === "" ? "" : escapeInvisible(this.#searchText), "bold"),
      ],
      ...(listRows.length > 0 ? listRows : [emptyRow]),
      [span(truncate(keyHelp, columns), "dim")],
    ];
  }

  press(input: KeyInput): boolean {
    const matches = this.#matches;
    if (input.type === "wheel") this.#move(-Math.sign(input.rows));
    else if (input.type !== "key") this.#search(this.#searchText + input.text.replaceAll("\n", " "));
    else if (input.name === "up" || (input.ctrl && input.name === "p")) this.#move(-1);
    else if (input.name === "down" || (input.ctrl && input.name === "n")) this.#move(1);
    else if (input.name === "pageup") this.#move(-MAX_LIST_ROWS);
    else if (input.name === "pagedown") this.#move(MAX_LIST_ROWS);
    else if (input.name === "backspace") this.#search(this.#searchText.slice(0, -1));
    else if (input.name === "enter") {
      const entry = matches[this.#selectedIndex];
      if (entry) this.#options.pick(entry);
      return entry !== undefined;
    } else if (input.ctrl && input.name === "d") {
      const entry = matches[this.#selectedIndex];
      if (entry) this.#options.remove?.(entry);
    } else return input.name === "escape" || (input.ctrl && input.name === "c");
    return false;
  }

  #move(offset: number): void {
    const lastIndex = this.#matches.length - 1;
    this.#selectedIndex = Math.max(0, Math.min(lastIndex, this.#selectedIndex + offset));
    if (this.#selectedIndex >= lastIndex) this.#options.loadMore?.();
  }

  #search(searchText: string): void {
    this.#searchText = searchText;
    this.#selectedIndex = 0;
    this.#options.search?.(searchText);
  }
}
