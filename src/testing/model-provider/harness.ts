import assert from "node:assert/strict";
import type { ModelChunk, ModelProvider, ModelRequest } from "../../ports/model-provider.js";
import { DEFAULT_TIMEOUT_MS, countOpenResources, withTimeout, type CheckRules } from "../check.js";
import type { ModelProviderFixture } from "./fixture.js";

export type ProviderRules = CheckRules<[harness: ProviderHarness]>;

type Finish = Extract<ModelChunk, { type: "finish" }>;

/** The provider of one check, with its fixture and time limit. */
export class ProviderHarness {
  readonly fixture: ModelProviderFixture;
  readonly provider: ModelProvider;
  /** Open resources before the provider was created. */
  readonly resourcesBefore: ReadonlyMap<string, number>;
  readonly timeoutMs: number;

  private constructor(
    fixture: ModelProviderFixture,
    provider: ModelProvider,
    resourcesBefore: ReadonlyMap<string, number>,
  ) {
    this.fixture = fixture;
    this.provider = provider;
    this.resourcesBefore = resourcesBefore;
    this.timeoutMs = fixture.timeoutMs ?? DEFAULT_TIMEOUT_MS;
  }

  static async create(fixture: ModelProviderFixture): Promise<ProviderHarness> {
    const resourcesBefore = countOpenResources();
    return new ProviderHarness(fixture, await fixture.create(), resourcesBefore);
  }

  withTimeLimit<T>(promise: Promise<T>, label: string): Promise<T> {
    return withTimeout(promise, label, this.timeoutMs);
  }

  /** Requests a complete answer. Returns the `finish` chunk separately from the other chunks. */
  async ask(
    request: ModelRequest,
    signal: AbortSignal = new AbortController().signal,
  ): Promise<{ chunks: ModelChunk[]; finish: Finish }> {
    const chunks: ModelChunk[] = [];
    await this.withTimeLimit(
      (async () => {
        for await (const chunk of this.provider.stream(request, signal)) chunks.push(chunk);
      })(),
      "an answer",
    );
    const lastChunk = chunks.at(-1);
    assert.ok(lastChunk?.type === "finish", `the last chunk is ${lastChunk?.type ?? "missing"}, not the finish`);
    assert.equal(chunks.filter(({ type }) => type === "finish").length, 1, "there is one finish");
    return { chunks: chunks.slice(0, -1), finish: lastChunk };
  }

  /** Closes the provider and cleans up. */
  async close(): Promise<void> {
    // Another check tests a `close` that hangs or rejects.
    await this.withTimeLimit(this.provider.close(), "close").catch(() => undefined);
    await this.fixture.clean();
  }
}

export function joinTexts(chunks: readonly ModelChunk[]): string {
  return chunks.map((chunk) => (chunk.type === "text" ? chunk.text : "")).join("");
}
