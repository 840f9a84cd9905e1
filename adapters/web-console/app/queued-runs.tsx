import { useSignal, useSignalEffect, type ReadonlySignal } from "@preact/signals";
import type { Run } from "gantry/client";
import { useConsole } from "./state/context.js";
import type { OpenSession } from "./state/open-session.js";

/** Prompts of a session that wait in line, whoever wrote them. Looked for whenever the session's run changes, or one was `sent`. */
export function QueuedRuns({ session, sent }: { session: OpenSession; sent: ReadonlySignal<number> }) {
  const app = useConsole();
  const waiting = useSignal<readonly Run[]>([]);
  const asked = useSignal(0);
  useSignalEffect(() => {
    void [sent.value, asked.value, session.run.value?.id, session.run.value?.state];
    if (!session.busy.value) {
      waiting.value = [];
      return undefined;
    }
    let isOver = false;
    app.client.runs.list({ state: "queued", sessionId: session.id }).then(
      (runs) => {
        if (!isOver) waiting.value = runs;
      },
      // They are looked for again.
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
    asked.value++;
  };
  return (
    <p class="composer-queued">
      <span class="dot waiting" />
      {count === 1 ? "1 prompt waits in line" : `${count} prompts wait in line`}
      <button type="button" class="button quiet" onClick={() => void takeOut()}>
        {count === 1 ? "Take it out" : "Take the last one out"}
      </button>
    </p>
  );
}
