import { useComputed, useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { createLazyView } from "../frame/lazy-view.js";
import { Icon } from "../parts/icon.js";
import type { WatchedSession } from "../state/watched-session.js";
import { RowView } from "./row.js";
import { RunEnd } from "./run-end.js";
import { useJump } from "./use-jump.js";
import { Scroller, type ScrollerHandle } from "./scroller.js";
import "./timeline.css";

const CommandRows = createLazyView(async () => (await import("../deferred.js")).CommandRows, "");

/** The messages of a session. The list opens at the last message and loads older messages on scrolling up. */
export function Timeline({ session }: { session: WatchedSession }) {
  const keys = useComputed(() => session.rows.value.map(({ key }) => key));
  const rowsByKey = useComputed(() => new Map(session.rows.value.map((row) => [row.key, row])));
  const isAtEnd = useSignal(true);
  const handle = useRef<ScrollerHandle | undefined>(undefined);
  useJump(session, handle);
  return (
    <div class="timeline">
      <Scroller
        keys={keys.value}
        renderRow={(key) => {
          const row = rowsByKey.value.get(key);
          return row && <RowView row={row} session={session} />;
        }}
        head={<TimelineHead session={session} />}
        foot={
          <>
            <CommandRows session={session} />
            <RunEnd session={session} />
          </>
        }
        onNearFirst={() => void session.loadOlder()}
        onEndChange={(isEndVisible) => (isAtEnd.value = isEndVisible)}
        handle={handle}
        markedKey={session.jump.foundKey.value}
        label="Messages"
      />
      {session.jump.isLoading.value && (
        <p class="timeline-loading" role="status">
          <span class="spinner" /> Loading messages…
        </p>
      )}
      {!isAtEnd.value && (
        <div class="timeline-jumps">
          <button type="button" class="timeline-end" onClick={() => session.jump.toFirst()}>
            <Icon name="send" /> To the first message
          </button>
          <button type="button" class="timeline-end" onClick={() => handle.current?.scrollToEnd()}>
            <Icon name="arrow-down" /> To the end
          </button>
        </div>
      )}
    </div>
  );
}

function TimelineHead({ session }: { session: WatchedSession }) {
  if (!session.isLoaded.value) return <div class="timeline-before">Loading …</div>;
  return <div class="timeline-before">{session.hasOlder.value ? "Loading older messages …" : ""}</div>;
}
