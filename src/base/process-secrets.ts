import { environmentSecrets } from "./redact.js";

/** Secrets in the variables of this process. Read anew at each call, since an embedding program may set variables later. */
export function processSecrets(): string[] {
  return environmentSecrets(process.env);
}
