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
import { createLineTooLongResponse, createNotUtf8Response } from "./errors.js";
import { LineSplitter, type InputLine } from "./lines.js";
import { createOutput, reserveStdout, type Output } from "./stdout.js";

/** Streams to use instead of standard input and output. */
export interface StdioStreams {
  input: Readable;
  output: Writable;
}

/** Time for requests to finish after the end of the input, in ms. Remaining requests are then cancelled. */
const FINISH_TIMEOUT_MS = 4_200;
/** Maximum characters of unwritten output. Beyond this limit the input is paused. */
const MAX_PENDING_CHARACTERS = 8 * 1024 * 1024;
/** Maximum time to write the last answers at the end, in ms. */
const FLUSH_TIMEOUT_MS = 500;

/** The Agent Client Protocol over standard input and output, one JSON message per line. */
export class AcpStdioTransport implements Transport {
  readonly name = "acp-stdio";
  readonly #options: AcpOptions;
  readonly #logger: Logger;
  readonly #streams: StdioStreams | undefined;

  constructor(options: Partial<AcpOptions>, logger: Logger, streams?: StdioStreams) {
    this.#options = { ...ACP_DEFAULTS, ...options };
    this.#logger = logger;
    this.#streams = streams;
  }

  start(agent: Agent): Promise<Listening> {
    const { input, output } = this.#streams
      ? { input: this.#streams.input, output: createOutput(this.#streams.output) }
      : { input: process.stdin, output: reserveStdout() };
    return Promise.resolve(
      new StdioConnection(new AcpServer(agent, this.#options, this.#logger), input, output, this.#options),
    );
  }
}

/** The connection to the client, which is the only client of this transport. */
class StdioConnection extends ListeningBase implements Sink {
  readonly address = "stdio";
  readonly #server: AcpServer;
  readonly #connection: AcpConnection;
  readonly #input: Readable;
  readonly #output: Output;
  readonly #frameBytes: number;
  readonly #lineSplitter: LineSplitter;
  #pendingDrain: Promise<void> | undefined;
  #pendingCharacters = 0;
  #isDisconnected = false;

  constructor(server: AcpServer, input: Readable, output: Output, options: AcpOptions) {
    super();
    this.#server = server;
    this.#input = input;
    this.#output = output;
    this.#frameBytes = options.frameBytes;
    this.#lineSplitter = new LineSplitter(options.frameBytes);
    this.#connection = server.connect(this);
    output.onReaderLost(() => this.#disconnect());
    input.on("data", this.#onData);
    input.on("end", this.#onEnd);
    input.on("error", this.#onEnd);
    input.on("close", this.#onEnd);
  }

  send(message: OutgoingMessage): void {
    if (this.#isDisconnected) return;
    const text = `${JSON.stringify(message)}\n`;
    this.#pendingCharacters += text.length;
    const canWriteMore = this.#output.write(text, () => this.#recordWritten(text.length));
    if (!canWriteMore) this.#pendingDrain ??= this.#output.waitForDrain().then(() => (this.#pendingDrain = undefined));
    if (this.#pendingCharacters > MAX_PENDING_CHARACTERS) this.#input.pause();
  }

  get isReachable(): boolean {
    return !this.#isDisconnected;
  }

  waitUntilReady(): Promise<void> | undefined {
    return this.#pendingDrain;
  }

  waitForReader(): undefined {
    return undefined;
  }

  #recordWritten(characters: number): void {
    this.#pendingCharacters -= characters;
    // Resume at half of the maximum, so that the input does not pause again at the next message.
    if (this.#pendingCharacters <= MAX_PENDING_CHARACTERS / 2 && !this.isStopping) this.#input.resume();
  }

  readonly #onData = (chunk: Buffer | string): void => {
    for (const line of this.#lineSplitter.push(typeof chunk === "string" ? Buffer.from(chunk) : chunk))
      this.#handleLine(line);
  };

  readonly #onEnd = (): void => {
    for (const line of this.#lineSplitter.end()) this.#handleLine(line);
    if (this.isStopping) return;
    // The timer of `AbortSignal.timeout` is unreferenced: the process could end before the answers are written.
    const timeoutController = new AbortController();
    const timer = setTimeout(() => timeoutController.abort(), FINISH_TIMEOUT_MS);
    void this.stop(timeoutController.signal).finally(() => clearTimeout(timer));
  };

  #handleLine(line: InputLine): void {
    if ("text" in line) this.#connection.receive(line.text);
    else this.send(line.fault === "too_long" ? createLineTooLongResponse(this.#frameBytes) : createNotUtf8Response());
  }

  /** Handles the loss of the reader: no answer can be sent. */
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
    // An open standard input would keep the process alive. Streams of an embedder are left open.
    if (this.#input === process.stdin) this.#input.destroy();
    if (!this.#isDisconnected) await this.#waitUntilWritten();
    this.#isDisconnected = true;
    await this.#server.close();
    this.#output.release();
  }

  /** Resolves when all answers are written, or after `FLUSH_TIMEOUT_MS`. */
  async #waitUntilWritten(): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    await Promise.race([
      new Promise<void>((resolve) => this.#output.write("", () => resolve())),
      new Promise<void>((resolve) => (timer = setTimeout(resolve, FLUSH_TIMEOUT_MS))),
    ]);
    clearTimeout(timer);
  }
}
