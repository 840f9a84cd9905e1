import type { CommandDescription } from "../command-description.js";

export const SHELLS = ["bash", "zsh", "fish"] as const;

export const completion = {
  name: "completion",
  summary: "print a shell completion script",
  usage: ["bash|zsh|fish"],
  flags: {},
  firstArguments: SHELLS,
} as const satisfies CommandDescription;
