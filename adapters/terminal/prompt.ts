import { commandsLike, filesIn, filesLike, wordAt, type CommandEntry, type Completion } from "./completion.js";
import { Editor } from "./editor.js";
import type { KeyInput } from "./keys.js";

/** Time for which the lists of files (`@`) and commands (`/`) are cached, in ms. */
const SUGGESTION_CACHE_MS = 5_000;

/** Services that a prompt needs from the terminal. */
export interface PromptHost {
  /** The terminal's own commands. */
  readonly commands: readonly CommandEntry[];
  /** Loads the agent's commands and passes them to the callback. */
  findCommands(onFound: (commands: readonly CommandEntry[]) => void): void;
  /** Loads the files that `@` suggests and passes them to the callback. Undefined: no files are available. */
  readonly findFiles: ((onFound: (files: readonly string[]) => void) => void) | undefined;
  /** Called on Enter with a non-empty text. `files` are the existing files that it names. */
  submit(text: string, files: readonly string[]): void;
}

/** The text input with its suggestions. */
export class Prompt {
  readonly editor = new Editor();
  completion: (Completion & { at: number }) | undefined;
  readonly #host: PromptHost;
  #files: readonly string[] = [];
  #filesAsked = -Infinity;
  #commands: readonly CommandEntry[] = [];
  #commandsAsked = -Infinity;

  constructor(host: PromptHost) {
    this.#host = host;
  }

  /** Inserts typed or pasted characters. */
  insert(text: string): void {
    this.editor.insert(text);
    this.#complete();
  }

  /** Clears the input. The text stays in the history (↑). */
  putAside(): void {
    this.editor.remember(this.editor.text);
    this.editor.set("");
    this.completion = undefined;
  }

  /** Handles a key. */
  press({ name, ctrl, alt, shift }: Extract<KeyInput, { type: "key" }>): void {
    const { editor } = this;
    if (this.completion && !alt && this.#inCompletion(name, ctrl)) return;
    if (name === "enter" && (alt || shift || ctrl)) editor.insert("\n");
    else if (name === "enter" && editor.text.slice(0, editor.at).endsWith("\\")) {
      editor.backspace();
      editor.insert("\n");
    } else if (name === "enter") return this.#submit();
    else if (ctrl) this.#control(name);
    else if (alt) this.#alternate(name);
    else this.#edit(name);
    this.#complete(["up", "down", "escape"].includes(name));
  }

  #control(name: string): void {
    const { editor } = this;
    const does: Readonly<Record<string, () => void>> = {
      a: () => editor.lineStart(),
      e: () => editor.lineEnd(),
      b: () => editor.moveLeft(),
      f: () => editor.moveRight(),
      p: () => editor.older(),
      n: () => editor.newer(),
      k: () => editor.killToEnd(),
      u: () => editor.killToStart(),
      w: () => editor.killWord(),
      y: () => editor.yank(),
      h: () => editor.backspace(),
      j: () => editor.insert("\n"),
      d: () => editor.delete(),
      left: () => editor.wordLeft(),
      right: () => editor.wordRight(),
    };
    if (Object.hasOwn(does, name)) does[name]?.();
  }

  #alternate(name: string): void {
    if (name === "b" || name === "left") this.editor.wordLeft();
    else if (name === "f" || name === "right") this.editor.wordRight();
    else if (name === "backspace") this.editor.killWord();
  }

  #edit(name: string): void {
    const { editor } = this;
    const does: Readonly<Record<string, () => void>> = {
      left: () => editor.moveLeft(),
      right: () => editor.moveRight(),
      up: () => editor.up(),
      down: () => editor.down(),
      home: () => editor.lineStart(),
      end: () => editor.lineEnd(),
      backspace: () => editor.backspace(),
      delete: () => editor.delete(),
    };
    if (Object.hasOwn(does, name)) does[name]?.();
  }

  #submit(): void {
    const text = this.editor.text.trim();
    this.completion = undefined;
    if (text === "") return;
    this.editor.take();
    this.#host.submit(text, filesIn(text, this.#files));
  }

  /** Updates the suggestions at the cursor. `not`: the key only moved or closed them, so none are shown. */
  #complete(not = false): void {
    const { editor } = this;
    const wordAtCursor = not ? undefined : wordAt(editor.text, editor.at);
    this.completion = undefined;
    if (!wordAtCursor) return;
    const { sign, from, word } = wordAtCursor;
    if (sign === "@") this.#listFiles();
    else this.#listCommands();
    const commands = [...this.#host.commands, ...this.#commands];
    const suggestions = sign === "/" ? commandsLike(word, commands) : filesLike(word, this.#files);
    if (suggestions.length > 0) this.completion = { from, suggestions, at: 0 };
  }

  #listCommands(): void {
    const now = performance.now();
    if (now - this.#commandsAsked < SUGGESTION_CACHE_MS) return;
    this.#commandsAsked = now;
    this.#host.findCommands((commands) => {
      this.#commands = commands;
      this.#complete();
    });
  }

  #listFiles(): void {
    const now = performance.now();
    // Newer files are found after the cache time.
    if (now - this.#filesAsked < SUGGESTION_CACHE_MS) return;
    this.#filesAsked = now;
    this.#host.findFiles?.((files) => {
      this.#files = files;
      this.#complete();
    });
  }

  /** Handles a key for the suggestion list. Returns false if it belongs to the prompt. */
  #inCompletion(name: string, ctrl: boolean): boolean {
    const { completion, editor } = this;
    if (!completion || ctrl) return false;
    const { suggestions, from, at } = completion;
    if (name === "up" || name === "down")
      completion.at = (at + (name === "up" ? suggestions.length - 1 : 1)) % suggestions.length;
    else if (name === "escape") this.completion = undefined;
    else if (name === "tab" || name === "enter") {
      const { text = "", takesArgument = false } = suggestions[at] ?? {};
      // Enter runs a completely typed command at once.
      if (name === "enter" && `${editor.text.slice(from, editor.at)} ` === text) return false;
      editor.replace(from, text);
      this.completion = undefined;
      if (name === "enter" && text.startsWith("/") && !takesArgument) this.#submit();
    } else return false;
    return true;
  }
}
