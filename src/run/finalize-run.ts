import type { Instruction } from "../ports/run.js";
import type { SessionChange } from "../ports/session-driver.js";
import type { RunContext } from "./context/run-context.js";

/** What the change that ends a run does beside that. */
export type WithEnd = Pick<SessionChange, "followed" | "release">;

/**
 * End a run in the store: the change that says so gives its lease back too, and tells what came too late for it. Rejects
 * as the change; the lease is to be given back by itself then.
 */
export async function lastWrite(
  { lease, inbox }: RunContext,
  write: (withEnd: WithEnd) => Promise<Instruction[]>,
): Promise<void> {
  const left = await lease.backWith(() => {
    const followed = inbox.cancels;
    return write({ release: true, ...(followed.length > 0 && { followed }) });
  });
  inbox.isLeft(left);
}
