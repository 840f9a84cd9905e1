import type { Model } from "gantry/plugin";

type Efforts = NonNullable<Model["efforts"]>;

export interface ClaudeThinking {
  /** `adaptive`: the model decides, limited by the effort. `budget`: the request has a number of tokens. */
  readonly mode: "adaptive" | "budget";
  /** Supported efforts, lowest first. */
  readonly efforts: Efforts;
  /**
   * How to avoid thinking. `default`: thinking is off unless requested; `disabled`: the request must disable thinking;
   * `low`: thinking can only be limited to low effort.
   */
  readonly avoidanceMethod: "default" | "disabled" | "low";
  /** Whether the provider rejects a request with thoughts if the text before the thoughts has changed. */
  readonly bindsThoughts: boolean;
}

const MODEL_ID_PATTERN = /claude-(?:(opus|sonnet|haiku|fable|mythos)-)?(\d+)(?:[.-](\d{1,2}))?(?!\d)/i;

/** How a Claude model thinks, by its id. Undefined for other models and for Claude models that do not think. */
export function getClaudeThinking(id: string): ClaudeThinking | undefined {
  if (/claude-mythos-preview/i.test(id)) return createAdaptiveThinking("low", false);
  const idMatch = MODEL_ID_PATTERN.exec(id);
  if (idMatch === null) return undefined;
  // 406 is version 4.6.
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
    ...createAdaptiveThinking(avoidanceMethod, hasXhighEffort),
    bindsThoughts: version >= (isFableOrMythos ? 501 : 505),
  };
}

function createAdaptiveThinking(
  avoidanceMethod: ClaudeThinking["avoidanceMethod"],
  hasXhighEffort: boolean,
): ClaudeThinking {
  const efforts: Efforts = ["low", "medium", "high", ...(hasXhighEffort ? ["xhigh" as const] : []), "max"];
  return { mode: "adaptive", efforts, avoidanceMethod, bindsThoughts: false };
}
