import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import type { ClientCapabilities, JSONRPCMessage } from "@modelcontextprotocol/sdk/types.js";
import type { GantryServer } from "./server.js";

/** Connects the SDK's client to the stdio of a gantry process. */
class ProcessTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly #gantry: GantryServer;
  #partialLine = "";

  constructor(gantry: GantryServer) {
    this.#gantry = gantry;
  }

  start(): Promise<void> {
    const { child } = this.#gantry;
    child.stdout.on("data", (text: string) => {
      const lines = (this.#partialLine + text).split("\n");
      this.#partialLine = lines.pop() ?? "";
      // A line that is not JSON fails the test.
      for (const line of lines) this.onmessage?.(JSON.parse(line) as JSONRPCMessage);
    });
    child.on("close", () => this.onclose?.());
    return Promise.resolve();
  }

  send(message: JSONRPCMessage): Promise<void> {
    this.#gantry.child.stdin.write(`${JSON.stringify(message)}\n`);
    return Promise.resolve();
  }

  close(): Promise<void> {
    this.#gantry.child.stdin.end();
    return Promise.resolve();
  }
}

/** An initialized client of a `gantry mcp serve` process. */
export async function connectMcpClient(gantry: GantryServer, capabilities: ClientCapabilities = {}): Promise<Client> {
  const client = new Client({ name: "a test", version: "1" }, { capabilities });
  await client.connect(new ProcessTransport(gantry));
  return client;
}
