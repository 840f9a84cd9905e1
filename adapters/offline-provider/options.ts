import { homedir } from "node:os";
import path from "node:path";
import { option } from "gantry/plugin";
import type { LocalServer } from "./local-servers.js";

export const offlineOptions = option.section({
  provider: option.text('`"offline"`.'),
  name: option.text("Ignored by this provider."),
  driver: option.text("Ignored by this provider."),
  hints: option.list(option.text("A hint."), "Ways to attach a model that its answers mention.", {
    default: [],
  }),
  detect: option.flag("Whether to look for Ollama and LM Studio on this machine.", { default: true }),
});

export interface OfflineOptions {
  /** Ways to attach a model that answers mention, such as `Ollama (llama3.2)`. Default none. */
  hints?: readonly string[] | undefined;
  /** Local servers to search for. Default Ollama and LM Studio on their usual ports. */
  servers?: readonly LocalServer[] | undefined;
  /** Path of the config file as shown to the user. Default `~/.gantry/config.json`. */
  configFile?: string | undefined;
}

/** Replaces the user's home folder with `~`. Returns other paths unchanged. */
export function abbreviateHome(file: string): string {
  let home: string;
  try {
    home = homedir();
  } catch {
    // The user has no home folder.
    return file;
  }
  const relativePath = path.relative(home, file);
  return relativePath.startsWith("..") || path.isAbsolute(relativePath)
    ? file
    : `~/${relativePath.split(path.sep).join("/")}`;
}
