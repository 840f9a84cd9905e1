import { useSignal, useSignalEffect, type ReadonlySignal } from "@preact/signals";
import type { ApiSessionContext } from "gantry/client";
import { toErrorMessage } from "../state/error-message.js";
import { useConsole } from "../state/context.js";
import type { WatchedSession } from "../state/watched-session.js";

/** The measured context of a session. Without `context`, `reason` says why it cannot be measured. */
export interface ContextState {
  context: ApiSessionContext | undefined;
  reason: string;
}

/**
 * Measures the context of the session at first, after each run, and after other changes of its messages or model. A
 * failed request keeps the last measurement.
 */
export function useSessionContext(session: WatchedSession): ReadonlySignal<ContextState> {
  const store = useConsole();
  const state = useSignal<ContextState>({ context: undefined, reason: "" });
  useSignalEffect(() => {
    // During a run, each message would cause a measurement.
    if (session.isBusy.value) {
      if (state.peek().context) return undefined;
    } else void [session.rows.value.at(-1)?.seq, session.info.value?.provider, session.info.value?.model];
    if (!session.isLoaded.value || session.isMissing.value) return undefined;
    const controller = new AbortController();
    store.client.sessions.context(session.id, { signal: controller.signal }).then(
      (context) => (state.value = { context, reason: "" }),
      (error: unknown) => {
        if (!controller.signal.aborted) state.value = { ...state.peek(), reason: toErrorMessage(error) };
      },
    );
    return () => controller.abort();
  });
  return state;
}

/** Share of the window that the next prompt uses, in percent, at most 100. */
export function toPercent({ used, window }: ApiSessionContext): number {
  return window > 0 ? Math.min(100, Math.round((used / window) * 100)) : 100;
}
