import type { Model, ModelRequest } from "gantry/plugin";
import type { InputKind } from "../files.js";
import type { ModelCallOptions, Metadata } from "../language-model.js";
import type { PromptRules } from "../messages.js";
import type { Settings } from "../options.js";
import type { AnswerReader } from "../reading/answer-reader.js";
import type { ReportedUsage } from "../usage.js";

/**
 * Parameters that models may reject; a rejected one is omitted from then on. `echo`: each assistant message has
 * `reasoning_content`; `no_echo`: none has. The rejection of one cancels the rejection of the other.
 */
export type OptionalParameter =
  | ("temperature" | "effort" | "max_tokens" | "cache_key" | "stream_options" | "summary" | "json")
  | ("echo" | "no_echo");

/** A model request with the data for the wire. */
export interface WireRequest {
  readonly request: ModelRequest;
  readonly settings: Settings;
  readonly refused: ReadonlySet<OptionalParameter>;
  /** Maximum tokens of the answer; undefined if unknown. */
  readonly maxTokens: number | undefined;
}

/** A wire protocol: converts requests to the options of a package, and describes its answers. */
export interface Wire {
  /** Whether an answer may begin with reasoning in `<think>` tags. */
  readonly thinkTags?: boolean;
  /** Parameters that it always sends and models may reject. */
  readonly optional?: (asking: WireRequest) => readonly OptionalParameter[];
  /** Whether it leaves a prompt unchanged, so that the next one may share messages with it. */
  readonly leavesPromptUnchanged?: boolean;
  /** Maximum tokens of an answer, for models with an unknown limit. */
  readonly maxOutput?: (model: Model) => Promise<number>;
  /** Input kinds that all models accept, if nothing else is known. */
  input(model: Model, settings: Settings): readonly InputKind[];
  rules(
    model: Model,
    settings: Settings,
  ): Pick<PromptRules, "toolMedia" | "toolIds" | "toolNames" | "reasoningOnMessage">;
  /**
   * Options besides prompt, tools, temperature and answer limit. They may replace these, for example to mark prompt and
   * tools for caching.
   */
  options(asking: WireRequest, options: ModelCallOptions): Promise<Partial<ModelCallOptions>>;
  /** Whether it can enforce an output schema without affecting tool calls. Default false. */
  readonly supportsOutputSchema?: (asking: WireRequest) => boolean | Promise<boolean>;
  /** Cost in USD as reported by the provider; undefined if it reports none. */
  cost(reported: ReportedUsage, settings: Settings): number | undefined;
  /** Opaque data for each reasoning part, so that it is sent back to its origin. */
  readonly reasoningMark?: Metadata;
  /** Opaque data of the whole answer, from the metadata of the last part. */
  readonly answerData?: (metadata: Metadata) => Metadata | undefined;
}

/** A request for a provider. */
export interface HttpRequestData {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** JSON. */
  readonly body: string;
}

/** Builds the HTTP request. */
export type BuildRequest = (asking: WireRequest, options: ModelCallOptions) => Promise<HttpRequestData>;

/** A built-in model protocol. */
export interface BuiltInWire extends Wire {
  /** Creates the reader of one answer. */
  readonly reader: () => AnswerReader;
  /** Loads the code that builds requests. */
  open(settings: Settings): Promise<BuildRequest>;
}
