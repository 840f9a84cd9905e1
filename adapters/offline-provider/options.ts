import { homedir } from "node:os";
import path from "node:path";
import { option } from "gantry/plugin";
import type { LocalServer } from "./local-servers.js";

export const offlineOptions = option.section({
  provider: option.text('`"offline"`.'),
  name: option.text("Of no use here."),
  driver: option.text("Of no use here."),
  hints: option.list(option.text("A hint."), "Strings that its answers mention among the ways to attach a model.", {
    default: [],
  }),
  detect: option.flag("Whether to look for Ollama and LM Studio on this machine.", { default: true }),
});

export interface OfflineOptions {
  /** Said to the user among the ways to attach a model, for instance `Ollama (llama3.2)`. Default none. */
  hints?: readonly string[] | undefined;
  /** Servers of this host to look for while models are listed. Default Ollama and LM Studio on their usual ports. */
  servers?: readonly LocalServer[] | undefined;
  /** Named to the user as the place to configure a model. Default `~/.gantry/config.json`. */
  configFile?: string | undefined;
}

/** With `~` for the user's own folder, as people write it. */
export function fromHome(file: string): string {
  let home: string;
  try {
    home = homedir();
  } catch {
    // A user that has none.
    return file;
  }
  const relative = path.relative(home, file);
  return relative.startsWith("..") || path.isAbsolute(relative) ? file : `~/${relative.split(path.sep).join("/")}`;
}
