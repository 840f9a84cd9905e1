import type { CommandDescription } from "../command-description.js";

export const SHELLS = ["bash", "zsh", "fish"] as const;

export const completion = {
  name: "completion",
  summary: "print a shell completion script",
  usage: ["bash|zsh|fish"],
  flags: {},
  firstArguments: SHELLS,
  details: `bash: eval "$(gantry completion bash)", in ~/.bashrc
zsh:  eval "$(gantry completion zsh)", in ~/.zshrc after compinit
fish: gantry completion fish > ~/.config/fish/completions/gantry.fish`,
} as const satisfies CommandDescription;
