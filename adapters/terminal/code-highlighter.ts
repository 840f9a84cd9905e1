import type { HighlightCode } from "./highlight.js";
import type { Line } from "./spans.js";

/** Maximum characters of a code block that is coloured. */
const MAX_CODE_CHARACTERS = 20_000;
/** Names of languages without colours, which need no highlighter. */
const PLAIN_LANGUAGES: ReadonlySet<string> = new Set(["", "text", "txt", "plain", "plaintext", "output", "log"]);

/** Colours code blocks. The first block starts to load the highlighter. */
export class CodeHighlighter {
  readonly #onLoaded: () => void;
  #highlightCode: HighlightCode | undefined;
  #loading: Promise<void> | undefined;

  /** `onLoaded`: called when blocks that were shown before can be coloured. */
  constructor(onLoaded: () => void) {
    this.#onLoaded = onLoaded;
  }

  /**
   * Returns the coloured lines; undefined if the language is unknown, if the code is too long, and until the
   * highlighter is loaded.
   */
  highlight(lines: readonly string[], language: string): readonly Line[] | undefined {
    if (PLAIN_LANGUAGES.has(language)) return undefined;
    const code = lines.join("\n");
    if (code.length > MAX_CODE_CHARACTERS) return undefined;
    this.#load();
    return this.#highlightCode?.(code, language);
  }

  #load(): void {
    this.#loading ??= this.#loadOnce().catch(() => undefined);
  }

  async #loadOnce(): Promise<void> {
    const { loadHighlighter } = await import("./highlight.js");
    this.#highlightCode = await loadHighlighter();
    this.#onLoaded();
  }
}
