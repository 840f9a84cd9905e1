import { useSignal, useSignalEffect } from "@preact/signals";
import type { ApiSession } from "gantry/client";
import type { WatchedSession } from "../state/open-session.js";
import { hashOf } from "../state/router.js";

/**
 * Links to the sessions of the subagents that a call started. They are loaded when the row is opened, on its first
 * output and when the call ends.
 */
export function SubagentLinks({ session, callId }: { session: WatchedSession; callId: string }) {
  const helpers = useSignal<readonly ApiSession[]>([]);
  useSignalEffect(() => {
    // The call's output appears once the subagent exists: load again then.
    void session.progress(callId).value;
    void session.result(callId).value;
    if (helpers.peek().length === 0) void session.subagentsOf(callId).then((sessions) => (helpers.value = sessions));
  });
  if (helpers.value.length === 0) return null;
  return (
    <p class="call-helpers">
      {helpers.value.map(({ id, title }) => (
        <a key={id} href={hashOf({ name: "session", id })}>
          Open the subagent: {title}
        </a>
      ))}
    </p>
  );
}
