/** What an agent's own words are to a prompt: more of it, or in place of how an agent works. */
export type PromptUse = "extend" | "replace";

/** Every use that there is. */
export const PROMPT_USES: readonly PromptUse[] = ["extend", "replace"];
