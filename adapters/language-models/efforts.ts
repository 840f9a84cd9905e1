import type { ReasoningEffort } from "gantry";
import type { Model } from "gantry/plugin";
import type { Settings } from "./options.js";

/** An effort other than the model's default. */
export type EffortLevel = Exclude<ReasoningEffort, "">;

/** Efforts that nearly every model with efforts supports. */
export const COMMON_EFFORTS: readonly EffortLevel[] = ["low", "medium", "high"];
/** Efforts that a router accepts for every model. */
const ROUTER_EFFORTS: readonly EffortLevel[] = ["minimal", "low", "medium", "high", "xhigh"];
/** Models whose thinking can only be switched on or off. */
const ON_OFF_EFFORTS: readonly EffortLevel[] = ["minimal", "high"];

/** Efforts by model id, in lower case and without the names of its hosts. The first match wins. */
const FAMILY_EFFORTS: readonly (readonly [RegExp, readonly EffortLevel[]])[] = [
  [/^gpt-5-pro/, ["high"]],
  [/^gpt-5-codex/, COMMON_EFFORTS],
  [/^gpt-5(-(mini|nano))?(-\d|$)/, ["minimal", "low", "medium", "high"]],
  [/^gpt-5\.1-codex-max/, ["low", "medium", "high", "xhigh"]],
  [/^gpt-5\.1(?!\d)/, COMMON_EFFORTS],
  [/^gpt-5\.[2-5]-pro/, ["medium", "high", "xhigh"]],
  [/^gpt-5\.[2-5](?!\d)/, ["low", "medium", "high", "xhigh"]],
  [/^gpt-(5\.([6-9]|\d\d)|[6-9]|\d\d)/, ["low", "medium", "high", "xhigh", "max"]],
  [/^(o\d(-|$)|codex-|gpt-oss)/, COMMON_EFFORTS],
  [/^gemini-2\.5/, ["minimal", "low", "medium", "high"]],
  [/^gemini-3-pro/, ["low", "high"]],
  [/^gemini-(3|3\.[1-6])-flash/, ["minimal", "low", "medium", "high"]],
  [/^gemini-\d.*flash-lite/, ["minimal", "low", "medium", "high"]],
  [/^gemini-/, COMMON_EFFORTS],
  [/^grok-3-mini/, ["low", "high"]],
  [/^grok-(4\.([3-9]|1\d)(?!\d)|[5-9]|\d\d)/, COMMON_EFFORTS],
  [/^grok-/, []],
];

/**
 * Efforts by model id for servers whose requests have a separate thinking switch (`thinking`). The first match wins.
 */
const SWITCHED_FAMILY_EFFORTS: readonly (readonly [RegExp, readonly EffortLevel[]])[] = [
  [/^deepseek-v([4-9]|\d\d)/, ["minimal", "low", "high", "max"]],
  [/^kimi-k([3-9]|\d\d)/, ["low", "high", "max"]],
  [/^kimi-k2(\.[7-9]|.*thinking)/, []],
  [/^(deepseek-|kimi-|glm-)/, ON_OFF_EFFORTS],
];

/** The efforts that a model supports: empty if it accepts no effort, undefined if the efforts are unknown. */
export function effortsOf(
  { id }: Pick<Model, "id">,
  { quirks }: Pick<Settings, "quirks">,
): readonly EffortLevel[] | undefined {
  if (quirks.effort === "none") return [];
  const name = removeHostNames(id);
  const claudeEfforts = getClaudeThinking(name)?.efforts;
  if (claudeEfforts !== undefined) return claudeEfforts;
  const families = quirks.effort === "thinking" ? [...SWITCHED_FAMILY_EFFORTS, ...FAMILY_EFFORTS] : FAMILY_EFFORTS;
  const familyEfforts = families.find(([pattern]) => pattern.test(name))?.[1];
  return (
    familyEfforts ??
    (quirks.effort === "reasoning" ? ROUTER_EFFORTS : quirks.effort === "thinking" ? ON_OFF_EFFORTS : undefined)
  );
}

/** Whether a model accepts an effort together with the thinking switch, instead of the switch, or not at all. */
export function effortUseOf(id: string): "with-switch" | "without-switch" | "none" {
  const name = removeHostNames(id);
  return /^deepseek-v([4-9]|\d\d)/.test(name)
    ? "with-switch"
    : /^kimi-k([3-9]|\d\d)/.test(name)
      ? "without-switch"
      : "none";
}

/** Whether an OpenAI model thinks only with an explicit effort. Such a model works best with an explicit effort. */
export function needsEffortToThink(id: string): boolean {
  return /^gpt-5\.[1-4](-mini|-nano)?(-\d|$)/.test(removeHostNames(id));
}

/** A model id in lower case without the names of its hosts. */
export function removeHostNames(id: string): string {
  return id.slice(id.lastIndexOf("/") + 1).toLowerCase();
}

export interface ClaudeThinking {
  /** `adaptive`: the model decides, limited by the effort. `budget`: the request has a number of tokens. */
  readonly mode: "adaptive" | "budget";
  /** Supported efforts, lowest first. */
  readonly efforts: readonly EffortLevel[];
  /**
   * How to avoid thinking. `default`: thinking is off unless requested; `disabled`: the request must disable thinking;
   * `low`: thinking can only be limited to low effort.
   */
  readonly avoidanceMethod: "default" | "disabled" | "low";
  /** Whether the provider rejects a request with thoughts if the text before the thoughts has changed. */
  readonly bindsThoughts: boolean;
}

const CLAUDE_ID_PATTERN = /claude-(?:(opus|sonnet|haiku|fable|mythos)-)?(\d+)(?:[.-](\d{1,2}))?(?!\d)/i;

/** How a Claude model thinks, by its id. Undefined for other models and for Claude models that do not think. */
export function getClaudeThinking(id: string): ClaudeThinking | undefined {
  if (/claude-mythos-preview/i.test(id)) return createAdaptiveThinking("low", false);
  const idMatch = CLAUDE_ID_PATTERN.exec(id);
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
  const efforts: readonly EffortLevel[] = [
    "low",
    "medium",
    "high",
    ...(hasXhighEffort ? ["xhigh" as const] : []),
    "max",
  ];
  return { mode: "adaptive", efforts, avoidanceMethod, bindsThoughts: false };
}
