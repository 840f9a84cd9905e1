import type { TerminalStore } from "./store.js";
import { escapeLine } from "./text.js";

/** Polling interval, in ms. The server considers a client gone 90 s after its last request. */
const POLL_INTERVAL_MS = 10_000;

/**
 * Notifies the user of each question in other sessions once, until the signal aborts. The requests also declare that
 * this terminal can answer, so that the questions wait for an answer.
 */
export function watchOtherSessionAsks(store: TerminalStore, signal: AbortSignal): void {
  const reportedIds = new Set<string>();
  const poll = async () => {
    try {
      const asks = await store.options.client.asks.list({ canAnswer: true }, { signal });
      for (const { id, session_id: sessionId, title } of asks.reverse()) {
        const { conversation } = store;
        if (reportedIds.has(id) || [conversation.id, conversation.mirror.state?.session.id].includes(sessionId))
          continue;
        reportedIds.add(id);
        store.showNotice(`Another session asks: ${escapeLine(title)}. /sessions ${sessionId} shows it.`);
        store.ringBell();
      }
    } catch {
      // The status line reports a lost connection.
    }
  };
  void poll();
  const timer = setInterval(() => void poll(), POLL_INTERVAL_MS);
  signal.addEventListener("abort", () => clearInterval(timer), { once: true });
}
