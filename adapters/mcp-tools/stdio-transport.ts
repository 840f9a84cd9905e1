import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import { isRecord, type OwnedProcess } from "gantry/plugin";
import { limitDepth } from "./depth.js";
import { MessageSplitter, WorkThrottle } from "./lines.js";

/** Maximum bytes buffered for a server that does not read its input. */
const MAX_BUFFERED_BYTES = 32 * 1024 * 1024;
/** Bytes of standard error that are kept. */
const STDERR_BYTES = 4 * 1024;
/** Time for the server to exit after its input is closed; below, after the signal to terminate. */
const EXIT_GRACE_MS = 300;
const SHUTDOWN_GRACE_MS = 1_000;

/**
 * Messages as lines of a process's standard streams. Lines have a maximum size and are read no faster than they are
 * handled.
 */
export class StdioTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly #process: OwnedProcess;
  /** Whether a message is needed. */
  readonly #isWanted: (message: Readonly<Record<string, unknown>>) => boolean;
  #errors = "";
  #end: Promise<void> | undefined;
  #why = "";
  #over = false;

  constructor(process: OwnedProcess, isWanted: (message: Readonly<Record<string, unknown>>) => boolean) {
    this.#process = process;
    this.#isWanted = isWanted;
    process.stderr.on("data", (piece: Buffer) => {
      this.#errors = (this.#errors + piece.toString("utf8").slice(-STDERR_BYTES)).slice(-STDERR_BYTES);
    });
    for (const stream of [process.stderr, process.stdout, process.stdin]) stream.on("error", () => undefined);
  }

  /** The last bytes of standard error. */
  get errors(): string {
    return this.#errors.trim();
  }

  /** End reason. `""` while the process is running, or if it was closed locally. */
  get why(): string {
    return this.#why;
  }

  async start(): Promise<void> {
    const read = this.#read();
    void this.#process.ended.then(async ({ code, signal }) => {
      // Handle the last output of the process before reporting its end.
      await Promise.race([read, new Promise((resolve) => setTimeout(resolve, EXIT_GRACE_MS))]);
      this.#finish(
        signal === null ? `the server exited with code ${code ?? "unknown"}` : `the server was terminated by ${signal}`,
      );
    });
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const { stdin } = this.#process;
    if (this.#over || stdin.destroyed) throw new Error("the server exited");
    const line = `${JSON.stringify(message)}\n`;
    if (stdin.writableLength + line.length > MAX_BUFFERED_BYTES) {
      this.#finish("the server does not read its input");
      throw new Error("the server does not read its input");
    }
    stdin.write(line);
  }

  /** Resolves when the process and its children have ended. */
  async close(): Promise<void> {
    this.#end ??= this.#stop();
    this.#finish("");
    await this.#end;
  }

  async #stop(): Promise<void> {
    const { stdin, ended } = this.#process;
    stdin.end();
    await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, EXIT_GRACE_MS))]);
    await this.#process.stop(SHUTDOWN_GRACE_MS);
  }

  async #read(): Promise<void> {
    const lines = new MessageSplitter();
    const turns = new WorkThrottle();
    try {
      for await (const piece of this.#process.stdout as AsyncIterable<Buffer>) {
        for (const line of lines.push(piece)) {
          this.#receive(line);
          await turns.next();
          if (this.#over) return;
        }
        if (this.#process.stdout.readableLength === 0) turns.idle();
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
    if (!isRecord(message) || !this.#isWanted(message)) return;
    const bounded = limitDepth((isMalformedResponse(message) ? malformedResponse(message) : message) as JSONRPCMessage);
    if (bounded) this.onmessage?.(bounded);
  }

  #finish(why: string): void {
    if (this.#over) return;
    this.#over = true;
    this.#why = why;
    this.#end ??= this.#stop();
    this.onclose?.();
  }
}

/** Whether a response is malformed. Ignoring it would leave the request pending until its timeout. */
function isMalformedResponse({ jsonrpc, id, method, result, error }: Readonly<Record<string, unknown>>): boolean {
  if (method !== undefined || id === undefined) return false;
  const isError = isRecord(error) && Number.isSafeInteger(error["code"]) && typeof error["message"] === "string";
  return jsonrpc !== "2.0" || isRecord(result) === isError;
}

function malformedResponse({ id }: Readonly<Record<string, unknown>>): unknown {
  return { jsonrpc: "2.0", id, error: { code: -32_603, message: "the response is malformed" } };
}
