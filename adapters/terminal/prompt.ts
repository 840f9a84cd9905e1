import {
  suggestCommands,
  findPaths,
  suggestFiles,
  findWordAt,
  type CommandEntry,
  type Completion,
} from "./completion.js";
import { Editor, removeControls } from "./editor.js";
import { FoldedPastes } from "./folded-pastes.js";
import type { KeyInput } from "./keys.js";

/** Time for which the lists of files (`@`) and commands (`/`) are cached, in ms. */
const SUGGESTION_CACHE_MS = 5_000;

/** Services that a prompt needs from the terminal. */
export interface PromptHost {
  /** Loads the commands of the terminal and of the agent. Calls `onFound` with each longer list. */
  findCommands(onFound: (commands: readonly CommandEntry[]) => void): void;
  /** Loads the files that `@` suggests and passes them to the callback. Undefined: no suggestions. */
  readonly findFiles: ((onFound: (files: readonly string[]) => void) => void) | undefined;
  /** Called on Enter with a text that is not empty. `files`: the existing files that the text names. */
  submit(text: string, files: readonly string[]): void;
}

/** The text input with its suggestions. */
export class Prompt {
  readonly editor = new Editor();
  readonly pastes = new FoldedPastes();
  /** Undefined while there are no suggestions. */
  completion: (Completion & { selectedIndex: number }) | undefined;
  readonly #host: PromptHost;
  #files: readonly string[] = [];
  #filesRequestedAtMs = -Infinity;
  #commands: readonly CommandEntry[] = [];
  #commandsRequestedAtMs = -Infinity;

  constructor(host: PromptHost) {
    this.#host = host;
  }

  /** Inserts typed or pasted characters. A long paste is folded. */
  insert(text: string, isPaste: boolean): void {
    this.editor.insert(isPaste ? this.pastes.fold(removeControls(text)) : text);
    this.#updateCompletion();
  }

  /** Clears the input. The text stays in the history (↑). */
  clear(): void {
    this.editor.addToHistory(this.text);
    this.editor.setText("");
    this.completion = undefined;
  }

  /** The text with its pasted texts. */
  get text(): string {
    return this.pastes.expand(this.editor.text);
  }

  press({ name, ctrl, alt, shift }: Extract<KeyInput, { type: "key" }>): void {
    const { editor } = this;
    if (this.completion && !alt && this.#handleCompletionKey(name, ctrl)) return;
    if (name === "enter" && (alt || shift || ctrl)) editor.insert("\n");
    else if (name === "enter" && editor.text.slice(0, editor.cursor).endsWith("\\")) {
      editor.backspace();
      editor.insert("\n");
    } else if (name === "enter") return this.#submit();
    else if (ctrl) this.#handleControlKey(name);
    else if (alt) this.#handleAltKey(name);
    else this.#handleEditKey(name);
    this.#updateCompletion(["up", "down", "escape"].includes(name));
  }

  #handleControlKey(name: string): void {
    const { editor } = this;
    const actions: Readonly<Record<string, () => void>> = {
      a: () => editor.moveToLineStart(),
      e: () => editor.moveToLineEnd(),
      b: () => editor.moveLeft(),
      f: () => editor.moveRight(),
      p: () => editor.showOlderEntry(),
      n: () => editor.showNewerEntry(),
      k: () => editor.killToEnd(),
      u: () => editor.killToStart(),
      w: () => editor.killWord(),
      y: () => editor.yank(),
      h: () => editor.backspace(),
      j: () => editor.insert("\n"),
      d: () => editor.delete(),
      left: () => editor.moveWordLeft(),
      right: () => editor.moveWordRight(),
    };
    if (Object.hasOwn(actions, name)) actions[name]?.();
  }

  #handleAltKey(name: string): void {
    if (name === "b" || name === "left") this.editor.moveWordLeft();
    else if (name === "f" || name === "right") this.editor.moveWordRight();
    else if (name === "backspace") this.editor.killWord();
  }

  #handleEditKey(name: string): void {
    const { editor } = this;
    const actions: Readonly<Record<string, () => void>> = {
      left: () => editor.moveLeft(),
      right: () => editor.moveRight(),
      up: () => editor.moveUp(),
      down: () => editor.moveDown(),
      home: () => editor.moveToLineStart(),
      end: () => editor.moveToLineEnd(),
      backspace: () => editor.backspace(),
      delete: () => editor.delete(),
    };
    if (Object.hasOwn(actions, name)) actions[name]?.();
  }

  #submit(): void {
    const { editor, text } = this;
    this.completion = undefined;
    if (text.trim() === "") return;
    // A pasted text names no files.
    const paths = findPaths(editor.text, this.#files);
    editor.setText(text);
    editor.takeText();
    this.#host.submit(text.trim(), paths);
  }

  /**
   * Updates the suggestions at the cursor. `hidesSuggestions`: whether the last key moved the cursor or closed the
   * list.
   */
  #updateCompletion(hidesSuggestions = false): void {
    const { editor } = this;
    const wordAtCursor = hidesSuggestions ? undefined : findWordAt(editor.text, editor.cursor);
    this.completion = undefined;
    if (!wordAtCursor) return;
    const { sign, start, word } = wordAtCursor;
    if (sign === "@") this.#loadFiles();
    else this.#loadCommands();
    const suggestions = sign === "/" ? suggestCommands(word, this.#commands) : suggestFiles(word, this.#files);
    if (suggestions.length > 0) this.completion = { start, suggestions, selectedIndex: 0 };
  }

  #loadCommands(): void {
    const nowMs = performance.now();
    if (nowMs - this.#commandsRequestedAtMs < SUGGESTION_CACHE_MS) return;
    this.#commandsRequestedAtMs = nowMs;
    this.#host.findCommands((commands) => {
      this.#commands = commands;
      this.#updateCompletion();
    });
  }

  #loadFiles(): void {
    const nowMs = performance.now();
    if (nowMs - this.#filesRequestedAtMs < SUGGESTION_CACHE_MS) return;
    this.#filesRequestedAtMs = nowMs;
    this.#host.findFiles?.((files) => {
      this.#files = files;
      this.#updateCompletion();
    });
  }

  /** Handles a key of the suggestion list. Returns false for a key that belongs to the prompt. */
  #handleCompletionKey(name: string, ctrl: boolean): boolean {
    const { completion, editor } = this;
    if (!completion || ctrl) return false;
    const { suggestions, start, selectedIndex } = completion;
    if (name === "up" || name === "down")
      completion.selectedIndex = (selectedIndex + (name === "up" ? suggestions.length - 1 : 1)) % suggestions.length;
    else if (name === "escape") this.completion = undefined;
    else if (name === "tab" || name === "enter") {
      const { text = "", takesArgument = false } = suggestions[selectedIndex] ?? {};
      // Enter submits a completely typed command or file name.
      if (name === "enter" && `${editor.text.slice(start, editor.cursor)} ` === text) return false;
      editor.replace(start, text);
      this.completion = undefined;
      if (name === "enter" && text.startsWith("/") && !takesArgument) this.#submit();
    } else return false;
    return true;
  }
}
