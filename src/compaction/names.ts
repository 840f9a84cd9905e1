/** Names of the strategies that come with gantry. */
export const STRATEGIES: readonly string[] = ["sliding-window", "summary"];

/** What holds where nothing else is said; `contextWindow` in tokens, 0 for the model's own. */
export const COMPACTION_DEFAULTS = {
  enabled: true,
  strategy: "summary",
  threshold: 0.8,
  keepMessages: 20,
  contextWindow: 0,
};
