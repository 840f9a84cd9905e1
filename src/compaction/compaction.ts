import type { ModelCaller } from "../models/model-call.js";
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

/** Assumed window of a model that reports none, in tokens. */
const DEFAULT_WINDOW_TOKENS = 128_000;
/** Maximum tokens reserved for the answer. The reserve is never more than a fifth of the window. */
const MAX_ANSWER_TOKENS = 4_096;
type WindowRun = Pick<ModelCaller, "provider" | "model" | "logger">;

export interface WindowRules {
  enabled: boolean;
  /** Size of the window in tokens, for prompt and answer together. */
  size: number;
  /** Tokens of a prompt above which it is compacted. */
  limit: number;
  keepMessages: number;
  /** Name of a built-in strategy, or a custom strategy. */
  strategy: string | CompactionStrategy;
}

/** The compaction options of an agent. The constructor throws `InputError` for invalid options. */
export class Compaction {
  readonly #options: Required<Omit<CompactionOptions, "strategy">>;
  readonly #strategy: string | CompactionStrategy;
  /** Models with an unknown window that have been logged, as `provider/model`. */
  readonly #loggedModels = new Set<string>();

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
    this.#options = { enabled, threshold, keepMessages, contextWindow };
    if (typeof strategy === "string" && !STRATEGIES.includes(strategy))
      throw new InputError("compaction.strategy", STRATEGIES.join(", "));
    if (
      typeof strategy !== "string" &&
      !(isRecord(strategy) && typeof strategy.compact === "function" && strategy.name)
    )
      throw new InputError("compaction.strategy", `${STRATEGIES.join(", ")}, or a strategy with name and compact`);
    this.#strategy = strategy;
  }

  /** Returns the window rules for one run. Logs a warning once per model if its window is unknown. */
  resolveRules(run: WindowRun): WindowRules {
    const { enabled, threshold, keepMessages, contextWindow } = this.#options;
    const size = contextWindow > 0 ? contextWindow : (run.model.contextWindow ?? this.#assumeWindow(run));
    const answerTokens = Math.min(MAX_ANSWER_TOKENS, run.model.maxOutput ?? MAX_ANSWER_TOKENS, Math.floor(size / 5));
    const limit = Math.floor(Math.min(size * threshold, size - answerTokens));
    return { enabled, size, limit, keepMessages, strategy: this.#strategy };
  }

  /** Returns the assumed window of a model that reports none, in tokens. */
  #assumeWindow({ provider, model, logger }: WindowRun): number {
    const name = `${provider.name}/${model.id}`;
    if (this.#options.enabled && !this.#loggedModels.has(name)) {
      this.#loggedModels.add(name);
      logger.warn("context window of the model is unknown; assuming 128000 tokens", { model: name });
    }
    return DEFAULT_WINDOW_TOKENS;
  }
}
