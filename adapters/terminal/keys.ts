/** A keyboard or mouse wheel input. */
export type KeyInput =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "paste"; readonly text: string }
  /** `rows`: positive for scrolling up. */
  | { readonly type: "wheel"; readonly rows: number }
  | {
      readonly type: "key";
      readonly name: string;
      readonly ctrl: boolean;
      readonly alt: boolean;
      readonly shift: boolean;
    };

/** Time after which an escape character without a successor counts as the Escape key, in ms. */
const ESCAPE_DELAY_MS = 40;
/** Rows to scroll for each step of the wheel. */
const WHEEL_ROWS = 3;
/** Maximum characters of an incomplete escape sequence. A longer input is no sequence. */
const MAX_SEQUENCE_CHARACTERS = 32;
const PASTE_MARKERS = { begin: "\u001b[200~", end: "\u001b[201~" };

const KEYS_BY_FINAL_BYTE: Readonly<Record<string, string>> = {
  A: "up",
  B: "down",
  C: "right",
  D: "left",
  H: "home",
  F: "end",
  Z: "backtab",
};
const KEYS_BY_NUMBER: Readonly<Record<string, string>> = {
  1: "home",
  3: "delete",
  4: "end",
  5: "pageup",
  6: "pagedown",
  7: "home",
  8: "end",
};
/** Keys that extended keyboard protocols report by character code. */
const KEYS_BY_CODE: Readonly<Record<string, string>> = { 9: "tab", 13: "enter", 27: "escape", 127: "backspace" };

