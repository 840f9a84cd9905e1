import { estimatePrompt, type ModelRequest } from "gantry/plugin";

// A shorter limit is useless; the provider's error is more helpful.
const MIN_ANSWER_TOKENS = 1024;

/**
 * Maximum tokens of the answer: the model's limit, or less if prompt and answer would exceed the context window.
 * Undefined if unknown.
 */
export function answerLimit(request: ModelRequest, fallback: number | undefined): number | undefined {
  const { maxOutput = fallback, contextWindow } = request.model;
  const requestedTokens =
    request.maxTokens === undefined ? maxOutput : Math.min(request.maxTokens, maxOutput ?? Infinity);
  if (requestedTokens === undefined || contextWindow === undefined) return requestedTokens;
  const room = contextWindow - estimatePrompt(request);
  return Math.min(requestedTokens, Math.max(room, Math.min(MIN_ANSWER_TOKENS, requestedTokens)));
}
