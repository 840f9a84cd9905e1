import type { LanguageModelV3CallOptions, LanguageModelV3Prompt } from "@ai-sdk/provider";

/** What a model is asked, in the terms of specification v3. */
export type CallOptions = LanguageModelV3CallOptions;
export type Prompt = LanguageModelV3Prompt;

/** Keyed by the provider package's own name, as the specification calls it. */
export type Metadata = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

/** A part of a stream, of any specification: what is read of it is checked where it is read. */
export interface StreamPart {
  readonly type: string;
  readonly id?: string;
  readonly delta?: string;
  readonly toolCallId?: string;
  readonly toolName?: string;
  readonly input?: unknown;
  readonly providerExecuted?: boolean;
  readonly providerMetadata?: Metadata;
  readonly finishReason?: unknown;
  readonly usage?: unknown;
  readonly error?: unknown;
}

/** A model of the AI SDK, known by its structure alone, so that any copy and version of its packages fits. */
export interface AiSdkModel {
  readonly specificationVersion: string;
  readonly provider: string;
  readonly modelId: string;
  // Options differ from version to version; they are made for the version that the model names.
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  doStream(options: any): PromiseLike<{ stream: ReadableStream<unknown> }>;
}

/** Whether a value has the structure of an AI SDK language model. */
export function isAiSdkModel(value: unknown): value is AiSdkModel {
  const model = value as Partial<AiSdkModel> | null;
  return (
    typeof model === "object" &&
    model !== null &&
    typeof model.doStream === "function" &&
    typeof model.modelId === "string"
  );
}
