import { useSignal, useSignalEffect } from "@preact/signals";
import type { Session } from "gantry/client";
import type { OpenSession } from "../state/open-session.js";
import { hashOf } from "../state/router.js";

/** The way to the sessions of the helpers that a call asked for. They are looked for when the row is opened, and when the call ends. */
export function HelperLinks({ session, callId }: { session: OpenSession; callId: string }) {
  const helpers = useSignal<readonly Session[]>([]);
  useSignalEffect(() => {
    // The first line that it shows tells that it is there.
    void session.progress(callId).value;
    void session.result(callId).value;
    if (helpers.peek().length === 0) void session.helpersOf(callId).then((found) => (helpers.value = found));
  });
  if (helpers.value.length === 0) return null;
  return (
    <p class="call-helpers">
      {helpers.value.map(({ id, title }) => (
        <a key={id} href={hashOf({ name: "session", id })}>
          Open the helper: {title}
        </a>
      ))}
    </p>
  );
}
