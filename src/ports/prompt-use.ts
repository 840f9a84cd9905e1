/** Use of an agent's own prompt: added to the built-in instructions, or instead of them. */
export type PromptUse = "extend" | "replace";

export const PROMPT_USES: readonly PromptUse[] = ["extend", "replace"];
