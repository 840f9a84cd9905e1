import type { ApiRun } from "gantry/client";

/** Number of times that a prompt with an idempotency key is sent until a server answers. */
export const MAX_ATTEMPTS = 6;

/** A prompt or a steering message, and the answers to its request. */
export interface SentText {
  text: string;
  hasKey: boolean;
  /** Whether the text waits in a queue or for a model call, where a cancel can drop it. */
  canBeDropped: boolean;
  /** Ids of the runs that servers have named. Empty: no server has accepted the text. */
  runIds: Set<string>;
}

/**
 * Throws if a text is stored twice, or if an accepted text or its run is lost. `received`: contents of the messages that
 * each watcher has received, or that are stored, by id. `isComplete`: whether the watchers have received all messages.
 */
export function checkTexts(
  texts: readonly SentText[],
  received: readonly ReadonlyMap<string, unknown>[],
  runs: readonly ApiRun[],
  isComplete: boolean,
): void {
  const contents = [...new Map(received.flatMap((messages) => [...messages])).values()];
  for (const { text, hasKey, canBeDropped, runIds } of texts) {
    const count = contents.filter((content) => content === text).length;
    const states = [...runIds].map((id) => runs.find((run) => run.id === id)?.state);
    const summary = `${text.slice(0, 40)}: stored ${count} times, runs ${[...runIds].join()} ${states.join()}`;
    // A run that cannot continue in place starts again, with its own prompt.
    if (count > (hasKey ? MAX_ATTEMPTS : 1)) throw new Error(summary);
    if (isComplete && states.includes(undefined)) throw new Error(`lost run, ${summary}`);
    const mustBeStored = canBeDropped ? isFinished(runIds, runs) : states.length > 0;
    if (isComplete && mustBeStored && count === 0) throw new Error(`lost text, ${summary}`);
  }
}

/** Whether one of the runs has finished, and no later run was cancelled that may have had its unread texts. */
function isFinished(runIds: ReadonlySet<string>, runs: readonly ApiRun[]): boolean {
  const finishedRun = runs.find(({ id, state }) => runIds.has(id) && state === "finished");
  return (
    finishedRun !== undefined &&
    !runs.some(
      ({ state, error, started_at: startedAt }) =>
        state === "cancelled" && error?.code === "run_cancelled" && startedAt >= finishedRun.started_at,
    )
  );
}

/** Describes a run that was interrupted and continued, although no request with its key can have continued it. */
export function describeResumedRun(resumedIds: ReadonlySet<string>, texts: readonly SentText[]): string {
  const keyedTexts = texts.filter(({ hasKey }) => hasKey);
  // The run of a request without an answer is unknown.
  if (keyedTexts.some(({ runIds }) => runIds.size === 0)) return "";
  const id = [...resumedIds].find((resumedId) => !keyedTexts.some(({ runIds }) => runIds.has(resumedId)));
  return id === undefined ? "" : `has the run ${id} as interrupted, which continues`;
}
