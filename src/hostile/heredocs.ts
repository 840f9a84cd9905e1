import { NotUnderstood, type Word } from "./command.js";

/** Texts that stand in the lines below a command, `<<END`: read when its line ends. */
export class Heredocs {
  #open: { end: string; quoted: boolean; tabs: boolean }[] = [];

  get waiting(): boolean {
    return this.#open.length > 0;
  }

  /** `tabs`: those at the beginning of a line count for nothing. */
  add({ text, known, quoted }: Word, tabs: boolean): void {
    if (!known || text === "" || text.includes("\n")) throw new NotUnderstood("a here-document");
    this.#open.push({ end: text, quoted, tabs });
  }

  /** Where the text goes on behind them; `at` is the begin of a line. */
  read(text: string, at: number): number {
    let begin = at;
    for (const { end, quoted, tabs } of this.#open.splice(0)) {
      for (;;) {
        if (begin >= text.length) throw new NotUnderstood("a here-document without its end");
        const newline = text.indexOf("\n", begin);
        const stop = newline < 0 ? text.length : newline;
        const line = text.slice(begin, stop);
        begin = stop + 1;
        if ((tabs ? line.replace(/^\t+/, "") : line) === end) break;
        // What a shell would put in place of these may be what a command prints.
        if (!quoted && /[`\\]|\$[({[]/.test(line)) throw new NotUnderstood("a substitution in a here-document");
      }
    }
    return Math.min(begin, text.length);
  }
}
