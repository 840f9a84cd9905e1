import type { ReasoningEffort } from "gantry";
import type { Model } from "gantry/plugin";
import { claudeThinking } from "./claude.js";
import type { Settings } from "./options.js";

/** An effort that is asked for. */
export type Effort = Exclude<ReasoningEffort, "">;

/** What nearly every model that takes an effort knows. */
export const COMMON: readonly Effort[] = ["low", "medium", "high"];
/** What a router makes the best of, whoever is behind it. */
const ROUTED: readonly Effort[] = ["minimal", "low", "medium", "high", "xhigh"];
/** Of models that can be told to think or not, and no more. */
const ON_OR_OFF: readonly Effort[] = ["minimal", "high"];

/** By what an id begins with, behind the names of those who serve it; the first that fits counts. */
const FAMILIES: readonly (readonly [RegExp, readonly Effort[]])[] = [
  [/^gpt-5-pro/, ["high"]],
  [/^gpt-5-codex/, COMMON],
  [/^gpt-5(-(mini|nano))?(-\d|$)/, ["minimal", "low", "medium", "high"]],
  [/^gpt-5\.1-codex-max/, ["low", "medium", "high", "xhigh"]],
  [/^gpt-5\.1(?!\d)/, COMMON],
  [/^gpt-5\.[2-5]-pro/, ["medium", "high", "xhigh"]],
  [/^gpt-5\.[2-5](?!\d)/, ["low", "medium", "high", "xhigh"]],
  [/^gpt-(5\.([6-9]|\d\d)|[6-9]|\d\d)/, ["low", "medium", "high", "xhigh", "max"]],
  [/^(o\d(-|$)|codex-|gpt-oss)/, COMMON],
  [/^gemini-2\.5/, ["minimal", "low", "medium", "high"]],
  [/^gemini-3-pro/, ["low", "high"]],
  [/^gemini-(3|3\.[1-6])-flash/, ["minimal", "low", "medium", "high"]],
  [/^gemini-\d.*flash-lite/, ["minimal", "low", "medium", "high"]],
  [/^gemini-/, COMMON],
  [/^grok-3-mini/, ["low", "high"]],
  [/^grok-(4\.([3-9]|1\d)(?!\d)|[5-9]|\d\d)/, COMMON],
  [/^grok-/, []],
];

/** Where thinking is a switch of its own (`thinking`), which some of its models have efforts beside. */
const SWITCHED: readonly (readonly [RegExp, readonly Effort[]])[] = [
  [/^deepseek-v([4-9]|\d\d)/, ["minimal", "low", "high", "max"]],
  [/^kimi-k([3-9]|\d\d)/, ["low", "high", "max"]],
  [/^kimi-k2(\.[7-9]|.*thinking)/, []],
  [/^(deepseek-|kimi-|glm-)/, ON_OR_OFF],
];

/** The efforts that a model of these settings takes; undefined where nobody knows. */
export function effortsOf(
  { id }: Pick<Model, "id">,
  { quirks }: Pick<Settings, "quirks">,
): readonly Effort[] | undefined {
  if (quirks.effort === "none") return [];
  const name = ownName(id);
  const claude = claudeThinking(name)?.efforts;
  if (claude !== undefined) return claude;
  const families = quirks.effort === "thinking" ? [...SWITCHED, ...FAMILIES] : FAMILIES;
  const known = families.find(([pattern]) => pattern.test(name))?.[1];
  return known ?? (quirks.effort === "reasoning" ? ROUTED : quirks.effort === "thinking" ? ON_OR_OFF : undefined);
}

/** Whether a model takes a grade beside the switch that turns its thinking on and off, in the switch's stead, or not at all. */
export function gradeOf(id: string): "beside" | "alone" | "none" {
  const name = ownName(id);
  return /^deepseek-v([4-9]|\d\d)/.test(name) ? "beside" : /^kimi-k([3-9]|\d\d)/.test(name) ? "alone" : "none";
}

/** Whether a model of OpenAI's does not think unless it is asked to, though it works best when it does. */
export function thinksWhenAsked(id: string): boolean {
  return /^gpt-5\.[1-4](-mini|-nano)?(-\d|$)/.test(ownName(id));
}

/** An id without the names of those who serve the model. */
export function ownName(id: string): string {
  return id.slice(id.lastIndexOf("/") + 1).toLowerCase();
}
