/** Names of the built-in strategies. */
export const STRATEGIES: readonly string[] = ["sliding-window", "summary"];

/** Defaults of `CompactionOptions`. `contextWindow` is in tokens; 0 is the model's own window. */
export const COMPACTION_DEFAULTS = {
  enabled: true,
  strategy: "summary",
  threshold: 0.8,
  keepMessages: 20,
  contextWindow: 0,
};
