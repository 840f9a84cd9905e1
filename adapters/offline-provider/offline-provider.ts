import { setImmediate } from "node:timers/promises";
import type { Model, ModelChunk, ModelProvider, ModelRequest, ModelUsage } from "gantry/plugin";
import { createNextTurn } from "./guide.js";
import { findLocalServers, LOCAL_SERVERS, type FoundServer } from "./local-servers.js";
import type { OfflineOptions } from "./options.js";

const GUIDE_MODEL: Model = {
  id: "guide",
  name: "Offline guide (no language model)",
  ownedBy: "gantry",
  contextWindow: 128_000,
  maxOutput: 16_000,
  input: ["text"],
  prices: { input: 0, output: 0 },
};
/** Streamed chunks: a line, or about 80 characters up to a blank. A character is never split. */
const TEXT_CHUNK_PATTERN = /[^\n]{0,80}\n|[^\n]{1,80}$|[^\n]{0,80} |[^]{1,80}/gu;

/**
 * A model provider without a model. Follows fixed rules, calls the tools that a prompt names, and quotes the results of
 * the calls.
 *
 * The same prompt in the same folder gives the same answer. The provider needs no key and no network.
 */
export class OfflineProvider implements ModelProvider {
  readonly name = "offline";
  readonly idleTimeoutMs = 30_000;
  readonly maxRetries = 0;
  readonly maxWaitMs = 0;
  readonly configuredModels: readonly Model[] = [GUIDE_MODEL];
  readonly #options: OfflineOptions;
  readonly #closeController = new AbortController();
  #serverSearch: Promise<readonly FoundServer[]> | undefined;

  constructor(options: OfflineOptions = {}) {
    this.#options = options;
  }

  async models(signal: AbortSignal): Promise<Model[]> {
    signal.throwIfAborted();
    await this.#findServers();
    return [GUIDE_MODEL];
  }

  async *stream(request: ModelRequest, signal: AbortSignal): AsyncIterable<ModelChunk> {
    signal.throwIfAborted();
    const foundServers = await this.#findServers();
    const { hints = [], configFile = "~/.gantry/config.json" } = this.#options;
    const turn = createNextTurn(request, { hints, foundServers, configFile });
    for (const [text] of turn.text.matchAll(TEXT_CHUNK_PATTERN)) {
      yield { type: "text", block: "0", text };
      // Let sockets send each chunk, as with a real model.
      await setImmediate();
      signal.throwIfAborted();
    }
    for (const call of turn.calls) yield { type: "tool_call", ...call };
    const usage = usageOf(request, turn.text + turn.calls.map((call) => call.name + call.arguments).join(""));
    yield { type: "finish", reason: turn.calls.length > 0 ? "tool_calls" : "stop", usage };
  }

  async close(): Promise<void> {
    this.#closeController.abort();
    await this.#serverSearch;
  }

  /** Searches this machine for model servers; later calls return the first result. Takes one second at most. */
  #findServers(): Promise<readonly FoundServer[]> {
    return (this.#serverSearch ??= findLocalServers(
      this.#options.servers ?? LOCAL_SERVERS,
      this.#closeController.signal,
    ));
  }
}

/** Average of English and code. */
const BYTES_PER_TOKEN = 4;

/** Estimates the usage from the bytes of the request and the output. */
function usageOf({ system, messages, tools }: ModelRequest, outputText: string): ModelUsage {
  const toolDefinitions = tools.map(({ name, description, inputSchema }) => [name, description, inputSchema]);
  return {
    inputTokens: Math.ceil(Buffer.byteLength(JSON.stringify([system, messages, toolDefinitions])) / BYTES_PER_TOKEN),
    outputTokens: Math.ceil(Buffer.byteLength(outputText) / BYTES_PER_TOKEN),
    cacheReadTokens: 0,
    cacheWriteTokens: 0,
    reasoningTokens: 0,
    cost: 0,
    costReported: true,
  };
}
