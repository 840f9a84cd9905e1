import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { PassThrough, Writable } from "node:stream";
import { stripVTControlCharacters } from "node:util";
import { describe, it } from "node:test";
import { openTerminal, type TerminalOptions } from "../../../adapters/terminal/terminal.js";
import { startApi } from "../../helpers/http-api.js";
import type { Hooks } from "../../helpers/temp.js";

const ROWS = 12;
const HOME = "the folder";

/** A terminal that understands the output of the painter: whole rows at absolute positions. */
class TestScreen extends Writable {
  readonly columns = 60;
  readonly rows = ROWS;
  readonly lines: string[] = Array.from({ length: ROWS }, () => "");
  /** The rows that each write has painted, from 0. */
  readonly painted: number[][] = [];
  readonly #changes = new EventEmitter();

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    // eslint-disable-next-line no-control-regex -- the sequence before each row
    const [, ...parts] = String(chunk).split(/\u001b\[(\d+);1H\u001b\[0m\u001b\[K/);
    const rows: number[] = [];
    for (let at = 0; at < parts.length; at += 2) {
      const row = Number(parts[at]) - 1;
      rows.push(row);
      this.lines[row] = stripVTControlCharacters(parts[at + 1] ?? "").trimEnd();
    }
    this.painted.push(rows);
    this.#changes.emit("change");
    done();
  }

  get text(): string {
    return this.lines.join("\n");
  }

  /** Resolves when the text on the screen matches. */
  async until(pattern: RegExp): Promise<void> {
    while (!pattern.test(this.text)) await once(this.#changes, "change");
  }
}

/** A terminal whose server starts when the test calls `serve`. */
function startTerminal(hooks: Hooks, url: string, wishes: TerminalOptions["newSessionOptions"] = {}) {
  const input = Object.assign(new PassThrough(), { setRawMode: () => input });
  const screen = new TestScreen();
  const leaving = new AbortController();
  let serve: () => void = () => undefined;
  const isServed = new Promise<void>((resolve) => (serve = resolve));
  const ended = openTerminal({
    input: input as unknown as NodeJS.ReadStream,
    output: screen as unknown as NodeJS.WriteStream,
    serve: () => isServed.then(() => ({ url, headers: {} })),
    newSessionOptions: wishes,
    location: HOME,
    hasColours: true,
    signal: leaving.signal,
  });
  hooks.after(async () => {
    leaving.abort();
    await ended.catch(() => undefined);
  });
  return { screen, type: (text: string) => input.write(text), serve: () => serve() };
}

describe("the terminal view", () => {
  it("shows a sent prompt while the server is still starting, and only once after the answer", async (t) => {
    const api = await startApi(t, { steps: ["The answer."] });
    const { screen, type, serve } = startTerminal(t, api.url);
    await screen.until(/gantry the folder[^]*Type a prompt/);
    type("first words");
    await screen.until(/❯ first words/);
    type("\r");
    await screen.until(/gantry the folder\n\n❯ first words\n[^]*\n❯$/m);
    assert.equal(api.provider.requests.length, 0);
    serve();
    await screen.until(/❯ first words\n\n {2}The answer\./);
    assert.equal(screen.text.match(/first words/g)?.length, 1);
  });

  it("puts a rejected prompt back into the editor", async (t) => {
    const api = await startApi(t);
    const { screen, type, serve } = startTerminal(t, api.url, { provider: "none", model: "none" });
    await screen.until(/Type a prompt/);
    type("try it\r");
    await screen.until(/\n\n❯ try it\n[^]*\n❯$/m);
    serve();
    await screen.until(/none[^]*\n❯ try it$/m);
    assert.equal(screen.text.match(/try it/g)?.length, 1);
  });

  it("repaints only the changed row, in one write", async (t) => {
    const api = await startApi(t);
    const { screen, type } = startTerminal(t, api.url);
    await screen.until(/Type a prompt/);
    type("a");
    await screen.until(/❯ a/);
    const row = screen.lines.indexOf("❯ a");
    const before = screen.painted.length;
    type("b漢");
    await screen.until(/❯ ab漢/);
    assert.deepEqual(screen.painted.slice(before), [[row]]);
    assert.equal(screen.lines[row], "❯ ab漢");
  });
});
