import { estimatePrompt, type ModelRequest } from "gantry/plugin";

/**
 * Minimum limit even if the prompt leaves less room: an error of the provider is more helpful than a truncated answer.
 */
const MIN_ANSWER_TOKENS = 1024;

/**
 * Maximum tokens of the answer: the lower of the requested and the model's limit, or less if prompt and answer would
 * exceed the context window. `fallbackTokens`: limit of a model without a known limit. Undefined if no limit is known.
 */
export function calculateAnswerLimit(request: ModelRequest, fallbackTokens: number | undefined): number | undefined {
  const { maxOutput = fallbackTokens, contextWindow } = request.model;
  const requestedTokens =
    request.maxTokens === undefined ? maxOutput : Math.min(request.maxTokens, maxOutput ?? Infinity);
  if (requestedTokens === undefined || contextWindow === undefined) return requestedTokens;
  const remainingTokens = contextWindow - estimatePrompt(request);
  return Math.min(requestedTokens, Math.max(remainingTokens, Math.min(MIN_ANSWER_TOKENS, requestedTokens)));
}
