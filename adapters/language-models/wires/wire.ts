import type { Model, ModelRequest } from "gantry/plugin";
import type { InputKind } from "../files.js";
import type { ModelCallOptions, Metadata } from "../language-model.js";
import type { PromptRules } from "../messages.js";
import type { Settings } from "../options.js";
import type { PartSource } from "../reading/answer-body.js";
import type { AnswerReader } from "../reading/answer-reader.js";
import type { ReportedUsage } from "../usage.js";

/**
 * Parameters that models may reject. Later requests omit a rejected parameter. `echo`: each assistant message has its
 * reasoning or a placeholder; `no_echo`: no message has a placeholder. The rejection of `echo` cancels the rejection of `no_echo`,
 * and vice versa.
 */
export type OptionalParameter =
  | ("temperature" | "effort" | "max_tokens" | "cache_key" | "stream_options" | "summary" | "json")
  | ("echo" | "no_echo");

/** A model request with the data for the wire. */
export interface WireRequest {
  readonly request: ModelRequest;
  readonly settings: Settings;
  readonly rejectedParameters: ReadonlySet<OptionalParameter>;
  /** Maximum tokens of the answer; undefined if unknown. */
  readonly maxTokens: number | undefined;
}

/** A wire protocol: converts requests to the options of a package, and describes its answers. */
export interface Wire {
  /** Whether an answer may begin with reasoning in `<think>` tags. */
  readonly mayUseThinkTags?: boolean;
  /** Parameters that the wire always sends and models may reject. */
  readonly optionalParameters?: (wireRequest: WireRequest) => readonly OptionalParameter[];
  /** Whether the wire leaves a prompt unchanged, so that the next prompt may share its messages. */
  readonly leavesPromptUnchanged?: boolean;
  /** Maximum tokens of an answer, for models with an unknown limit. Undefined: the provider's default is used. */
  readonly maxOutput?: (model: Model, settings: Settings) => Promise<number | undefined>;
  /** Input kinds of a model whose own input kinds are unknown. */
  input(model: Model, settings: Settings): readonly InputKind[];
  /** Requirements on a conversation for this model. */
  rules(
    model: Model,
    settings: Settings,
  ): Pick<PromptRules, "toolMedia" | "toolIds" | "toolNames" | "reasoningOnMessage">;
  /**
   * Options besides prompt, tools, temperature and answer limit. The result may also replace these four, for example to
   * mark prompt and tools for caching.
   */
  options(wireRequest: WireRequest, options: ModelCallOptions): Promise<Partial<ModelCallOptions>>;
  /** Whether the wire can enforce an output schema without affecting tool calls. Default false. */
  readonly supportsOutputSchema?: (wireRequest: WireRequest) => boolean | Promise<boolean>;
  /** Cost in USD as reported by the provider; undefined if it reports none. */
  readCost(reported: ReportedUsage, settings: Settings): number | undefined;
  /** Opaque data for each reasoning part of a model, so that the part is sent back to that model. */
  readonly reasoningMark?: (modelId: string) => Metadata | undefined;
  /** Opaque data of the whole answer, from the metadata of the last part. */
  readonly readAnswerData?: (metadata: Metadata) => Metadata | undefined;
}

/** A wire that is ready for requests. */
export interface OpenWire {
  readonly wire: Wire;
  /**
   * Sends a request after `wireRequest.request.startAfter` has resolved. Rejects with the error of `startAfter`, with
   * the provider's error, or with the signal's reason.
   */
  send(wireRequest: WireRequest, options: ModelCallOptions, signal: AbortSignal): Promise<PartSource>;
}

/** URL, headers and body of a request for a provider. */
export interface HttpRequestData {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** JSON. */
  readonly body: string;
}

/** Converts a model request to an HTTP request. */
export type BuildRequest = (wireRequest: WireRequest, options: ModelCallOptions) => Promise<HttpRequestData>;

/** A built-in model protocol. */
export interface BuiltInWire extends Wire {
  /** Creates the reader of one answer. */
  readonly createReader: () => AnswerReader;
  /** Loads the code that builds requests. */
  createRequestBuilder(settings: Settings): Promise<BuildRequest>;
}
