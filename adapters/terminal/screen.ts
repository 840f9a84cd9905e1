/**
 * Cursor, screen, paste and wheel as this program has them, and as it found them. A row that a terminal takes for wider
 * than we do ends at its edge: it does not go on in the next one.
 */
const BEGIN = "\u001b[?1049h\u001b[?7l\u001b[2J\u001b[H\u001b[?2004h\u001b[?1000h\u001b[?1006h";
const END = "\u001b[?1006l\u001b[?1000l\u001b[?2004l\u001b[?2026l\u001b[?7h\u001b[0m\u001b[?1049l\u001b[?25h";

/** Behind a stop that did not come, in ms. */
const AWAY_MS = 200;

/** A terminal that is taken, and given back as it was: when it is asked for, and whatever ends the process. */
export class Screen {
  readonly #input: NodeJS.ReadStream;
  readonly #output: NodeJS.WriteStream;
  #taken = false;
  #wheel = true;
  /** The shell has the terminal. */
  #isAway = false;
  readonly #restore = () => this.giveBack();
  readonly #suspended = () => this.#resume();
  /** Told when all of it is to be drawn anew. */
  onLost: () => void = () => undefined;

  constructor(input: NodeJS.ReadStream, output: NodeJS.WriteStream) {
    this.#input = input;
    this.#output = output;
  }

  take(): void {
    this.#taken = true;
    // Of whatever the process ends: an exit, an error that nobody caught.
    process.on("exit", this.#restore);
    process.on("SIGCONT", this.#suspended);
    this.#output.write(BEGIN);
    this.#input.setRawMode(true);
    this.#input.setEncoding("utf8");
    this.#input.resume();
  }

  giveBack(): void {
    if (!this.#taken) return;
    this.#taken = false;
    process.off("exit", this.#restore);
    process.off("SIGCONT", this.#suspended);
    try {
      this.#input.setRawMode(false);
    } catch {
      // The terminal is gone.
    }
    this.#output.write(END);
    this.#input.pause();
  }

  /** Whether the wheel is ours; else text is marked with the mouse as ever. */
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

  /** Give the shell the terminal until it brings this process back. */
  suspend(): void {
    if (process.platform === "win32" || !this.#taken) return;
    this.#isAway = true;
    this.#input.setRawMode(false);
    this.#output.write(END);
    // All that the shell started with us, as the terminal itself does it: what waits for us is stopped too.
    process.kill(0, "SIGTSTP");
    // Where no shell could bring it back, nothing was stopped.
    setTimeout(() => this.#isAway && this.#resume(), AWAY_MS);
  }

  #resume(): void {
    this.#isAway = false;
    this.#output.write(BEGIN);
    if (!this.#wheel) this.wheel = false;
    this.#input.setRawMode(true);
    this.onLost();
  }
}
