import { useSignal, useSignalEffect, type ReadonlySignal } from "@preact/signals";
import type { ApiRun } from "gantry/client";
import { useConsole } from "./state/context.js";
import type { WatchedSession } from "./state/watched-session.js";

/** Queued prompts of a session, from any client. Loads the list again when the session's run or `sentCount` changes. */
export function QueuedRuns({ session, sentCount }: { session: WatchedSession; sentCount: ReadonlySignal<number> }) {
  const store = useConsole();
  const queuedRuns = useSignal<readonly ApiRun[]>([]);
  const reloadCount = useSignal(0);
  useSignalEffect(() => {
    void [sentCount.value, reloadCount.value, session.run.value?.id, session.run.value?.state];
    if (!session.isBusy.value) {
      queuedRuns.value = [];
      return undefined;
    }
    let isDisposed = false;
    store.client.runs.list({ state: "queued", sessionId: session.id }).then(
      (runs) => {
        if (!isDisposed) queuedRuns.value = runs;
      },
      // The next change loads the list again.
      () => undefined,
    );
    return () => {
      isDisposed = true;
    };
  });
  const count = queuedRuns.value.length;
  if (count === 0) return null;
  const removeNewest = async () => {
    const newestRun = queuedRuns.value[0];
    if (!newestRun) return;
    try {
      await store.client.runs.cancel(newestRun.id);
    } catch (error) {
      store.reportError(error);
    }
    reloadCount.value++;
  };
  return (
    <p class="composer-queued">
      <span class="dot waiting" />
      {count === 1 ? "1 prompt queued" : `${count} prompts queued`}
      <button type="button" class="button quiet" onClick={() => void removeNewest()}>
        {count === 1 ? "Remove it" : "Remove the last one"}
      </button>
    </p>
  );
}
