/** A keyboard or mouse wheel input. */
export type KeyInput =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "paste"; readonly text: string }
  | { readonly type: "wheel"; readonly rows: number }
  | {
      readonly type: "key";
      readonly name: string;
      readonly ctrl: boolean;
      readonly alt: boolean;
      readonly shift: boolean;
    };

/** An escape character without a successor within this time is the Escape key, in ms. */
const ESCAPE_DELAY_MS = 40;
const WHEEL_ROWS = 3;
const PASTE = { begin: "\u001b[200~", end: "\u001b[201~" };

const FINALS: Readonly<Record<string, string>> = {
  A: "up",
  B: "down",
  C: "right",
  D: "left",
  H: "home",
  F: "end",
  Z: "backtab",
};
const NUMBERS: Readonly<Record<string, string>> = {
  1: "home",
  3: "delete",
  4: "end",
  5: "pageup",
  6: "pagedown",
  7: "home",
  8: "end",
};
/** Keys that extended keyboard protocols report by character code. */
const CODES: Readonly<Record<string, string>> = { 9: "tab", 13: "enter", 27: "escape", 127: "backspace" };

// eslint-disable-next-line no-control-regex -- what terminals send
const CSI = /^\u001b\[([<=>?]?)([\d;:]*)([ -/]*)([@-~])/;
// eslint-disable-next-line no-control-regex -- as above
const TEXT = /^[^\u0000-\u001f\u007f]+/;

/** Parses terminal input: characters, keys, pasted text (as one input) and the wheel. */
export class Keyboard {
  readonly #onInput: (input: KeyInput) => void;
  #pending = "";
  /** Parts of the current paste. Undefined outside a paste. */
  #pasted: string[] | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(tell: (input: KeyInput) => void) {
    this.#onInput = tell;
  }

  feed(text: string): void {
    clearTimeout(this.#timer);
    this.#pending += text;
    while (this.#pending !== "") {
      const length = this.#pasted ? this.#paste(this.#pasted, this.#pending) : this.#take(this.#pending);
      if (length === 0) break;
      this.#pending = this.#pending.slice(length);
    }
    // A paste has no time limit.
    if (this.#pending !== "" && !this.#pasted) this.#timer = setTimeout(() => this.#endEscape(), ESCAPE_DELAY_MS);
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #endEscape(): void {
    const pendingText = this.#pending;
    this.#pending = "";
    this.#key("escape");
    if (pendingText.length > 1) this.feed(pendingText.slice(1));
  }

  /** Consumes text of the paste, except characters that may start the end marker. Returns the consumed length. */
  #paste(pasted: string[], text: string): number {
    const end = text.indexOf(PASTE.end);
    if (end === -1) {
      const length = Math.max(0, text.length - PASTE.end.length + 1);
      pasted.push(text.slice(0, length));
      return length;
    }
    pasted.push(text.slice(0, end));
    this.#pasted = undefined;
    this.#onInput({ type: "paste", text: pasted.join("").replace(/\r\n?/g, "\n") });
    return end + PASTE.end.length;
  }

  /** Consumes one input from the start. Returns its length, or 0 if it is incomplete. */
  #take(text: string): number {
    if (text.startsWith(PASTE.begin)) {
      this.#pasted = [];
      return PASTE.begin.length;
    }
    // Mouse report of terminals without the SGR protocol: button, column and row as one character each. It is ignored.
    if (text.startsWith("\u001b[M")) return text.length < 6 ? 0 : 6;
    const plain = TEXT.exec(text)?.[0];
    if (plain !== undefined) {
      this.#onInput({ type: "text", text: plain });
      return plain.length;
    }
    if (text[0] !== "\u001b") return this.#control(text.charCodeAt(0));
    const csi = CSI.exec(text);
    if (csi) {
      this.#sequence(csi[1] ?? "", csi[2] ?? "", csi[4] ?? "");
      return csi[0].length;
    }
    const next = text[1];
    if (next === undefined || (next === "[" && text.length < 32)) return 0;
    if (next === "O") {
      const final = text[2];
      if (final === undefined) return 0;
      const name = FINALS[final];
      if (name !== undefined) this.#key(name);
      return 3;
    }
    if (next === "\u001b") {
      this.#key("escape");
      return 1;
    }
    const name = { "\r": "enter", "\n": "enter", "\u007f": "backspace" }[next] ?? next;
    this.#key(name, { alt: true });
    return 2;
  }

  #control(code: number): number {
    if (code === 13) this.#key("enter");
    else if (code === 9) this.#key("tab");
    else if (code === 127 || code === 8) this.#key("backspace");
    else if (code === 0) this.#key("space", { ctrl: true });
    else if (code <= 26) this.#key(String.fromCharCode(code + 96), { ctrl: true });
    return 1;
  }

  #sequence(mark: string, numbers: string, final: string): void {
    const [first = "", second = "", third = ""] = numbers.split(";");
    if (mark === "<") {
      // The wheel; the terminal handles all other buttons.
      if (first === "64" || first === "65")
        this.#onInput({ type: "wheel", rows: first === "64" ? WHEEL_ROWS : -WHEEL_ROWS });
      return;
    }
    const letter = FINALS[final];
    const isModifiedKey = final === "~" && first === "27";
    const code = final === "u" ? first.split(":")[0] : isModifiedKey ? third : undefined;
    const name = letter ?? (code !== undefined ? this.#named(code) : final === "~" ? NUMBERS[first] : undefined);
    if (name === undefined || mark !== "") return;
    const modifiers = Math.max(0, Number((second.split(":")[0] ?? "") || 1) - 1);
    this.#key(name, {
      shift: (modifiers & 1) !== 0 || name === "backtab",
      alt: (modifiers & 2) !== 0,
      ctrl: (modifiers & 4) !== 0,
    });
  }

  #named(code: string): string | undefined {
    const number = Number(code);
    return CODES[code] ?? (number > 32 && number < 127 ? String.fromCharCode(number) : undefined);
  }

  #key(name: string, { ctrl = false, alt = false, shift = false } = {}): void {
    this.#onInput({ type: "key", name, ctrl, alt, shift });
  }
}
