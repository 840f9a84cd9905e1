import { environmentSecrets } from "./secret-detection.js";

/**
 * Secrets in the environment variables of this process. Read at each call, because an embedding program may set
 * variables later.
 */
export function processSecrets(): string[] {
  return environmentSecrets(process.env);
}
