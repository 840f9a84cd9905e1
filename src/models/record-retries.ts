import { redact } from "../base/redact.js";
import type { RunRecord } from "../ports/run.js";
import type { ModelCallHooks } from "./model-call.js";

/** Writes that a run waits to ask its model again, and that it asks, so that whoever looks at the run sees why nothing comes. */
export function toldWaits(
  write: (retry: RunRecord["retry"]) => Promise<void>,
): Required<Pick<ModelCallHooks, "onRetry" | "onAgain">> {
  return {
    onRetry: (attempt, delayMs, error) => {
      const at = new Date(Date.now() + delayMs).toISOString();
      return write({ attempt, at, reason: redact(error.message) });
    },
    onAgain: () => write(null),
  };
}
