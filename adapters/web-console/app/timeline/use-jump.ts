import { useSignalEffect } from "@preact/signals";
import type { WatchedSession } from "../state/watched-session.js";
import type { ScrollerHandle } from "./scroller.js";

/** Scrolls the timeline to each message that is requested. */
export function useJump(session: WatchedSession, handle: { readonly current: ScrollerHandle | undefined }): void {
  useSignalEffect(() => {
    const request = session.jump.request.value;
    if (!request || !session.isLoaded.value) return;
    if (request.seq === Infinity) handle.current?.scrollToEnd();
    else
      void session.jump.find(request).then((key) => {
        if (key !== undefined) handle.current?.scrollToRow(key);
      });
  });
}
