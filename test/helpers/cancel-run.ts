import assert from "node:assert/strict";
import type { Agent, RunRecord } from "gantry";
import { waitUntil } from "./server-runs.js";

/** Time that a cancel waits for the run's end. */
const CANCEL_WAIT_MS = 5_000;

/**
 * Cancels a run and resolves with its final record. The product stops waiting after five seconds, which a stalled
 * machine can exceed; the cancel is then repeated. A cancel that returns an open run earlier is a failure.
 */
export async function cancelAndWait(agent: Agent, id: string): Promise<RunRecord> {
  let run!: RunRecord;
  await waitUntil(async () => {
    const startMs = Date.now();
    run = await agent.runs.cancel(id);
    const isOpen = ["queued", "running", "waiting"].includes(run.state);
    if (isOpen)
      assert.ok(Date.now() - startMs >= CANCEL_WAIT_MS - 1, `the cancel did not wait for the end: ${run.state}`);
    return !isOpen;
  });
  return run;
}
