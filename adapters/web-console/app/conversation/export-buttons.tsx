import { useConsole } from "../state/context.js";
import type { WatchedSession } from "../state/watched-session.js";
import { copyConversation, downloadConversation } from "./conversation-export.js";

/** Buttons that copy and download the whole conversation. */
export function ExportButtons({ session }: { session: WatchedSession }) {
  const store = useConsole();
  return (
    <section class="context" aria-label="Copy and export">
      <h3>Copy and export</h3>
      <button type="button" class="button" onClick={() => void copyConversation(store, session)}>
        Copy as Markdown
      </button>
      <button type="button" class="button" onClick={() => void downloadConversation(store, session, "markdown")}>
        Download as Markdown
      </button>
      <button type="button" class="button" onClick={() => void downloadConversation(store, session, "json")}>
        Download as JSON
      </button>
    </section>
  );
}
