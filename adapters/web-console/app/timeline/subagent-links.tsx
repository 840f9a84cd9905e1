import { useSignal, useSignalEffect } from "@preact/signals";
import type { ApiSession } from "gantry/client";
import type { WatchedSession } from "../state/watched-session.js";
import { toFragment } from "../state/router.js";

/**
 * Links to the sessions of the subagents that a call started. Loads the sessions when the row is opened, and at new
 * output and the end of the call until sessions are found.
 */
export function SubagentLinks({ session, callId }: { session: WatchedSession; callId: string }) {
  const subagentSessions = useSignal<readonly ApiSession[]>([]);
  useSignalEffect(() => {
    // The output of the call starts after the subagent exists: load the sessions again.
    void session.getOutputSignal(callId).value;
    void session.getResultSignal(callId).value;
    if (subagentSessions.peek().length === 0)
      void session.loadSubagents(callId).then((sessions) => (subagentSessions.value = sessions));
  });
  if (subagentSessions.value.length === 0) return null;
  return (
    <p class="call-subagents">
      {subagentSessions.value.map(({ id, title }) => (
        <a key={id} href={toFragment({ name: "session", id })}>
          Open the subagent: {title}
        </a>
      ))}
    </p>
  );
}
