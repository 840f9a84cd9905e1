import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import { isRecord, type OwnedProcess } from "gantry/plugin";
import { limitDepth } from "./depth.js";
import { MessageSplitter, WorkThrottle } from "./lines.js";

/** Maximum bytes buffered for a server that does not read its input. */
const MAX_BUFFERED_BYTES = 32 * 1024 * 1024;
/** Characters of standard error that are kept. */
const MAX_STDERR_CHARACTERS = 4 * 1024;
/** Time for the server to exit after its input is closed, and for its last output after the exit. */
const EXIT_GRACE_MS = 300;
/** Time for the server to exit after the signal to terminate. */
const SHUTDOWN_GRACE_MS = 1_000;
/** JSON-RPC code of an internal error. */
const INTERNAL_ERROR_CODE = -32_603;

/**
 * Messages as lines of a process's standard streams. Lines have a maximum size and are read no faster than they are
 * handled.
 */
export class StdioTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly #process: OwnedProcess;
  /** Whether the client handles a message; other messages are dropped. */
  readonly #shouldDeliver: (message: Readonly<Record<string, unknown>>) => boolean;
  #stderrText = "";
  #stopPromise: Promise<void> | undefined;
  #endReason = "";
  #hasEnded = false;

  constructor(process: OwnedProcess, shouldDeliver: (message: Readonly<Record<string, unknown>>) => boolean) {
    this.#process = process;
    this.#shouldDeliver = shouldDeliver;
    process.stderr.on("data", (piece: Buffer) => {
      this.#stderrText = (this.#stderrText + piece.toString("utf8").slice(-MAX_STDERR_CHARACTERS)).slice(
        -MAX_STDERR_CHARACTERS,
      );
    });
    for (const stream of [process.stderr, process.stdout, process.stdin]) stream.on("error", () => undefined);
  }

  /** The last characters of standard error. */
  get stderrText(): string {
    return this.#stderrText.trim();
  }

  /** End reason. `""` while the process is running, or if the transport was closed locally. */
  get endReason(): string {
    return this.#endReason;
  }

  async start(): Promise<void> {
    const readEnd = this.#read();
    void this.#process.ended.then(async ({ code, signal }) => {
      // Handle the last output of the process before reporting its end.
      await Promise.race([readEnd, new Promise((resolve) => setTimeout(resolve, EXIT_GRACE_MS))]);
      this.#finish(
        signal === null ? `the server exited with code ${code ?? "unknown"}` : `the server was terminated by ${signal}`,
      );
    });
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const { stdin } = this.#process;
    if (this.#hasEnded || stdin.destroyed) throw new Error("the server exited");
    const line = Buffer.from(`${JSON.stringify(message)}\n`);
    if (stdin.writableLength + line.length > MAX_BUFFERED_BYTES) {
      this.#finish("the server does not read its input");
      throw new Error("the server does not read its input");
    }
    stdin.write(line);
  }

  /** Resolves when the process and its children have ended. */
  async close(): Promise<void> {
    this.#stopPromise ??= this.#stop();
    this.#finish("");
    await this.#stopPromise;
  }

  async #stop(): Promise<void> {
    const { stdin, ended } = this.#process;
    stdin.end();
    await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, EXIT_GRACE_MS))]);
    await this.#process.stop(SHUTDOWN_GRACE_MS);
  }

  async #read(): Promise<void> {
    const splitter = new MessageSplitter();
    const throttle = new WorkThrottle();
    try {
      for await (const piece of this.#process.stdout as AsyncIterable<Buffer>) {
        for (const line of splitter.push(piece)) {
          this.#receive(line);
          await throttle.yieldIfNeeded();
          if (this.#hasEnded) return;
        }
        if (this.#process.stdout.readableLength === 0) throttle.markIdle();
      }
    } catch (error) {
      this.#finish(error instanceof Error ? error.message : String(error));
    }
  }

  #receive(line: Buffer): void {
    let message: unknown;
    try {
      const text = line.toString("utf8").trim();
      if (text === "") return;
      message = JSON.parse(text);
    } catch {
      // Many servers print a start message to standard output.
      this.onerror?.(new Error("a line is not a JSON-RPC message"));
      return;
    }
    if (!isRecord(message) || !this.#shouldDeliver(message)) return;
    const boundedMessage = limitDepth(
      (isMalformedResponse(message) ? createErrorResponse(message) : message) as JSONRPCMessage,
    );
    if (boundedMessage) this.onmessage?.(boundedMessage);
  }

  #finish(reason: string): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#endReason = reason;
    this.#stopPromise ??= this.#stop();
    this.onclose?.();
  }
}

/** Whether a response is malformed. An ignored response would leave the request pending until the timeout. */
function isMalformedResponse({ jsonrpc, id, method, result, error }: Readonly<Record<string, unknown>>): boolean {
  if (method !== undefined || id === undefined) return false;
  const isError = isRecord(error) && Number.isSafeInteger(error["code"]) && typeof error["message"] === "string";
  return jsonrpc !== "2.0" || isRecord(result) === isError;
}

function createErrorResponse({ id }: Readonly<Record<string, unknown>>): unknown {
  return { jsonrpc: "2.0", id, error: { code: INTERNAL_ERROR_CODE, message: "the response is malformed" } };
}
