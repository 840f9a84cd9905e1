import type { Model, ModelRequest } from "gantry";
import type { Fetch } from "../fetch.js";
import type { InputKind } from "../files.js";
import type { AiSdkModel, CallOptions, Metadata } from "../language-model.js";
import type { PromptRules } from "../messages.js";
import type { Settings } from "../options.js";
import type { AnswerReader } from "../reading/answer-reader.js";

/** Parameters that models may refuse; what was refused once is left out from then on. */
export type Optional = "temperature" | "effort" | "max_tokens" | "cache_key" | "stream_options" | "summary";

/** One question, as the wire shall put it. */
export interface Asking {
  readonly request: ModelRequest;
  readonly settings: Settings;
  readonly refused: ReadonlySet<Optional>;
  /** Most tokens of the answer; undefined: unknown. */
  readonly maxTokens: number | undefined;
}

/** A model protocol: which package speaks it, and how the kernel's wishes are put into its options. */
export interface Wire {
  /** What reads one answer; the package only writes the requests. */
  reader(): AnswerReader;
  /** Whether an answer may begin with thoughts in `<think>` tags. */
  readonly thinkTags?: boolean;
  /** Most tokens of an answer, where the catalogue does not know. */
  readonly maxOutput?: (model: Model) => Promise<number>;
  /** What all its models take, where nothing else is known. */
  input(model: Model, settings: Settings): readonly InputKind[];
  rules(model: Model, settings: Settings): Pick<PromptRules, "toolMedia" | "toolIds" | "reasoningOnMessage">;
  /** Load the package; models are made by id. */
  open(settings: Settings, fetch: Fetch): Promise<(modelId: string, asking: Asking) => AiSdkModel>;
  /** Options beside prompt, tools and temperature. May mark the prompt and the tools for caching. */
  options(asking: Asking, options: CallOptions): Promise<Partial<CallOptions>>;
  readonly reasoningMark?: (settings: Settings) => Metadata | undefined;
  readonly answerData?: (metadata: Metadata) => Metadata | undefined;
}
