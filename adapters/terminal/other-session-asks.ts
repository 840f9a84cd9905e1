import type { Desk } from "./store.js";
import { writtenLine } from "./text.js";

/** Time between two looks, in ms. The server takes a client for gone 90 s after its last one. */
const LOOK_MS = 10_000;

/**
 * Tells the person of questions of sessions that are not shown, once each, until the signal aborts. Its requests also say
 * that this terminal answers: the questions wait for it.
 */
export function followAsksElsewhere(desk: Desk, signal: AbortSignal): void {
  const known = new Set<string>();
  const look = async () => {
    try {
      const asks = await desk.options.client.asks.list({ answers: true }, { signal });
      for (const { id, session_id: session, title } of asks.reverse()) {
        const { conversation } = desk;
        if (known.has(id) || [conversation.id, conversation.page.state?.session.id].includes(session)) continue;
        known.add(id);
        desk.notice(`Another session asks: ${writtenLine(title)}. /sessions ${session} shows it.`);
      }
    } catch {
      // The status line says when the server is away.
    }
  };
  void look();
  const timer = setInterval(() => void look(), LOOK_MS);
  signal.addEventListener("abort", () => clearInterval(timer), { once: true });
}
