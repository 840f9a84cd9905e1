import { useSignal, useSignalEffect, type ReadonlySignal } from "@preact/signals";
import type { ApiRun } from "gantry/client";
import { escapeInvisible } from "./content/escape.js";
import { announce } from "./state/announce.js";
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
        // The list has the newest run first.
        if (!isDisposed) queuedRuns.value = runs.reverse();
      },
      // The next change loads the list again.
      () => undefined,
    );
    return () => {
      isDisposed = true;
    };
  });
  if (queuedRuns.value.length === 0) return null;
  const withdraw = async ({ id }: ApiRun) => {
    const prompt = session.outbox.findPrompt(id);
    try {
      if (prompt) await session.outbox.withdraw(prompt);
      else await store.client.runs.cancel(id);
      announce(prompt ? "The prompt is in the prompt field again." : "The prompt was removed from the queue.");
    } catch (error) {
      store.reportError(error);
    }
    reloadCount.value++;
    document.getElementById("prompt")?.focus();
  };
  return (
    <ul class="composer-pending" aria-label="Queued prompts">
      {queuedRuns.value.map((run) => {
        const prompt = session.outbox.findPrompt(run.id);
        const text = prompt && escapeInvisible(prompt.text);
        return (
          <li key={run.id} class="composer-queued">
            <span class="dot waiting" />
            <span class="clipped" title={text}>
              {text === undefined ? "Queued by another client" : `Queued: ${text}`}
            </span>
            <button
              type="button"
              class="button quiet"
              title={prompt ? "Remove the prompt from the queue, and edit it" : "Remove the prompt from the queue"}
              onClick={() => void withdraw(run)}
            >
              {prompt ? "Edit" : "Remove"}
            </button>
          </li>
        );
      })}
    </ul>
  );
}
