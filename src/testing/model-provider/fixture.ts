import type { ModelProvider, ModelRequest } from "../../ports/model-provider.js";

/**
 * Gives the checks access to a provider. The fixture determines the model's answers, for example with a local server or
 * a recording.
 *
 * Each function except `create` and `clean` prepares the answer to the next call, and resolves with the request for
 * that call.
 */
export interface ModelProviderFixture {
  /** Creates an unused provider. Called once at the start of every check. */
  create(): Promise<ModelProvider>;
  /** Prepares an answer of at least three chunks of text. */
  text(): Promise<ModelRequest>;
  /** Prepares an answer with at least one call of a tool of the request. Undefined if the model calls no tools. */
  readonly toolCall: (() => Promise<ModelRequest>) | undefined;
  /** Prepares an answer that begins with text and then stalls. Undefined if answers cannot stall. */
  readonly stall: (() => Promise<ModelRequest>) | undefined;
  /** Prepares a rejected request, or a failure before the end. Undefined if no request can fail. */
  readonly fault: (() => Promise<ModelRequest>) | undefined;
  /** Removes what the fixture created. Called at the end of every check, after the provider was closed. */
  clean(): Promise<void>;
  /** Time limit of the checks for expected events, in ms. Default 10,000. Only failing checks take that long. */
  readonly timeoutMs?: number | undefined;
}
