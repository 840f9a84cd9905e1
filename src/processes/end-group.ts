import { setTimeout as sleep } from "node:timers/promises";
import { monotonicMs } from "../base/clock.js";
import { hasCode } from "../ports/errors.js";
import type { ProcessGroup } from "./process-group.js";

/** Time in ms between TERM and KILL: the default, and during the shutdown of the server. */
const DEFAULT_GRACE_MS = 2_000;
const SHUTDOWN_GRACE_MS = 1_000;
/** Interval in ms at which remaining processes are checked. */
const POLL_MS = 25;
/** Pauses in ms before processes are ended, so that they can exit without a signal. A sandbox needs about 1 ms. */
const EXIT_PAUSES_MS = [1, 2, 5, 11] as const;

/**
 * Sends TERM to the group, and KILL to processes that remain after the grace period. Returns whether any process was
 * left.
 *
 * @param hasEnded Whether the child itself has ended.
 */
export async function endGroup(
  group: ProcessGroup,
  hasEnded: boolean,
  isSandbox: boolean,
  signal: AbortSignal,
  graceMs = (): number =>
    signal.aborted && hasCode(signal.reason, "shutting_down") ? SHUTDOWN_GRACE_MS : DEFAULT_GRACE_MS,
): Promise<boolean> {
  const sparedPid = isSandbox ? group.pid : undefined;
  // Processes that exit shortly without a signal, such as a pipeline or a sandbox, do not count as left behind.
  for (const pauseMs of EXIT_PAUSES_MS) {
    if (signal.aborted) break;
    if (await isEmpty(group, hasEnded)) return false;
    await sleep(pauseMs);
  }
  let members = await group.listMembers();
  if (members?.length === 0) return false;
  group.sendSignal("SIGTERM", members, sparedPid);
  const startedMs = monotonicMs();
  for (let pauseMs = POLL_MS / 4; monotonicMs() - startedMs < graceMs(); pauseMs = Math.min(pauseMs * 2, 4 * POLL_MS)) {
    await sleep(pauseMs);
    members = await group.listMembers();
    if (members?.length === 0) return true;
  }
  // Up to 8 rounds, because a process can fork between the scan and the signal.
  for (let round = 0; round < 8; round++) {
    group.sendSignal("SIGKILL", members);
    await sleep(POLL_MS);
    members = await group.listMembers();
    if (members?.length === 0) break;
  }
  return true;
}

/** The kernel ends a namespace with its first process. If that process is known, no scan is needed. */
async function isEmpty(group: ProcessGroup, hasEnded: boolean): Promise<boolean> {
  const hasNamespaceEnded = hasEnded ? group.hasNamespaceEnded() : undefined;
  return hasNamespaceEnded ?? (await group.listMembers())?.length === 0;
}
