import { useComputed, useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { Icon } from "../parts/icon.js";
import type { WatchedSession } from "../state/open-session.js";
import { RowView } from "./row.js";
import { RunEnd } from "./run-end.js";
import { Scroller, type ScrollerHandle } from "./scroller.js";
import "./timeline.css";

/** The messages of a session. It opens at the last message and loads older ones on scrolling up. */
export function Timeline({ session }: { session: WatchedSession }) {
  const keys = useComputed(() => session.rows.value.map(({ key }) => key));
  const byKey = useComputed(() => new Map(session.rows.value.map((row) => [row.key, row])));
  const near = useSignal(true);
  const handle = useRef<ScrollerHandle | undefined>(undefined);
  return (
    <div class="timeline">
      <Scroller
        keys={keys.value}
        row={(key) => {
          const row = byKey.value.get(key);
          return row && <RowView row={row} session={session} />;
        }}
        head={<Before session={session} />}
        foot={<RunEnd session={session} />}
        onFirst={() => void session.loadOlder()}
        onEnd={(is) => (near.value = is)}
        handle={handle}
        label="Messages"
      />
      {!near.value && (
        <button type="button" class="timeline-end" onClick={() => handle.current?.toEnd()}>
          <Icon name="arrow-down" /> To the end
        </button>
      )}
    </div>
  );
}

function Before({ session }: { session: WatchedSession }) {
  if (!session.loaded.value) return <div class="timeline-before">Loading …</div>;
  return <div class="timeline-before">{session.hasOlder.value ? "Loading older messages …" : ""}</div>;
}
