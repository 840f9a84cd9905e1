import type { CompactionStrategy } from "../ports/compaction-strategy.js";
import { InputError } from "../ports/errors.js";
import { isRecord } from "../base/json.js";
import { COMPACTION_DEFAULTS, STRATEGIES } from "./names.js";

/** Options for keeping conversations within the model's context window. All fields are optional. */
export interface CompactionOptions {
  /**
   * Whether conversations are compacted; default true. Without compaction a conversation ends when the context window
   * is full.
   */
  enabled?: boolean | undefined;
  /** `summary` (default), `sliding-window`, or a custom strategy. */
  strategy?: string | CompactionStrategy | undefined;
  /** Share of the window that a prompt may fill before it is compacted: above 0, at most 1; default 0.8. */
  threshold?: number | undefined;
  /** Number of newest messages to keep, as far as they fit; default 20. */
  keepMessages?: number | undefined;
  /** Size of the context window in tokens. 0 (default): the window that the model reports. */
  contextWindow?: number | undefined;
}

/** The compaction options of an agent. The constructor throws `InputError` for invalid options. */
export class Compaction {
  readonly options: { readonly [Key in keyof CompactionOptions]-?: NonNullable<CompactionOptions[Key]> };
  /** Models with an unknown window that have been logged, as `provider/model`. */
  readonly loggedModels = new Set<string>();

  constructor(options: CompactionOptions) {
    const {
      enabled = COMPACTION_DEFAULTS.enabled,
      strategy = COMPACTION_DEFAULTS.strategy,
      threshold = COMPACTION_DEFAULTS.threshold,
      keepMessages = COMPACTION_DEFAULTS.keepMessages,
      contextWindow = COMPACTION_DEFAULTS.contextWindow,
    } = options;
    if (!(threshold > 0 && threshold <= 1)) throw new InputError("compaction.threshold", "above 0, at most 1");
    if (!(keepMessages >= 1)) throw new InputError("compaction.keepMessages", "at least 1");
    if (!(contextWindow >= 0)) throw new InputError("compaction.contextWindow", "0 or more");
    if (typeof strategy === "string" && !STRATEGIES.includes(strategy))
      throw new InputError("compaction.strategy", STRATEGIES.join(", "));
    if (
      typeof strategy !== "string" &&
      !(isRecord(strategy) && typeof strategy.compact === "function" && strategy.name)
    )
      throw new InputError("compaction.strategy", `${STRATEGIES.join(", ")}, or a strategy with name and compact`);
    this.options = { enabled, strategy, threshold, keepMessages, contextWindow };
  }
}
