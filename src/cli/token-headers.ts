import { readFileSync } from "node:fs";
import { join } from "node:path";
import { TOKEN_FILE_NAME } from "../http/person-token.js";
import { isLoopback } from "../http/web-safety.js";
import { getHomeFolder } from "../serve/config.js";

/**
 * Returns the `Authorization` header with the token of gantry's home folder, for a server on this machine. Returns no
 * header for other servers, and if no server has created the token yet.
 */
export function readTokenHeaders({ hostname }: URL): Record<string, string> {
  if (!isLoopback(hostname)) return {};
  try {
    return { Authorization: `Bearer ${readFileSync(join(getHomeFolder(), TOKEN_FILE_NAME), "utf8").trim()}` };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return {};
    throw error;
  }
}
