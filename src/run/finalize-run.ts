import type { Instruction } from "../ports/run.js";
import type { SessionChange } from "../ports/session-change.js";
import type { RunContext } from "./context/run-context.js";

/** Further effects of the change that ends a run. */
export type FinalizeOptions = Pick<SessionChange, "consumedInstructions" | "release">;

/**
 * Ends a run in the store. The same change releases the run's lease and returns the instructions that arrived too
 * late. Rejects like `write`; the caller must then release the lease.
 */
export async function finalizeRun(
  { lease, inbox }: RunContext,
  write: (options: FinalizeOptions) => Promise<Instruction[]>,
): Promise<void> {
  const lateInstructions = await lease.releaseWith(() => {
    const cancelIds = inbox.cancelIds;
    return write({ release: true, ...(cancelIds.length > 0 && { consumedInstructions: cancelIds }) });
  });
  inbox.setRemainingInstructions(lateInstructions);
}
