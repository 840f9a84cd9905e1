import assert from "node:assert/strict";
import type { Agent, RunRecord } from "gantry";
import { until } from "./lab.js";

/** A cancel waits so long for the end of the run, in ms. */
const CANCEL_MS = 5_000;

/**
 * Cancels a run and resolves with it as it ended. The product gives up waiting after five seconds, which a machine that
 * stalls can use up: then the cancel is repeated. A cancel that returns an open run earlier is a failure.
 */
export async function cancelled(agent: Agent, id: string): Promise<RunRecord> {
  let run!: RunRecord;
  await until(async () => {
    const since = Date.now();
    run = await agent.runs.cancel(id);
    const isOpen = ["queued", "running", "waiting"].includes(run.state);
    if (isOpen) assert.ok(Date.now() - since >= CANCEL_MS - 1, `the cancel did not wait for the end: ${run.state}`);
    return !isOpen;
  });
  return run;
}
