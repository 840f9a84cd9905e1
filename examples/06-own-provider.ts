// Your own model provider, which returns answers as chunks. This provider repeats the prompt word by word.
import { Agent } from "gantry";
import type { Model, ModelChunk, ModelProvider, ModelRequest } from "gantry/plugin";

class EchoProvider implements ModelProvider {
  readonly name = "echo";
  readonly idleTimeoutMs = 10_000;
  readonly maxRetries = 0;
  readonly maxWaitMs = 60_000;
  readonly configuredModels: readonly Model[] = [{ id: "echo-1", name: "Echo", ownedBy: "you", contextWindow: 8_000 }];

  models(signal: AbortSignal): Promise<Model[]> {
    signal.throwIfAborted();
    return Promise.resolve([...this.configuredModels]);
  }

  async *stream({ messages }: ModelRequest, signal: AbortSignal): AsyncIterable<ModelChunk> {
    const [part] = messages.at(-1)?.parts ?? [];
    const words = part?.type === "text" ? part.text.split(/(?<= )/) : [];
    for (const text of words) {
      signal.throwIfAborted();
      yield { type: "text", block: "0", text };
      await new Promise((resolve) => setImmediate(resolve));
    }
    const tokens = words.length;
    const counts = { inputTokens: tokens, outputTokens: tokens };
    yield {
      type: "finish",
      reason: "stop",
      usage: { ...counts, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 },
    };
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

const agent = new Agent({ providers: [new EchoProvider()] });
const run = await agent.run({ message: "Say it again" });
for await (const event of run) if (event.type === "token") console.log(event.text);
console.log(run.provider, run.model.id, (await run.result).usage.totalTokens);
await agent.close();
