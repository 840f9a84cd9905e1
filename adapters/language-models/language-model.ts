import type { LanguageModelV3CallOptions, LanguageModelV3Prompt } from "@ai-sdk/provider";

/** The options of a call in specification v3. */
export type ModelCallOptions = LanguageModelV3CallOptions;
export type ModelPrompt = LanguageModelV3Prompt;

/** Metadata by the name of the provider package, as in the specification. */
export type Metadata = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

/** A part of a stream, of any specification version. Its fields are checked where they are read. */
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

/** A model of the AI SDK, recognized by its structure, so that any copy and version of its packages fits. */
export interface AiSdkModel {
  readonly specificationVersion: string;
  readonly provider: string;
  readonly modelId: string;
  // The options depend on the specification version of the model.
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
