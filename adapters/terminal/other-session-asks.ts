import type { TerminalStore } from "./store.js";
import { writtenLine } from "./text.js";

/** Polling interval, in ms. The server considers a client gone 90 s after its last request. */
const LOOK_MS = 10_000;

/**
 * Notifies the user of questions in other sessions, once each, until the signal aborts. The requests also declare that
 * this terminal can answer, so that the questions wait for it.
 */
export function followAsksElsewhere(desk: TerminalStore, signal: AbortSignal): void {
  const known = new Set<string>();
  const look = async () => {
    try {
      const asks = await desk.options.client.asks.list({ canAnswer: true }, { signal });
      for (const { id, session_id: session, title } of asks.reverse()) {
        const { conversation } = desk;
        if (known.has(id) || [conversation.id, conversation.page.state?.session.id].includes(session)) continue;
        known.add(id);
        desk.notice(`Another session asks: ${writtenLine(title)}. /sessions ${session} shows it.`);
      }
    } catch {
      // The status line reports a lost connection.
    }
  };
  void look();
  const timer = setInterval(() => void look(), LOOK_MS);
  signal.addEventListener("abort", () => clearInterval(timer), { once: true });
}
