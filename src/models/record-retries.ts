import { redact } from "../base/redact.js";
import type { RunRecord } from "../ports/run.js";
import type { ModelCallHooks } from "./model-call.js";

/** Hooks that store the wait before a retry and its end, so that readers of the run see why it is idle. */
export function recordRetries(
  write: (retry: RunRecord["retry"]) => Promise<void>,
): Required<Pick<ModelCallHooks, "onRetry" | "onRetryStart">> {
  return {
    onRetry: (attempt, delayMs, error) => {
      const at = new Date(Date.now() + delayMs).toISOString();
      return write({ attempt, nextAttemptAt: at, reason: redact(error.message) });
    },
    onRetryStart: () => write(null),
  };
}
