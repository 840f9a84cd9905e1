import type { About } from "../about.js";

export const SHELLS = ["bash", "zsh", "fish"] as const;

export const completion = {
  name: "completion",
  summary: "print what completes commands and flags in a shell",
  usage: ["bash|zsh|fish"],
  flags: {},
  words: SHELLS,
  details: `bash: eval "$(gantry completion bash)", in ~/.bashrc
zsh:  eval "$(gantry completion zsh)", in ~/.zshrc behind compinit
fish: gantry completion fish > ~/.config/fish/completions/gantry.fish`,
} as const satisfies About;
