import type { Model, ModelRequest } from "gantry/plugin";
import type { InputKind } from "../files.js";
import type { CallOptions, Metadata } from "../language-model.js";
import type { PromptRules } from "../messages.js";
import type { Settings } from "../options.js";
import type { AnswerReader } from "../reading/answer-reader.js";
import type { ReportedUsage } from "../usage.js";

/**
 * Properties of a request that models may refuse; what was refused once is left out from then on. `echo`: each assistant
 * message has `reasoning_content`; `no_echo`: none has. A refusal of one is the end of a refusal of the other.
 */
export type Optional =
  | ("temperature" | "effort" | "max_tokens" | "cache_key" | "stream_options" | "summary" | "json")
  | ("echo" | "no_echo");

/** One question, as the wire shall put it. */
export interface Asking {
  readonly request: ModelRequest;
  readonly settings: Settings;
  readonly refused: ReadonlySet<Optional>;
  /** Most tokens of the answer; undefined: unknown. */
  readonly maxTokens: number | undefined;
}

/** A way to ask models: how the kernel's wishes are put into the options of a package, and what its answers need. */
export interface Wire {
  /** Whether an answer may begin with thoughts in `<think>` tags. */
  readonly thinkTags?: boolean;
  /** What it sends unasked, and models may refuse. */
  readonly optional?: (asking: Asking) => readonly Optional[];
  /** Whether it leaves a prompt as it is, so that the next one may share messages with it. */
  readonly keepsPrompts?: boolean;
  /** Most tokens of an answer, where the catalogue does not know. */
  readonly maxOutput?: (model: Model) => Promise<number>;
  /** What all its models take, where nothing else is known. */
  input(model: Model, settings: Settings): readonly InputKind[];
  rules(
    model: Model,
    settings: Settings,
  ): Pick<PromptRules, "toolMedia" | "toolIds" | "toolNames" | "reasoningOnMessage">;
  /** Options beside prompt, tools, temperature and the answer's limit, or in their stead: both may be marked for caching. */
  options(asking: Asking, options: CallOptions): Promise<Partial<CallOptions>>;
  /** Whether it can hold an answer to a schema, without harm to calls of tools. Default: no. */
  readonly ownJson?: (asking: Asking) => boolean | Promise<boolean>;
  /** USD as the provider reported it. */
  cost(reported: ReportedUsage, settings: Settings): number | undefined;
  /** Opaque data that each reasoning part gets, so that it goes back to where it came from. */
  readonly reasoningMark?: Metadata;
  /** Opaque data of the whole answer, from what the last part tells. */
  readonly answerData?: (metadata: Metadata) => Metadata | undefined;
}

/** A request as it goes to a provider. */
export interface Written {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** JSON. */
  readonly body: string;
}

/** Puts one question into a request. */
export type Write = (asking: Asking, options: CallOptions) => Promise<Written>;

/** A model protocol that is built in. */
export interface OwnWire extends Wire {
  /** What reads one answer. */
  readonly reader: () => AnswerReader;
  /** Load what writes the requests. */
  open(settings: Settings): Promise<Write>;
}