// eslint-disable-next-line no-control-regex -- matches terminal input
const CSI_PATTERN = /^\u001b\[([<=>?]?)([\d;:]*)([ -/]*)([@-~])/;
// eslint-disable-next-line no-control-regex -- as above
const TEXT_PATTERN = /^[^\u0000-\u001f\u007f]+/;

/** Parses terminal input: typed text, keys, the wheel, and a paste as one input. */
export class Keyboard {
  readonly #onInput: (input: KeyInput) => void;
  #buffer = "";
  /** Parts of the current paste. Undefined outside a paste. */
  #pasteParts: string[] | undefined;
  #escapeTimer: NodeJS.Timeout | undefined;

  constructor(onInput: (input: KeyInput) => void) {
    this.#onInput = onInput;
  }

  /** Parses a piece of input and reports the complete inputs. Keeps an incomplete rest for the next call. */
  feed(text: string): void {
    clearTimeout(this.#escapeTimer);
    this.#buffer += text;
    while (this.#buffer !== "") {
      const length = this.#pasteParts ? this.#readPaste(this.#pasteParts, this.#buffer) : this.#readInput(this.#buffer);
      if (length === 0) break;
      this.#buffer = this.#buffer.slice(length);
    }
    // An incomplete sequence becomes the Escape key after a delay. A paste has no time limit.
    if (this.#buffer !== "" && !this.#pasteParts)
      this.#escapeTimer = setTimeout(() => this.#reportEscape(), ESCAPE_DELAY_MS);
  }

  close(): void {
    clearTimeout(this.#escapeTimer);
  }

  /** Reports the Escape key, then the characters after it as separate inputs. */
  #reportEscape(): void {
    const pendingText = this.#buffer;
    this.#buffer = "";
    this.#reportKey("escape");
    if (pendingText.length > 1) this.feed(pendingText.slice(1));
  }

  /** Consumes text of the paste, except characters that may start the end marker. Returns the consumed length. */
  #readPaste(parts: string[], text: string): number {
    const end = text.indexOf(PASTE_MARKERS.end);
    if (end === -1) {
      const length = Math.max(0, text.length - PASTE_MARKERS.end.length + 1);
      parts.push(text.slice(0, length));
      return length;
    }
    parts.push(text.slice(0, end));
    this.#pasteParts = undefined;
    this.#onInput({ type: "paste", text: parts.join("").replace(/\r\n?/g, "\n") });
    return end + PASTE_MARKERS.end.length;
  }

  /** Consumes one input from the start. Returns its length, or 0 if it is incomplete. */
  #readInput(text: string): number {
    if (text.startsWith(PASTE_MARKERS.begin)) {
      this.#pasteParts = [];
      return PASTE_MARKERS.begin.length;
    }
    // Ignore the mouse report of terminals without the SGR protocol: three characters for button, column and row.
    if (text.startsWith("\u001b[M")) return text.length < 6 ? 0 : 6;
    const printableText = TEXT_PATTERN.exec(text)?.[0];
    if (printableText !== undefined) {
      this.#onInput({ type: "text", text: printableText });
      return printableText.length;
    }
    if (text[0] !== "\u001b") return this.#readControl(text.charCodeAt(0));
    const csi = CSI_PATTERN.exec(text);
    if (csi) {
      this.#reportSequence(csi[1] ?? "", csi[2] ?? "", csi[4] ?? "");
      return csi[0].length;
    }
    const nextCharacter = text[1];
    if (nextCharacter === undefined || (nextCharacter === "[" && text.length < MAX_SEQUENCE_CHARACTERS)) return 0;
    if (nextCharacter === "O") {
      const finalByte = text[2];
      if (finalByte === undefined) return 0;
      const name = KEYS_BY_FINAL_BYTE[finalByte];
      if (name !== undefined) this.#reportKey(name);
      return 3;
    }
    if (nextCharacter === "\u001b") {
      this.#reportKey("escape");
      return 1;
    }
    const name = { "\r": "enter", "\n": "enter", "\u007f": "backspace" }[nextCharacter] ?? nextCharacter;
    this.#reportKey(name, { alt: true });
    return 2;
  }

  /** Reports the key of a control character. Codes 1 to 26 are Ctrl with a letter. */
  #readControl(code: number): number {
    if (code === 13) this.#reportKey("enter");
    else if (code === 9) this.#reportKey("tab");
    else if (code === 127 || code === 8) this.#reportKey("backspace");
    else if (code === 0) this.#reportKey("space", { ctrl: true });
    else if (code <= 26) this.#reportKey(String.fromCharCode(code + 96), { ctrl: true });
    return 1;
  }

  #reportSequence(privateMarker: string, numbers: string, finalByte: string): void {
    const [first = "", second = "", third = ""] = numbers.split(";");
    if (privateMarker === "<") {
      // The wheel; the terminal handles all other buttons.
      if (first === "64" || first === "65")
        this.#onInput({ type: "wheel", rows: first === "64" ? WHEEL_ROWS : -WHEEL_ROWS });
      return;
    }
    const finalKey = KEYS_BY_FINAL_BYTE[finalByte];
    const isModifiedKey = finalByte === "~" && first === "27";
    const code = finalByte === "u" ? first.split(":")[0] : isModifiedKey ? third : undefined;
    const name =
      finalKey ?? (code !== undefined ? this.#getKeyName(code) : finalByte === "~" ? KEYS_BY_NUMBER[first] : undefined);
    if (name === undefined || privateMarker !== "") return;
    // The protocol sends the modifier bits plus 1.
    const modifiers = Math.max(0, Number((second.split(":")[0] ?? "") || 1) - 1);
    this.#reportKey(name, {
      shift: (modifiers & 1) !== 0 || name === "backtab",
      alt: (modifiers & 2) !== 0,
      ctrl: (modifiers & 4) !== 0,
    });
  }

  #getKeyName(code: string): string | undefined {
    const number = Number(code);
    return KEYS_BY_CODE[code] ?? (number > 32 && number < 127 ? String.fromCharCode(number) : undefined);
  }

  #reportKey(name: string, { ctrl = false, alt = false, shift = false } = {}): void {
    this.#onInput({ type: "key", name, ctrl, alt, shift });
  }
}
