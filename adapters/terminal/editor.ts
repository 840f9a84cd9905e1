import { graphemes } from "./text.js";

// eslint-disable-next-line no-control-regex -- what is no text is not taken
const NO_TEXT = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

/** A multi-line text input with history. */
export class Editor {
  text = "";
  /** Cursor position: an index into the text, between two graphemes. */
  at = 0;
  #history: string[] = [];
  /** Position in the history, counted from its end; 0 is the current text. */
  #back = 0;
  #draft = "";
  #killed = "";

  insert(text: string): void {
    const cleanText = text.replace(NO_TEXT, "");
    this.text = this.text.slice(0, this.at) + cleanText + this.text.slice(this.at);
    this.at += cleanText.length;
  }

  /** Replaces the text and puts the cursor at its end. */
  set(text: string): void {
    this.text = text;
    this.at = text.length;
  }

  /** Replaces the text between `from` and the cursor. */
  replace(from: number, text: string): void {
    this.text = this.text.slice(0, from) + text + this.text.slice(this.at);
    this.at = from + text.length;
  }

  /** Returns the text, adds it to the history and clears the input. */
  take(): string {
    const text = this.text;
    this.remember(text);
    this.set("");
    return text;
  }

  remember(text: string): void {
    if (text.trim() !== "" && this.#history.at(-1) !== text) this.#history.push(text);
    this.#back = 0;
  }

  /** Sets the history to earlier prompts of the session, oldest first. */
  seed(prompts: readonly string[]): void {
    this.#history = prompts.filter((text) => text.trim() !== "");
    this.#back = 0;
  }

  moveLeft(): void {
    this.at -= this.#before().length;
  }

  moveRight(): void {
    this.at += graphemes(this.text.slice(this.at))[0]?.length ?? 0;
  }

  wordLeft(): void {
    this.at = this.#wordStart();
  }

  wordRight(): void {
    this.at += /^\s*\S*/.exec(this.text.slice(this.at))?.[0].length ?? 0;
  }

  lineStart(): void {
    this.at = this.text.lastIndexOf("\n", this.at - 1) + 1;
    if (this.at < 0) this.at = 0;
  }

  lineEnd(): void {
    const end = this.text.indexOf("\n", this.at);
    this.at = end === -1 ? this.text.length : end;
  }

  backspace(): void {
    this.#cut(this.at - this.#before().length, this.at);
  }

  delete(): void {
    this.#cut(this.at, this.at + (graphemes(this.text.slice(this.at))[0]?.length ?? 0));
  }

  killWord(): void {
    this.#kill(this.#wordStart(), this.at);
  }

  killToStart(): void {
    const end = this.at;
    this.lineStart();
    this.#kill(this.at, end);
  }

  killToEnd(): void {
    const start = this.at;
    this.lineEnd();
    this.#kill(start, this.at === start ? start + 1 : this.at);
  }

  yank(): void {
    this.insert(this.#killed);
  }

  /** Moves a line up; from the first line, to the previous history entry. */
  up(): void {
    if (!this.text.slice(0, this.at).includes("\n")) return this.older();
    const column = this.#column();
    this.lineStart();
    this.at -= 1;
    this.lineStart();
    this.#toColumn(column);
  }

  /** Moves a line down; from the last line, to the next history entry. */
  down(): void {
    if (!this.text.slice(this.at).includes("\n")) return this.newer();
    const column = this.#column();
    this.lineEnd();
    this.at += 1;
    this.#toColumn(column);
  }

  older(): void {
    if (this.#back >= this.#history.length) return;
    if (this.#back === 0) this.#draft = this.text;
    this.#back += 1;
    this.set(this.#history.at(-this.#back) ?? "");
  }

  newer(): void {
    if (this.#back === 0) return;
    this.#back -= 1;
    this.set(this.#back === 0 ? this.#draft : (this.#history.at(-this.#back) ?? ""));
  }

  #before(): string {
    return graphemes(this.text.slice(0, this.at)).at(-1) ?? "";
  }

  #wordStart(): number {
    return this.at - (/\S*\s*$/.exec(this.text.slice(Math.max(0, this.at - 1000), this.at))?.[0].length ?? 0);
  }

  #column(): number {
    return graphemes(this.text.slice(this.text.lastIndexOf("\n", this.at - 1) + 1, this.at)).length;
  }

  #toColumn(column: number): void {
    const end = this.text.indexOf("\n", this.at);
    const line = this.text.slice(this.at, end === -1 ? undefined : end);
    this.at += graphemes(line).slice(0, column).join("").length;
  }

  #kill(from: number, to: number): void {
    this.#killed = this.text.slice(from, to);
    this.#cut(from, to);
  }

  #cut(from: number, to: number): void {
    this.text = this.text.slice(0, Math.max(0, from)) + this.text.slice(to);
    this.at = Math.max(0, from);
  }
}
