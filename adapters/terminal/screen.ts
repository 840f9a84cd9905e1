/**
 * Sequences that set up the cursor, screen, paste and wheel modes, and restore them. Line wrapping is off: a row that
 * the terminal measures wider than this program ends at the edge.
 */
const BEGIN = "\u001b[?1049h\u001b[?7l\u001b[2J\u001b[H\u001b[?2004h\u001b[?1000h\u001b[?1006h";
const END = "\u001b[?1006l\u001b[?1000l\u001b[?2004l\u001b[?2026l\u001b[?7h\u001b[0m\u001b[?1049l\u001b[?25h";

/** Time after which a suspend that had no effect is undone, in ms. */
const SUSPEND_TIMEOUT_MS = 200;

/** Takes over the terminal, and restores it on request or when the process ends for any reason. */
export class Screen {
  readonly #input: NodeJS.ReadStream;
  readonly #output: NodeJS.WriteStream;
  #taken = false;
  #wheel = true;
  /** Whether the shell has the terminal. */
  #isAway = false;
  readonly #restore = () => this.release();
  readonly #onContinue = () => this.#resume();
  /** Called when the whole screen must be redrawn. */
  onRedraw: () => void = () => undefined;

  constructor(input: NodeJS.ReadStream, output: NodeJS.WriteStream) {
    this.#input = input;
    this.#output = output;
  }

  take(): void {
    this.#taken = true;
    // Also covers an exit call and an uncaught exception.
    process.on("exit", this.#restore);
    process.on("SIGCONT", this.#onContinue);
    this.#output.write(BEGIN);
    this.#input.setRawMode(true);
    this.#input.setEncoding("utf8");
    this.#input.resume();
  }

  release(): void {
    if (!this.#taken) return;
    this.#taken = false;
    process.off("exit", this.#restore);
    process.off("SIGCONT", this.#onContinue);
    try {
      this.#input.setRawMode(false);
    } catch {
      // The terminal no longer exists.
    }
    this.#output.write(END);
    this.#input.pause();
  }

  /** Whether the program receives the wheel. If false, the mouse selects text as usual. */
  set wheel(on: boolean) {
    this.#wheel = on;
    if (this.#taken) this.#output.write(on ? "\u001b[?1000h\u001b[?1006h" : "\u001b[?1006l\u001b[?1000l");
  }

  get wheel(): boolean {
    return this.#wheel;
  }

  clear(): void {
    this.#output.write("\u001b[2J\u001b[H");
  }

  /** Returns the terminal to the shell until it continues this process. */
  suspend(): void {
    if (process.platform === "win32" || !this.#taken) return;
    this.#isAway = true;
    this.#input.setRawMode(false);
    this.#output.write(END);
    // Stops the whole process group, as Ctrl+Z of the terminal does, so that a waiting parent stops too.
    process.kill(0, "SIGTSTP");
    // Without job control nothing was stopped: restore the screen.
    setTimeout(() => this.#isAway && this.#resume(), SUSPEND_TIMEOUT_MS);
  }

  #resume(): void {
    this.#isAway = false;
    this.#output.write(BEGIN);
    if (!this.#wheel) this.wheel = false;
    this.#input.setRawMode(true);
    this.onRedraw();
  }
}
