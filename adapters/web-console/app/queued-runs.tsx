import { useSignal, useSignalEffect, type ReadonlySignal } from "@preact/signals";
import type { ApiRun } from "gantry/client";
import { useConsole } from "./state/context.js";
import type { WatchedSession } from "./state/open-session.js";

/**
 * Queued prompts of a session, from any client. The list is loaded again when the session's run changes, or `sent`
 * changes.
 */
export function QueuedRuns({ session, sent }: { session: WatchedSession; sent: ReadonlySignal<number> }) {
  const app = useConsole();
  const waiting = useSignal<readonly ApiRun[]>([]);
  const reloadCount = useSignal(0);
  useSignalEffect(() => {
    void [sent.value, reloadCount.value, session.run.value?.id, session.run.value?.state];
    if (!session.busy.value) {
      waiting.value = [];
      return undefined;
    }
    let isOver = false;
    app.client.runs.list({ state: "queued", sessionId: session.id }).then(
      (runs) => {
        if (!isOver) waiting.value = runs;
      },
      // The next change loads the list again.
      () => undefined,
    );
    return () => {
      isOver = true;
    };
  });
  const count = waiting.value.length;
  if (count === 0) return null;
  const takeOut = async () => {
    const newest = waiting.value[0];
    if (!newest) return;
    try {
      await app.client.runs.cancel(newest.id);
    } catch (error) {
      app.fail(error);
    }
    reloadCount.value++;
  };
  return (
    <p class="composer-queued">
      <span class="dot waiting" />
      {count === 1 ? "1 prompt queued" : `${count} prompts queued`}
      <button type="button" class="button quiet" onClick={() => void takeOut()}>
        {count === 1 ? "Remove it" : "Remove the last one"}
      </button>
    </p>
  );
}
