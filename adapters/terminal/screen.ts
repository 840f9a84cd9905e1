/**
 * Escape sequences that set and reset the modes of cursor, screen, paste and wheel. Line wrapping is off: if the
 * terminal measures a row wider than this program does, the row ends at the edge.
 */
const ENTER_SEQUENCE = "\u001b[?1049h\u001b[?7l\u001b[2J\u001b[H\u001b[?2004h\u001b[?1000h\u001b[?1006h";
const EXIT_SEQUENCE = "\u001b[?1006l\u001b[?1000l\u001b[?2004l\u001b[?2026l\u001b[?7h\u001b[0m\u001b[?1049l\u001b[?25h";

/** Time after which the screen is restored if the process was not suspended, in ms. */
const SUSPEND_TIMEOUT_MS = 200;

/** Takes over the terminal, and restores it on `release` or when the process exits. */
export class Screen {
  readonly #input: NodeJS.ReadStream;
  readonly #output: NodeJS.WriteStream;
  #isActive = false;
  #hasWheel = true;
  /** Whether the shell has the terminal, after Ctrl+Z. */
  #isSuspended = false;
  readonly #onExit = () => this.release();
  readonly #onContinue = () => this.#resume();
  /** Called when the whole screen must be redrawn. */
  onRedraw: () => void = () => undefined;

  /** Called when another program gets the terminal, and when it returns. */
  onLent: (isLent: boolean) => void = () => undefined;

  constructor(input: NodeJS.ReadStream, output: NodeJS.WriteStream) {
    this.#input = input;
    this.#output = output;
  }

  /** Enters the alternate screen and raw input mode. */
  takeOver(): void {
    this.#isActive = true;
    // Covers `process.exit` and uncaught exceptions too.
    process.on("exit", this.#onExit);
    process.on("SIGCONT", this.#onContinue);
    this.#output.write(ENTER_SEQUENCE);
    this.#input.setRawMode(true);
    this.#input.setEncoding("utf8");
    this.#input.resume();
  }

  /** Restores the terminal. Does nothing if the terminal is not taken over. */
  release(): void {
    if (!this.#isActive) return;
    this.#isActive = false;
    process.off("exit", this.#onExit);
    process.off("SIGCONT", this.#onContinue);
    try {
      this.#input.setRawMode(false);
    } catch {
      // The terminal no longer exists.
    }
    this.#output.write(EXIT_SEQUENCE);
    this.#input.pause();
  }

  /** Whether the program receives the wheel. If false, the mouse selects text as usual. */
  set hasWheel(isEnabled: boolean) {
    this.#hasWheel = isEnabled;
    if (this.#isActive) this.#output.write(isEnabled ? "\u001b[?1000h\u001b[?1006h" : "\u001b[?1006l\u001b[?1000l");
  }

  get hasWheel(): boolean {
    return this.#hasWheel;
  }

  clear(): void {
    this.#output.write("\u001b[2J\u001b[H");
  }

  /** Returns the terminal to the shell until the shell continues this process. */
  suspend(): void {
    if (process.platform === "win32" || !this.#isActive) return;
    this.#isSuspended = true;
    this.#input.setRawMode(false);
    this.#output.write(EXIT_SEQUENCE);
    // Stops the whole process group, as Ctrl+Z of the terminal does, so that a waiting parent stops too.
    process.kill(0, "SIGTSTP");
    // Without job control nothing was stopped: restore the screen.
    setTimeout(() => this.#isSuspended && this.#resume(), SUSPEND_TIMEOUT_MS);
  }

  /** Gives the terminal to another program until `work` settles. Rejects like `work`. */
  async lend<T>(work: () => Promise<T>): Promise<T> {
    this.onLent(true);
    this.#input.setRawMode(false);
    this.#input.pause();
    this.#output.write(EXIT_SEQUENCE);
    try {
      return await work();
    } finally {
      this.onLent(false);
      if (this.#isActive) {
        this.#input.resume();
        this.#resume();
      }
    }
  }

  #resume(): void {
    this.#isSuspended = false;
    this.#output.write(ENTER_SEQUENCE);
    if (!this.#hasWheel) this.hasWheel = false;
    this.#input.setRawMode(true);
    this.onRedraw();
  }
}
