import { Transform, Writable, type Readable, type TransformCallback } from "node:stream";
import type { Agent, Logger } from "gantry";
import { ListeningBase, type Listening, type Transport } from "gantry/plugin";
import type { AgentServer } from "./agent-server.js";

/** Streams to use instead of the process's own, for embedders and tests. */
export interface McpStdioStreams {
  input: Readable;
  output: Writable;
}

/** A longer message ends the connection. */
const MAX_MESSAGE_BYTES = 16 * 1024 * 1024;
const LINE_FEED = 10;

/** Offers the agent as an MCP server to the one client at standard input and output. */
export class McpStdioTransport implements Transport {
  readonly name = "mcp-stdio";
  readonly #logger: Logger;
  readonly #streams: McpStdioStreams | undefined;

  /** `streams` default to the process's standard input and output. */
  constructor(logger: Logger, streams?: McpStdioStreams) {
    this.#logger = logger;
    this.#streams = streams;
  }

  async start(agent: Agent): Promise<Listening> {
    const { input, output } = this.#streams ?? { input: process.stdin, output: claimStdout() };
    const [{ AgentServer }, { StdioServerTransport }] = await Promise.all([
      import("./agent-server.js"),
      import("@modelcontextprotocol/server/stdio"),
    ]);
    const server = new AgentServer(agent, this.#logger);
    const connection = new Connection(server, input, output);
    const lines = input.pipe(new CompleteLines());
    lines.on("error", (error) => {
      this.#logger.warn("client input rejected; disconnecting", { error });
      connection.handleDisconnect();
    });
    await server.connect(
      new StdioServerTransport(lines, output, { maxBufferSize: 2 * MAX_MESSAGE_BYTES }),
      connection.handleDisconnect,
    );
    return connection;
  }
}

/** Forwards complete lines only. The SDK would copy its whole buffered line again with each chunk. */
class CompleteLines extends Transform {
  #heldPieces: Buffer[] = [];
  #heldBytes = 0;

  constructor() {
    super({ readableObjectMode: true });
  }

  override _transform(piece: Buffer, _encoding: string, callback: TransformCallback): void {
    const completeBytes = piece.lastIndexOf(LINE_FEED) + 1;
    // In a chunk with several lines, only the first line and the remainder can exceed the limit: they continue in other
    // chunks.
    const firstLineBytes = completeBytes > 0 ? piece.indexOf(LINE_FEED) : piece.length;
    if (this.#heldBytes + firstLineBytes >= MAX_MESSAGE_BYTES)
      return callback(new Error(`a client message is larger than ${MAX_MESSAGE_BYTES / 1024 / 1024} MB`));
    if (completeBytes > 0) {
      const lines = [...this.#heldPieces, piece.subarray(0, completeBytes)];
      [this.#heldPieces, this.#heldBytes] = [[], 0];
      this.push(Buffer.concat(lines));
    }
    const remainder = piece.subarray(completeBytes);
    this.#heldBytes += remainder.length;
    if (remainder.length > 0) this.#heldPieces.push(remainder);
    callback();
  }
}

/** The connection of the one client. Ends when the client disconnects. */
class Connection extends ListeningBase {
  readonly address = "stdio";
  readonly #server: AgentServer;
  readonly #input: Readable;
  readonly #output: Writable;

  constructor(server: AgentServer, input: Readable, output: Writable) {
    super();
    this.#server = server;
    this.#input = input;
    this.#output = output;
    for (const event of ["end", "close", "error"]) input.on(event, this.handleDisconnect);
    for (const event of ["close", "error"]) output.on(event, this.handleDisconnect);
    // If the reader of standard output disconnects, only the process's own stream emits the event.
    if (!isProcessInput(input)) return;
    for (const event of ["close", "error"]) process.stdout.on(event, this.handleDisconnect);
  }

  /** Cancels active calls and stops, because the client has disconnected. */
  readonly handleDisconnect = (): void => void this.stop(AbortSignal.abort());

  protected async end(): Promise<void> {
    await this.#server.close(this.shutdown);
    for (const event of ["end", "close", "error"]) this.#input.off(event, this.handleDisconnect);
    for (const event of ["close", "error"]) this.#output.off(event, this.handleDisconnect);
    // Late stream errors have no other listener and would crash the process.
    this.#input.on("error", () => undefined);
    this.#output.on("error", () => undefined);
    // A pipe that the client keeps open would keep the process alive.
    if (isProcessInput(this.#input)) this.#input.destroy();
  }
}

function isProcessInput(input: Readable): boolean {
  return input === process.stdin;
}

/**
 * Returns a stream to standard output for the protocol. All other writes to `process.stdout` are redirected to standard
 * error.
 */
function claimStdout(): Writable {
  const { stdout, stderr } = process;
  const write = (chunk: string | Uint8Array, done: (error?: Error | null) => void) =>
    Writable.prototype.write.call(stdout, chunk, "utf8", done);
  Object.defineProperty(stdout, "write", { configurable: true, writable: true, value: stderr.write.bind(stderr) });
  return new Writable({
    decodeStrings: false,
    write: (chunk: string | Uint8Array, _encoding, done) => void write(chunk, done),
  });
}
