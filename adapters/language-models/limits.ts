import { estimatePrompt, type ModelRequest } from "gantry/plugin";

// Answers shorter than this are of no use; the provider's own error says more.
const SHORTEST = 1024;

/** Most tokens of the answer: the model's own limit, less where prompt and answer would not fit the window; undefined: unknown. */
export function answerLimit(request: ModelRequest, fallback: number | undefined): number | undefined {
  const { maxOutput = fallback, contextWindow } = request.model;
  const wanted = request.maxTokens === undefined ? maxOutput : Math.min(request.maxTokens, maxOutput ?? Infinity);
  if (wanted === undefined || contextWindow === undefined) return wanted;
  const room = contextWindow - estimatePrompt(request);
  return Math.min(wanted, Math.max(room, Math.min(SHORTEST, wanted)));
}
