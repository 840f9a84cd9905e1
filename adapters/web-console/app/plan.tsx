import { useSignal } from "@preact/signals";
import "./plan.css";
import { Icon } from "./parts/icon.js";
import type { WatchedSession } from "./state/watched-session.js";

const STATUS_LABELS = { pending: "to do", in_progress: "in progress", completed: "done" } as const;

/** The todo list of the session's runs. Renders nothing if the list is empty. */
export function Plan({ session }: { session: WatchedSession }) {
  /** The user's choice; undefined until the user opens or closes the list. */
  const isOpen = useSignal<boolean | undefined>(undefined);
  const entries = session.plan.value;
  if (entries.length === 0) return null;
  const doneCount = entries.filter(({ status }) => status === "completed").length;
  // Closed during a question, which needs the space. By default also closed when all entries are done.
  const isShown = session.asks.value.length === 0 && (isOpen.value ?? doneCount < entries.length);
  const currentEntry = entries.find(({ status }) => status === "in_progress");
  return (
    <section class="plan" aria-label="Plan">
      <button type="button" class="plan-head" aria-expanded={isShown} onClick={() => (isOpen.value = !isShown)}>
        <Icon name="list" />
        <span class="plan-title">Plan</span>
        <span class="plan-count">
          {doneCount} of {entries.length} done
        </span>
        {!isShown && currentEntry && <span class="plan-current clipped">{currentEntry.content}</span>}
        <Icon name={isShown ? "chevron-down" : "chevron-right"} />
      </button>
      <progress class="plan-progress" max={entries.length} value={doneCount} aria-label="Steps done" />
      {isShown && (
        <ol class="plan-entries">
          {entries.map(({ content, status }) => (
            <li class={`plan-entry ${status}`} aria-current={status === "in_progress" ? "step" : undefined}>
              <span class="plan-mark">
                {status === "completed" ? (
                  <Icon name="check" />
                ) : status === "in_progress" ? (
                  <span class="dot busy" />
                ) : null}
              </span>
              <span class="plan-text">
                {content}
                <span class="visually-hidden"> ({STATUS_LABELS[status]})</span>
              </span>
            </li>
          ))}
        </ol>
      )}
    </section>
  );
}
