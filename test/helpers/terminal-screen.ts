import { EventEmitter, once } from "node:events";
import { PassThrough, Writable } from "node:stream";
import { stripVTControlCharacters } from "node:util";
import { openTerminal, type TerminalOptions } from "../../adapters/terminal/terminal.js";
import type { Hooks } from "./temp-dir.js";

const LOCATION = "the folder";

/** A screen that parses the output of the painter, which is complete rows at absolute positions. */
class TestScreen extends Writable {
  readonly lines: string[];
  /** The lines with their escape sequences. */
  readonly styledLines: string[];
  /** The rows that each write has painted. The first row is 0. */
  readonly paintedRows: number[][] = [];
  readonly #changes = new EventEmitter();

  constructor(
    readonly columns: number,
    readonly rows: number,
  ) {
    super();
    this.lines = Array.from({ length: rows }, () => "");
    this.styledLines = [...this.lines];
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    // eslint-disable-next-line no-control-regex -- the sequence before each row
    const [, ...parts] = String(chunk).split(/\u001b\[(\d+);1H\u001b\[0m\u001b\[K/);
    const rows: number[] = [];
    for (let index = 0; index < parts.length; index += 2) {
      const row = Number(parts[index]) - 1;
      rows.push(row);
      this.styledLines[row] = parts[index + 1] ?? "";
      this.lines[row] = stripVTControlCharacters(parts[index + 1] ?? "").trimEnd();
    }
    this.paintedRows.push(rows);
    this.#changes.emit("change");
    done();
  }

  get text(): string {
    return this.lines.join("\n");
  }

  /** Resolves when the text on the screen matches. */
  async waitFor(pattern: RegExp): Promise<void> {
    await this.waitUntil(() => pattern.test(this.text));
  }

  /** Resolves when the condition is true after a change of the screen. */
  async waitUntil(condition: () => boolean): Promise<void> {
    while (!condition()) await once(this.#changes, "change");
  }
}

/** Starts a terminal whose server starts when the test calls `serve`. */
export function startTerminal(
  hooks: Hooks,
  url: string,
  newSessionOptions: TerminalOptions["newSessionOptions"] = {},
  hasColours = true,
  [columns, rows]: readonly [columns: number, rows: number] = [60, 12],
) {
  const input = Object.assign(new PassThrough(), { setRawMode: () => input });
  const screen = new TestScreen(columns, rows);
  const exitController = new AbortController();
  let serve: () => void = () => undefined;
  const serverStart = new Promise<void>((resolve) => (serve = resolve));
  const terminalEnd = openTerminal({
    input: input as unknown as NodeJS.ReadStream,
    output: screen as unknown as NodeJS.WriteStream,
    serve: () => serverStart.then(() => ({ url, headers: {} })),
    newSessionOptions,
    location: LOCATION,
    hasColours,
    signal: exitController.signal,
  });
  hooks.after(async () => {
    exitController.abort();
    await terminalEnd.catch(() => undefined);
  });
  return { screen, type: (text: string) => input.write(text), serve: () => serve() };
}
