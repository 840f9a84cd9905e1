import { setImmediate } from "node:timers/promises";
import type { Model, ModelChunk, ModelProvider, ModelRequest, ModelUsage } from "gantry";
import { nextTurn } from "./guide.js";
import { findLocalServers, LOCAL_SERVERS } from "./local-servers.js";
import type { FoundServer } from "./local-servers.js";
import type { OfflineOptions } from "./options.js";

const MODEL: Model = {
  id: "guide",
  name: "Offline guide (no language model)",
  ownedBy: "gantry",
  contextWindow: 128_000,
  maxOutput: 16_000,
  input: ["text"],
  prices: { input: 0, output: 0 },
};
/** Characters of one streamed piece, about a line. */
const PIECE = 80;

/**
 * A model that is none: it follows fixed rules, calls the tools that a prompt names, and quotes what they return.
 * The same question on the same folder gives the same answer. No key, no network.
 */
export class OfflineProvider implements ModelProvider {
  readonly name = "offline";
  readonly idleTimeoutMs = 30_000;
  readonly maxRetries = 0;
  readonly known: readonly Model[] = [MODEL];
  readonly #hints: readonly string[];
  readonly #configFile: string;
  readonly #servers: NonNullable<OfflineOptions["servers"]>;
  readonly #closed = new AbortController();
  #looking: Promise<readonly FoundServer[]> | undefined;

  constructor(options: OfflineOptions = {}) {
    this.#hints = options.hints ?? [];
    this.#configFile = options.configFile ?? "~/.gantry/config.json";
    this.#servers = options.servers ?? LOCAL_SERVERS;
  }

  async models(signal: AbortSignal): Promise<Model[]> {
    signal.throwIfAborted();
    await this.#look();
    return [MODEL];
  }

  async *stream(request: ModelRequest, signal: AbortSignal): AsyncIterable<ModelChunk> {
    signal.throwIfAborted();
    const found = await this.#look();
    const turn = nextTurn(request, { hints: this.#hints, found, configFile: this.#configFile });
    for (let at = 0; at < turn.text.length;) {
      const end = pieceEnd(turn.text, at);
      yield { type: "text", block: "0", text: turn.text.slice(at, end) };
      at = end;
      // Sockets get their turn, as with a model that needs time for each token.
      await setImmediate();
      signal.throwIfAborted();
    }
    for (const call of turn.calls) {
      yield { type: "tool_call", id: call.id, name: call.tool, arguments: JSON.stringify(call.input) };
    }
    const said = turn.text + turn.calls.map((call) => call.tool + JSON.stringify(call.input)).join("");
    yield { type: "finish", reason: turn.calls.length > 0 ? "tool_calls" : "stop", usage: usageOf(request, said) };
  }

  async close(): Promise<void> {
    this.#closed.abort();
    await this.#looking;
  }

  /** Model servers of this host, looked for once, so that answers can name them; takes a second at most. */
  #look(): Promise<readonly FoundServer[]> {
    return (this.#looking ??= findLocalServers(this.#servers, this.#closed.signal));
  }
}

/** End of the piece that begins at `at`: behind a space or a line break, never within a character. */
function pieceEnd(text: string, at: number): number {
  const limit = at + PIECE;
  if (limit >= text.length) return text.length;
  const line = text.indexOf("\n", at);
  if (line !== -1 && line < limit) return line + 1;
  const space = text.lastIndexOf(" ", limit);
  if (space > at) return space + 1;
  const unit = text.charCodeAt(limit - 1);
  return unit >= 0xd800 && unit <= 0xdbff ? limit + 1 : limit;
}

/** Tokens counted as a quarter of the bytes, which is close for English and code. */
function usageOf(request: ModelRequest, said: string): ModelUsage {
  const asked = JSON.stringify([
    request.system,
    request.messages.map(({ role, parts }) => [role, parts]),
    request.tools.map(({ name, description, inputSchema }) => [name, description, inputSchema]),
  ]);
  return {
    inputTokens: tokens(asked),
    outputTokens: tokens(said),
    cacheReadTokens: 0,
    cacheWriteTokens: 0,
    reasoningTokens: 0,
    cost: 0,
    costReported: true,
  };
}

function tokens(text: string): number {
  return Math.ceil(Buffer.byteLength(text) / 4);
}
