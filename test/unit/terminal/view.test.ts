import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { PassThrough, Writable } from "node:stream";
import { stripVTControlCharacters } from "node:util";
import { describe, it } from "node:test";
import { openTerminal, type TerminalOptions } from "../../../adapters/terminal/terminal.js";
import { startApi } from "../../helpers/http-api.js";
import type { Hooks } from "../../helpers/temp-dir.js";

const ROWS = 12;
const LOCATION = "the folder";

/** A screen that parses the output of the painter, which is complete rows at absolute positions. */
class TestScreen extends Writable {
  readonly columns = 60;
  readonly rows = ROWS;
  readonly lines: string[] = Array.from({ length: ROWS }, () => "");
  /** The rows that each write has painted. The first row is 0. */
  readonly paintedRows: number[][] = [];
  readonly #changes = new EventEmitter();

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    // eslint-disable-next-line no-control-regex -- the sequence before each row
    const [, ...parts] = String(chunk).split(/\u001b\[(\d+);1H\u001b\[0m\u001b\[K/);
    const rows: number[] = [];
    for (let index = 0; index < parts.length; index += 2) {
      const row = Number(parts[index]) - 1;
      rows.push(row);
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
    while (!pattern.test(this.text)) await once(this.#changes, "change");
  }
}

/** Starts a terminal whose server starts when the test calls `serve`. */
function startTerminal(hooks: Hooks, url: string, newSessionOptions: TerminalOptions["newSessionOptions"] = {}) {
  const input = Object.assign(new PassThrough(), { setRawMode: () => input });
  const screen = new TestScreen();
  const exitController = new AbortController();
  let serve: () => void = () => undefined;
  const serverStart = new Promise<void>((resolve) => (serve = resolve));
  const terminalEnd = openTerminal({
    input: input as unknown as NodeJS.ReadStream,
    output: screen as unknown as NodeJS.WriteStream,
    serve: () => serverStart.then(() => ({ url, headers: {} })),
    newSessionOptions,
    location: LOCATION,
    hasColours: true,
    signal: exitController.signal,
  });
  hooks.after(async () => {
    exitController.abort();
    await terminalEnd.catch(() => undefined);
  });
  return { screen, type: (text: string) => input.write(text), serve: () => serve() };
}

describe("the terminal view", () => {
  it("shows a sent prompt while the server is still starting, and only once after the answer", async (t) => {
    const api = await startApi(t, { steps: ["The answer."] });
    const { screen, type, serve } = startTerminal(t, api.url);
    await screen.waitFor(/gantry the folder[^]*Type a prompt/);
    type("first words");
    await screen.waitFor(/❯ first words/);
    type("\r");
    await screen.waitFor(/gantry the folder\n\n❯ first words\n[^]*\n❯$/m);
    assert.equal(api.provider.requests.length, 0);
    serve();
    await screen.waitFor(/❯ first words\n\n {2}The answer\./);
    assert.equal(screen.text.match(/first words/g)?.length, 1);
  });

  it("puts a rejected prompt back into the editor", async (t) => {
    const api = await startApi(t);
    const { screen, type, serve } = startTerminal(t, api.url, { provider: "none", model: "none" });
    await screen.waitFor(/Type a prompt/);
    type("try it\r");
    await screen.waitFor(/\n\n❯ try it\n[^]*\n❯$/m);
    serve();
    await screen.waitFor(/none[^]*\n❯ try it$/m);
    assert.equal(screen.text.match(/try it/g)?.length, 1);
  });

  it("repaints only the changed row, in one write", async (t) => {
    const api = await startApi(t);
    const { screen, type } = startTerminal(t, api.url);
    await screen.waitFor(/Type a prompt/);
    type("a");
    await screen.waitFor(/❯ a/);
    const row = screen.lines.indexOf("❯ a");
    const paintCount = screen.paintedRows.length;
    type("b漢");
    await screen.waitFor(/❯ ab漢/);
    assert.deepEqual(screen.paintedRows.slice(paintCount), [[row]]);
    assert.equal(screen.lines[row], "❯ ab漢");
  });
});
