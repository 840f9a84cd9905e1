import { redact } from "../base/redact.js";
import type { RunRecord } from "../ports/run.js";
import type { ModelCallHooks } from "./model-call.js";

/** Returns hooks that store the start and the end of a wait, so that readers of the run see why the run is idle. */
export function createRetryHooks(
  writeRetry: (retry: RunRecord["retry"]) => Promise<void>,
): Required<Pick<ModelCallHooks, "onRetry" | "onRetryStart">> {
  return {
    onRetry: (attempt, delayMs, error) => {
      const nextAttemptAt = new Date(Date.now() + delayMs).toISOString();
      return writeRetry({ attempt, nextAttemptAt, reason: redact(error.message) });
    },
    onRetryStart: () => writeRetry(null),
  };
}
