import { removeHostNames } from "./efforts.js";

/**
 * Position of earlier reasoning in a request. `field`: `reasoning_content` of every assistant message; `tags`:
 * `<think>` tags before the text of the message.
 */
export type ReasoningEcho = "field" | "tags" | "none";

/**
 * Sent for messages without reasoning from this model. Kimi K2.5 and later reject an empty text as missing
 * (https://github.com/theopenco/llmgateway/pull/2093), and DeepSeek V4 sometimes does.
 */
export const REASONING_PLACEHOLDER = " ";

interface Family {
  /** Matches ids in lower case, without the names of hosts. Hosts write the version 2.5 as `k2.5`, `k2p5` or `k2-5`. */
  readonly pattern: RegExp;
  readonly echo: Exclude<ReasoningEcho, "none">;
  /** Whether the model rejects a message that has calls and no reasoning. Otherwise its reasoning is recommended. */
  readonly isRequired: boolean;
}

/** Model families whose earlier reasoning goes back to them, on any provider and base URL. */
const FAMILIES: readonly Family[] = [
  // https://api-docs.deepseek.com/guides/thinking_mode
  { pattern: /deepseek[-_]?(reasoner|v(3[.p-]2(?!\d)|[4-9]))/, echo: "field", isRequired: true },
  // https://platform.kimi.ai/docs/guide/use-kimi-k2-thinking-model
  {
    pattern: /kimi[-_](k2[-_]thinking|k2[.p-][5-9](?!\d)|k[3-9]|for-coding)/,
    echo: "field",
    isRequired: true,
  },
  // https://platform.xiaomimimo.com/docs/en-US/usage-guide/passing-back-reasoning_content
  { pattern: /mimo-v[2-9]/, echo: "field", isRequired: true },
  // https://docs.z.ai/guides/capabilities/thinking-mode
  { pattern: /glm-(4[.p][5-9]|[5-9])/, echo: "field", isRequired: false },
  // Writes its reasoning into the text: https://platform.minimax.io/docs/guides/text-m2-function-call
  { pattern: /minimax-m([2-9]|\d\d)/, echo: "tags", isRequired: false },
];

function findFamily(modelId: string): Family | undefined {
  const name = removeHostNames(modelId);
  return FAMILIES.find(({ pattern }) => pattern.test(name));
}

/** Finds where a model expects its earlier reasoning on the wire `openai`; `none` for other models. */
export function findReasoningEcho(modelId: string): ReasoningEcho {
  return findFamily(modelId)?.echo ?? "none";
}

/** Whether a model rejects an assistant message that has tool calls and no reasoning. */
export function requiresReasoning(modelId: string): boolean {
  return findFamily(modelId)?.isRequired === true;
}
