import type { Readable, Writable } from "node:stream";
import type { Agent, Logger } from "gantry";
import { ListeningBase, type Listening, type Transport } from "gantry/plugin";
import {
  ACP_DEFAULTS,
  AcpServer,
  type AcpConnection,
  type AcpOptions,
  type OutgoingMessage,
  type Sink,
} from "../acp-shared/index.js";
import { createLineTooLongResponse, notUtf8 } from "./errors.js";
import { LineSplitter, type InputLine } from "./lines.js";
import { outputTo, takeStdout, type Output } from "./stdout.js";

/** Streams to use instead of the process's own. */
export interface StdioStreams {
  input: Readable;
  output: Writable;
}

/** Time for requests to finish after the end of the input, in ms; then they are cancelled. */
const FINISH_MS = 4_200;
/** Maximum unwritten output in characters; beyond it the input is paused. */
const MAX_PENDING_CHARACTERS = 8 * 1024 * 1024;

/** The Agent Client Protocol over standard input and output, one JSON message per line. */
export class AcpStdioTransport implements Transport {
  readonly name = "acp-stdio";
  readonly #options: AcpOptions;
  readonly #logger: Logger;
  readonly #streams: StdioStreams | undefined;

  /** `streams`: used instead of the process's own. */
  constructor(options: Partial<AcpOptions>, logger: Logger, streams?: StdioStreams) {
    this.#options = { ...ACP_DEFAULTS, ...options };
    this.#logger = logger;
    this.#streams = streams;
  }

  start(agent: Agent): Promise<Listening> {
    const { input, output } = this.#streams
      ? { input: this.#streams.input, output: outputTo(this.#streams.output) }
      : { input: process.stdin, output: takeStdout() };
    return Promise.resolve(
      new StdioConnection(new AcpServer(agent, this.#options, this.#logger), input, output, this.#options),
    );
  }
}

/** The connection to the only client. */
class StdioConnection extends ListeningBase implements Sink {
  readonly address = "stdio";
  readonly #server: AcpServer;
  readonly #connection: AcpConnection;
  readonly #input: Readable;
  readonly #output: Output;
  readonly #frameBytes: number;
  readonly #lines: LineSplitter;
  #drain: Promise<void> | undefined;
  #pendingCharacters = 0;
  #isDisconnected = false;

  constructor(server: AcpServer, input: Readable, output: Output, options: AcpOptions) {
    super();
    this.#server = server;
    this.#input = input;
    this.#output = output;
    this.#frameBytes = options.frameBytes;
    this.#lines = new LineSplitter(options.frameBytes);
    this.#connection = server.connect(this);
    output.onGone(() => this.#disconnect());
    input.on("data", this.#onData);
    input.on("end", this.#onEnd);
    input.on("error", this.#onEnd);
    input.on("close", this.#onEnd);
  }

  send(message: OutgoingMessage): void {
    if (this.#isDisconnected) return;
    const text = `${JSON.stringify(message)}\n`;
    this.#pendingCharacters += text.length;
    const canTakeMore = this.#output.write(text, () => this.#written(text.length));
    if (!canTakeMore) this.#drain ??= this.#output.drained().then(() => (this.#drain = undefined));
    if (this.#pendingCharacters > MAX_PENDING_CHARACTERS) this.#input.pause();
  }

  get isReachable(): boolean {
    return !this.#isDisconnected;
  }

  ready(): Promise<void> | undefined {
    return this.#drain;
  }

  reader(): undefined {
    return undefined;
  }

  #written(length: number): void {
    this.#pendingCharacters -= length;
    if (this.#pendingCharacters <= MAX_PENDING_CHARACTERS / 2 && !this.stopping) this.#input.resume();
  }

  readonly #onData = (chunk: Buffer | string): void => {
    for (const line of this.#lines.push(typeof chunk === "string" ? Buffer.from(chunk) : chunk)) this.#take(line);
  };

  readonly #onEnd = (): void => {
    for (const line of this.#lines.end()) this.#take(line);
    if (this.stopping) return;
    // The timer of `AbortSignal.timeout` is unreferenced: the process could end before the answers are written.
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), FINISH_MS);
    void this.stop(late.signal).finally(() => clearTimeout(timer));
  };

  #take(line: InputLine): void {
    if ("text" in line) this.#connection.receive(line.text);
    else this.send(line.fault === "too_long" ? createLineTooLongResponse(this.#frameBytes) : notUtf8());
  }

  /** Handles the loss of the reader: nothing can be answered. */
  #disconnect(): void {
    this.#isDisconnected = true;
    this.#server.disconnect(this.#connection);
    void this.stop(AbortSignal.abort());
  }

  protected async end(): Promise<void> {
    await this.#server.drain(this.shutdown);
    this.#input.off("data", this.#onData).off("end", this.#onEnd).off("error", this.#onEnd).off("close", this.#onEnd);
    this.#input.on("error", () => undefined);
    this.#input.pause();
    // Standard input would keep the process alive if the other side stays open; streams of an embedder are left open.
    if (this.#input === process.stdin) this.#input.destroy();
    if (!this.#isDisconnected) await this.#flushed();
    this.#isDisconnected = true;
    await this.#server.close();
    this.#output.release();
  }

  /** Resolves when all answers are written, or after a timeout. */
  async #flushed(): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    await Promise.race([
      new Promise<void>((resolve) => this.#output.write("", () => resolve())),
      new Promise<void>((resolve) => (timer = setTimeout(resolve, 500))),
    ]);
    clearTimeout(timer);
  }
}
