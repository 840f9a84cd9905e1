/** What a skill is told in. */
export const SKILL_FILE = "SKILL.md";
