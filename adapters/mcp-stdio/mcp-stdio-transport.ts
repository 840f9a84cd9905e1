import { Writable, type Readable } from "node:stream";
import { Serving, type Agent, type Listening, type Logger, type Transport } from "gantry";
import type { AgentServer } from "./agent-server.js";

/** Streams other than the process's own, for an embedder or a test. */
export interface StdioStreams {
  input: Readable;
  output: Writable;
}

/** A message that is longer ends the connection, in bytes. */
const MOST = 32 * 1024 * 1024;

/** The agent as a server of tools (Model Context Protocol) for the one client at standard input and output. */
export class McpStdioTransport implements Transport {
  readonly name = "mcp-stdio";
  readonly #logger: Logger;
  readonly #streams: StdioStreams | undefined;

  /** `streams`: instead of the process's own. */
  constructor(logger: Logger, streams?: StdioStreams) {
    this.#logger = logger;
    this.#streams = streams;
  }

  async start(agent: Agent): Promise<Listening> {
    const { input, output } = this.#streams ?? { input: process.stdin, output: ownStdout() };
    const [{ AgentServer }, { StdioServerTransport }] = await Promise.all([
      import("./agent-server.js"),
      import("@modelcontextprotocol/sdk/server/stdio.js"),
    ]);
    const server = new AgentServer(agent, this.#logger);
    const connection = new Connection(server, input, output);
    await server.connect(new StdioServerTransport(input, output, { maxBufferSize: MOST }), connection.lost);
    return connection;
  }
}

/** The one client, from its first message until it is gone. */
class Connection extends Serving {
  readonly address = "stdio";
  readonly #server: AgentServer;
  readonly #input: Readable;
  readonly #output: Writable;

  constructor(server: AgentServer, input: Readable, output: Writable) {
    super();
    this.#server = server;
    this.#input = input;
    this.#output = output;
    for (const event of ["end", "close", "error"]) input.on(event, this.lost);
    for (const event of ["close", "error"]) output.on(event, this.lost);
    // What is printed to a reader that left is told by the stream of the process itself.
    if (!isOwn(input)) return;
    for (const event of ["close", "error"]) process.stdout.on(event, this.lost);
  }

  /** The client is gone: there is nobody to answer. */
  readonly lost = (): void => void this.stop(AbortSignal.abort());

  protected async end(): Promise<void> {
    await this.#server.close(this.shutdown);
    for (const event of ["end", "close", "error"]) this.#input.off(event, this.lost);
    for (const event of ["close", "error"]) this.#output.off(event, this.lost);
    // An error that comes late has nobody else to go to.
    this.#input.on("error", () => undefined);
    this.#output.on("error", () => undefined);
    // A pipe that stays open on the other side would keep the process.
    if (isOwn(this.#input)) this.#input.destroy();
  }
}

function isOwn(input: Readable): boolean {
  return input === process.stdin;
}

/** Standard output for the protocol alone: whatever else writes there goes to standard error. */
function ownStdout(): Writable {
  const { stdout, stderr } = process;
  const write = (chunk: string | Uint8Array, done: (error?: Error | null) => void) =>
    Writable.prototype.write.call(stdout, chunk, "utf8", done);
  Object.defineProperty(stdout, "write", { configurable: true, writable: true, value: stderr.write.bind(stderr) });
  return new Writable({
    decodeStrings: false,
    write: (chunk: string | Uint8Array, _encoding, done) => void write(chunk, done),
  });
}
