import type { Model } from "gantry/plugin";

type Efforts = NonNullable<Model["efforts"]>;

export interface ClaudeThinking {
  /** `adaptive`: the model decides, limited by the effort. `budget`: within a number of tokens. */
  readonly how: "adaptive" | "budget";
  /** Supported efforts, lowest first. */
  readonly efforts: Efforts;
  /** Way to avoid thinking: it is off by default, must be disabled, or can only be limited to low effort. */
  readonly withoutThoughts: "unasked" | "disabled" | "low";
  /**
   * Whether thoughts are bound to the text before them: if it has changed, thoughts must be removed, or the call is
   * rejected.
   */
  readonly isBound: boolean;
}

const NAME = /claude-(?:(opus|sonnet|haiku|fable|mythos)-)?(\d+)(?:[.-](\d{1,2}))?(?!\d)/i;

/** The thinking of a model by its id; undefined for other models and for Claude models that do not think. */
export function claudeThinking(id: string): ClaudeThinking | undefined {
  if (/claude-mythos-preview/i.test(id)) return adaptive("low", false);
  const idMatch = NAME.exec(id);
  if (idMatch === null) return undefined;
  const version = Number(idMatch[2]) * 100 + Number(idMatch[3] ?? 0);
  const isFableOrMythos = /fable|mythos/i.test(idMatch[1] ?? "");
  if (version === 307 || (version >= 400 && version < 406 && !isFableOrMythos))
    return {
      how: "budget",
      efforts: ["minimal", "low", "medium", "high", "max"],
      withoutThoughts: "unasked",
      isBound: false,
    };
  if (version < 400) return undefined;
  const hasMore = version >= 500 || (idMatch[1] === "opus" && version >= 407);
  const quiet = isFableOrMythos || version >= 505 ? "low" : version >= 500 ? "disabled" : "unasked";
  return { ...adaptive(quiet, hasMore), isBound: version >= (isFableOrMythos ? 501 : 505) };
}

function adaptive(quiet: ClaudeThinking["withoutThoughts"], hasMore: boolean): ClaudeThinking {
  const efforts: Efforts = ["low", "medium", "high", ...(hasMore ? ["xhigh" as const] : []), "max"];
  return { how: "adaptive", efforts, withoutThoughts: quiet, isBound: false };
}
