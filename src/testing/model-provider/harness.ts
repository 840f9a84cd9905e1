import assert from "node:assert/strict";
import type { ModelChunk, ModelProvider, ModelRequest } from "../../ports/model-provider.js";
import { openResources, withTimeout, type CheckRules } from "../check.js";
import type { ModelProviderFixture } from "./fixture.js";

export type ProviderRules = CheckRules<[desk: ProviderHarness]>;

type Finish = Extract<ModelChunk, { type: "finish" }>;

/** The provider of one check, with its fixture and time limit. */
export class ProviderHarness {
  readonly fixture: ModelProviderFixture;
  readonly provider: ModelProvider;
  readonly before: ReadonlyMap<string, number>;
  readonly timeoutMs: number;

  private constructor(fixture: ModelProviderFixture, provider: ModelProvider, before: ReadonlyMap<string, number>) {
    this.fixture = fixture;
    this.provider = provider;
    this.before = before;
    this.timeoutMs = fixture.timeoutMs ?? 10_000;
  }

  static async open(fixture: ModelProviderFixture): Promise<ProviderHarness> {
    const before = openResources();
    return new ProviderHarness(fixture, await fixture.create(), before);
  }

  soon<T>(promise: Promise<T>, what: string): Promise<T> {
    return withTimeout(promise, what, this.timeoutMs);
  }

  /** Requests a complete answer. Returns its chunks and its finish separately. */
  async ask(
    request: ModelRequest,
    signal: AbortSignal = new AbortController().signal,
  ): Promise<{ chunks: ModelChunk[]; finish: Finish }> {
    const chunks: ModelChunk[] = [];
    await this.soon(
      (async () => {
        for await (const chunk of this.provider.stream(request, signal)) chunks.push(chunk);
      })(),
      "an answer",
    );
    const last = chunks.at(-1);
    assert.ok(last?.type === "finish", `the last chunk is ${last?.type ?? "missing"}, not the finish`);
    assert.equal(chunks.filter(({ type }) => type === "finish").length, 1, "finish comes once");
    return { chunks: chunks.slice(0, -1), finish: last };
  }

  async close(): Promise<void> {
    // Another check tests a `close` that hangs.
    await this.soon(this.provider.close(), "close").catch(() => undefined);
    await this.fixture.clean();
  }
}

export function textOf(chunks: readonly ModelChunk[]): string {
  return chunks.map((chunk) => (chunk.type === "text" ? chunk.text : "")).join("");
}
