/** File name of a skill's instructions. */
export const SKILL_FILE = "SKILL.md";
