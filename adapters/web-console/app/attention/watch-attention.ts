import { effect } from "@preact/signals";
import type { Console } from "../state/console.js";
import { showFavicon } from "./favicon.js";
import { notificationChoice } from "./notification-choice.js";

/** Shows the number of open questions in the page's icon, and starts desktop notifications if the user wants them. */
export function watchAttention(store: Console): void {
  effect(() => showFavicon(store.openAsks.value.length));
  effect(() => {
    if (notificationChoice.value !== "on") return undefined;
    let stop: (() => void) | undefined;
    let isStopped = false;
    import("../deferred.js").then(
      ({ startDesktopNotifications }) => {
        if (!isStopped) stop = startDesktopNotifications(store);
      },
      () => store.notify("Desktop notifications cannot be loaded. Reload the page.", "error"),
    );
    return () => {
      isStopped = true;
      stop?.();
    };
  });
}
