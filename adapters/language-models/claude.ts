import type { Model } from "gantry/plugin";

type Efforts = NonNullable<Model["efforts"]>;

export interface ClaudeThinking {
  /** `adaptive`: the model decides, limited by the effort. `budget`: the request has a number of tokens. */
  readonly mode: "adaptive" | "budget";
  /** Supported efforts, lowest first. */
  readonly efforts: Efforts;
  /** How to avoid thinking: it is off by default, must be disabled, or can only be limited to low effort. */
  readonly avoidanceMethod: "default" | "disabled" | "low";
  /**
   * Whether thoughts are bound to the text before them: if that text has changed, a call with the thoughts is rejected.
   */
  readonly bindsThoughts: boolean;
}

const MODEL_ID_PATTERN = /claude-(?:(opus|sonnet|haiku|fable|mythos)-)?(\d+)(?:[.-](\d{1,2}))?(?!\d)/i;

/** The thinking of a model by its id; undefined for other models and for Claude models that do not think. */
export function claudeThinking(id: string): ClaudeThinking | undefined {
  if (/claude-mythos-preview/i.test(id)) return createAdaptive("low", false);
  const idMatch = MODEL_ID_PATTERN.exec(id);
  if (idMatch === null) return undefined;
  const version = Number(idMatch[2]) * 100 + Number(idMatch[3] ?? 0);
  const isFableOrMythos = /fable|mythos/i.test(idMatch[1] ?? "");
  if (version === 307 || (version >= 400 && version < 406 && !isFableOrMythos))
    return {
      mode: "budget",
      efforts: ["minimal", "low", "medium", "high", "max"],
      avoidanceMethod: "default",
      bindsThoughts: false,
    };
  if (version < 400) return undefined;
  const hasXhighEffort = version >= 500 || (idMatch[1] === "opus" && version >= 407);
  const avoidanceMethod = isFableOrMythos || version >= 505 ? "low" : version >= 500 ? "disabled" : "default";
  return {
    ...createAdaptive(avoidanceMethod, hasXhighEffort),
    bindsThoughts: version >= (isFableOrMythos ? 501 : 505),
  };
}

function createAdaptive(avoidanceMethod: ClaudeThinking["avoidanceMethod"], hasXhighEffort: boolean): ClaudeThinking {
  const efforts: Efforts = ["low", "medium", "high", ...(hasXhighEffort ? ["xhigh" as const] : []), "max"];
  return { mode: "adaptive", efforts, avoidanceMethod: avoidanceMethod, bindsThoughts: false };
}
