import { toGraphemes } from "./text.js";

// eslint-disable-next-line no-control-regex -- removes control characters
const CONTROL_CHARACTERS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

/** Maximum characters before the cursor that are searched for the start of a word. */
const MAX_WORD_CHARACTERS = 1_000;

/** Removes the characters that a prompt cannot contain. */
export function removeControls(text: string): string {
  return text.replace(CONTROL_CHARACTERS, "");
}

/** A multi-line text input with history. */
export class Editor {
  text = "";
  /** Index into the text, between two graphemes. */
  cursor = 0;
  #history: string[] = [];
  /** Position in the history, counted from the newest entry; 0 is the current text. */
  #historyOffset = 0;
  /** The typed text while the history is shown. */
  #draft = "";
  /** The text that the last kill command removed; `yank` inserts it. */
  #killedText = "";

  insert(text: string): void {
    const cleanText = removeControls(text);
    this.text = this.text.slice(0, this.cursor) + cleanText + this.text.slice(this.cursor);
    this.cursor += cleanText.length;
  }

  /** Earlier prompts, oldest first. */
  get history(): readonly string[] {
    return this.#history;
  }

  /** The typed text, also while an earlier prompt is shown. A changed earlier prompt is part of the text. */
  get draft(): string {
    if (this.#historyOffset === 0) return this.text;
    const isChanged = this.text !== this.#history.at(-this.#historyOffset);
    return [this.#draft, isChanged ? this.text : ""].filter((part) => part !== "").join("\n");
  }

  /** Replaces the text and puts the cursor at its end. */
  setText(text: string): void {
    this.text = text;
    this.cursor = text.length;
  }

  /** Replaces the text and leaves the history. */
  setDraft(text: string): void {
    this.#historyOffset = 0;
    this.setText(text);
  }

  /** Replaces the text between `start` and the cursor. */
  replace(start: number, text: string): void {
    this.text = this.text.slice(0, start) + text + this.text.slice(this.cursor);
    this.cursor = start + text.length;
  }

  /** Returns the text, adds it to the history and clears the input. */
  takeText(): string {
    const text = this.text;
    this.addToHistory(text);
    this.setText("");
    return text;
  }

  addToHistory(text: string): void {
    if (text.trim() !== "" && this.#history.at(-1) !== text) this.#history.push(text);
    this.#historyOffset = 0;
  }

  /** Sets the history to earlier prompts of the session, oldest first. */
  setHistory(prompts: readonly string[]): void {
    this.#history = prompts.filter((text) => text.trim() !== "");
    this.#historyOffset = 0;
  }

  moveLeft(): void {
    this.cursor -= this.#getGraphemeBeforeCursor().length;
  }

  moveRight(): void {
    this.cursor += toGraphemes(this.text.slice(this.cursor))[0]?.length ?? 0;
  }

  moveWordLeft(): void {
    this.cursor = this.#findWordStart();
  }

  moveWordRight(): void {
    this.cursor += /^\s*\S*/.exec(this.text.slice(this.cursor))?.[0].length ?? 0;
  }

  moveToLineStart(): void {
    this.cursor = this.text.lastIndexOf("\n", this.cursor - 1) + 1;
    if (this.cursor < 0) this.cursor = 0;
  }

  moveToLineEnd(): void {
    const end = this.text.indexOf("\n", this.cursor);
    this.cursor = end === -1 ? this.text.length : end;
  }

  backspace(): void {
    this.#deleteRange(this.cursor - this.#getGraphemeBeforeCursor().length, this.cursor);
  }

  delete(): void {
    this.#deleteRange(this.cursor, this.cursor + (toGraphemes(this.text.slice(this.cursor))[0]?.length ?? 0));
  }

  killWord(): void {
    this.#killRange(this.#findWordStart(), this.cursor);
  }

  killToStart(): void {
    const end = this.cursor;
    this.moveToLineStart();
    this.#killRange(this.cursor, end);
  }

  /** Removes the text up to the end of the line. At the end of a line, removes the line break. */
  killToEnd(): void {
    const start = this.cursor;
    this.moveToLineEnd();
    this.#killRange(start, this.cursor === start ? start + 1 : this.cursor);
  }

  yank(): void {
    this.insert(this.#killedText);
  }

  /** Moves the cursor a line up. On the first line, shows the older history entry. */
  moveUp(): void {
    if (!this.text.slice(0, this.cursor).includes("\n")) return this.showOlderEntry();
    const column = this.#getCursorColumn();
    this.moveToLineStart();
    this.cursor -= 1;
    this.moveToLineStart();
    this.#moveToColumn(column);
  }

  /** Moves the cursor a line down. On the last line, shows the newer history entry. */
  moveDown(): void {
    if (!this.text.slice(this.cursor).includes("\n")) return this.showNewerEntry();
    const column = this.#getCursorColumn();
    this.moveToLineEnd();
    this.cursor += 1;
    this.#moveToColumn(column);
  }

  showOlderEntry(): void {
    if (this.#historyOffset >= this.#history.length) return;
    if (this.#historyOffset === 0) this.#draft = this.text;
    this.#historyOffset += 1;
    this.setText(this.#history.at(-this.#historyOffset) ?? "");
  }

  showNewerEntry(): void {
    if (this.#historyOffset === 0) return;
    this.#historyOffset -= 1;
    this.setText(this.#historyOffset === 0 ? this.#draft : (this.#history.at(-this.#historyOffset) ?? ""));
  }

  #getGraphemeBeforeCursor(): string {
    return toGraphemes(this.text.slice(0, this.cursor)).at(-1) ?? "";
  }

  #findWordStart(): number {
    return (
      this.cursor -
      (/\S*\s*$/.exec(this.text.slice(Math.max(0, this.cursor - MAX_WORD_CHARACTERS), this.cursor))?.[0].length ?? 0)
    );
  }

  #getCursorColumn(): number {
    return toGraphemes(this.text.slice(this.text.lastIndexOf("\n", this.cursor - 1) + 1, this.cursor)).length;
  }

  #moveToColumn(column: number): void {
    const end = this.text.indexOf("\n", this.cursor);
    const line = this.text.slice(this.cursor, end === -1 ? undefined : end);
    this.cursor += toGraphemes(line).slice(0, column).join("").length;
  }

  #killRange(start: number, end: number): void {
    this.#killedText = this.text.slice(start, end);
    this.#deleteRange(start, end);
  }

  #deleteRange(from: number, to: number): void {
    this.text = this.text.slice(0, Math.max(0, from)) + this.text.slice(to);
    this.cursor = Math.max(0, from);
  }
}
