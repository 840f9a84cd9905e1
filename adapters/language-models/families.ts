import type { Model } from "gantry/plugin";
import { removeUndefined } from "./remove-undefined.js";

/** Creates a pattern for ids with a family at the start or after `/`, `.` or `:`, like `openai/gpt-5`. */
const createFamilyPattern = (pattern: string): RegExp => new RegExp(`(^|[/.:])(${pattern})`, "i");

const REASONING_FAMILY_PATTERN = createFamilyPattern(
  [
    "o[134](-|$)",
    "gpt-[5-9](?!.*chat)",
    "gpt-oss",
    "codex",
    "claude-(3-7|3\\.7|(opus|sonnet|haiku|fable|mythos)-[4-9]|[4-9])",
    "gemini-(2\\.5|[3-9])",
    "deepseek-(r\\d|reasoner|v3\\.[1-9]|v[4-9])",
    "grok-(3-mini|[4-9])",
    // K2 does not reason, its successors do.
    "kimi-k(2([.p][5-9]|.*thinking)|[3-9])",
    "glm-(4[.p][5-9]|[5-9])",
    "magistral",
    "qwen3(?!-(coder|vl))",
    "minimax-m\\d",
  ].join("|"),
);
const VISION_FAMILY_PATTERN = createFamilyPattern(
  "o[134](-|$)(?!.*mini)|gpt-(4o|4\\.1|4-turbo|[5-9])(?!.*(audio|realtime|search))|claude-|gemini-|pixtral|llama-4|gemma-?3|llava|qwen[\\d.]*-vl|grok-[4-9]",
);

/** Defaults of a model's family, for fields that neither the list nor the configuration has. */
export function familyDefaultsOf(id: string): Pick<Model, "reasoning" | "input"> {
  const input: Model["input"] = /claude-|gemini-/i.test(id) ? ["text", "image", "pdf"] : ["text", "image"];
  return removeUndefined({
    reasoning: REASONING_FAMILY_PATTERN.test(id) || undefined,
    input: VISION_FAMILY_PATTERN.test(id) ? input : undefined,
  });
}
