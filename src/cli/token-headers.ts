import { readFileSync } from "node:fs";
import { join } from "node:path";
import { TOKEN_FILE } from "../http/person-token.js";
import { isLoopback } from "../http/web-safety.js";
import { homeFolder } from "../serve/config.js";

/** `Authorization` with the token of gantry's home, for a server of this machine; nothing before the first server. */
export function tokenHeaders({ hostname }: URL): Record<string, string> {
  if (!isLoopback(hostname)) return {};
  try {
    return { Authorization: `Bearer ${readFileSync(join(homeFolder(), TOKEN_FILE), "utf8").trim()}` };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return {};
    throw error;
  }
}
