import type { ModelProvider, ModelRequest } from "../../ports/model-provider.js";

/**
 * How the checks get at a provider. What the model behind it says is arranged by the fixture: a server on this machine
 * that speaks the provider's protocol, a recorded answer, a model of its own. Each function arranges the answer to one
 * call that is made right after it, and resolves with the question to ask.
 */
export interface ModelProviderFixture {
  /** A provider that was never used. Called once at the start of every check. */
  create(): Promise<ModelProvider>;
  /** An answer of at least three chunks of text. */
  text(): Promise<ModelRequest>;
  /** An answer that calls a tool of the request, at least once. `undefined` where the model calls no tools. */
  readonly toolCall: (() => Promise<ModelRequest>) | undefined;
  /** An answer that begins with text and then stays silent. `undefined` where that cannot happen. */
  readonly stall: (() => Promise<ModelRequest>) | undefined;
  /** A refusal, or a failure before the end. `undefined` where nothing can fail. */
  readonly fault: (() => Promise<ModelRequest>) | undefined;
  /** Remove what `create` and the others left behind. Called at the end of every check, when the provider was closed. */
  clean(): Promise<void>;
  /** How long the checks wait for what must happen, in ms. Default 10,000: no check passes by waiting that long. */
  readonly timeoutMs?: number | undefined;
}
