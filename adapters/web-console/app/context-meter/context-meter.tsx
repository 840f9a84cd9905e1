import { formatTokens } from "../parts/format.js";
import { useConsole } from "../state/context.js";
import type { WatchedSession } from "../state/watched-session.js";
import { toPercent, useSessionContext } from "./session-context.js";

/** Circumference of the ring in units of its SVG. */
const RING_LENGTH = 50;
const RING_RADIUS = RING_LENGTH / (2 * Math.PI);

/** Button that shows the used share of the context window, and opens the breakdown. */
export function ContextMeter({ session }: { session: WatchedSession }) {
  const store = useConsole();
  const { context } = useSessionContext(session).value;
  if (!context) return null;
  const percent = toPercent(context);
  const isOpen = store.openPanel.value === "conversation";
  const isNearLimit = context.used > 0.8 * (context.compaction_at ?? context.window);
  const label = `Context: ${percent} % of ${formatTokens(context.window)} tokens`;
  return (
    <button
      type="button"
      class={`icon-button context-meter ${isNearLimit ? "near" : ""}`}
      aria-label={label}
      title={label}
      aria-pressed={isOpen}
      onClick={() => (store.openPanel.value = isOpen ? "" : "conversation")}
    >
      <svg class="icon" viewBox="0 0 20 20" fill="none" stroke-width="3" aria-hidden="true">
        <circle class="context-ring" cx="10" cy="10" r={RING_RADIUS} />
        <circle
          class="context-used"
          cx="10"
          cy="10"
          r={RING_RADIUS}
          stroke-dasharray={`${(percent * RING_LENGTH) / 100} ${RING_LENGTH}`}
          transform="rotate(-90 10 10)"
        />
      </svg>
    </button>
  );
}
