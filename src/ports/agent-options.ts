export const AGENT_DEFAULTS = {
  maxIterations: 100,
  concurrentRuns: 512,
  attachmentBytes: 268_435_456,
  toolOutputBytes: 1_048_576,
  catalogueRefreshSeconds: 300,
  askTimeoutSeconds: 300,
  clientGraceSeconds: 60,
};

/** Highest accepted budget values; a higher value is assumed to be a typing error. */
export const BUDGET_LIMITS = { usd: 1_000_000, tokens: 1_000_000_000_000, seconds: 1_000_000 };

/** Use of an agent's own prompt: added to the built-in instructions, or instead of them. */
export type PromptUse = "extend" | "replace";
export const PROMPT_USES: readonly PromptUse[] = ["extend", "replace"];

/** Policy when no client can answer an ask. */
export type Unattended = "reject" | "allow" | "wait";
export const UNATTENDED_POLICIES: readonly Unattended[] = ["reject", "allow", "wait"];
