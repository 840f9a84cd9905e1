import { useSignal } from "@preact/signals";
import type { ApiAsk } from "gantry/client";
import { useEffect, useRef } from "preact/hooks";
import { AskCard, focusAsk, useIsRead, type AskAnswer } from "./asks.js";
import { NotificationButton } from "./attention/notification-button.js";
import { escapeExactly } from "./content/escape.js";
import { formatAge, formatQuestionCount } from "./parts/format.js";
import { Icon } from "./parts/icon.js";
import { useConsole } from "./state/context.js";
import { toFragment } from "./state/router.js";

/** Open questions of all sessions, newest first, with the controls that answer them. */
export function Questions() {
  const store = useConsole();
  const asks = store.openAsks.value;
  const titles = useSessionTitles(asks);
  const head = useRef<HTMLParagraphElement>(null);
  const isRead = useIsRead(asks.map(({ id }) => id).join());
  useEffect(() => {
    // If the focused question disappeared with its answer, the next one gets the focus, or the line without questions.
    const isFree = document.activeElement === document.body || document.activeElement === head.current;
    if (isFree && !focusAsk()) head.current?.focus();
  }, [asks]);
  const answer = async (ask: ApiAsk, reply: AskAnswer) => {
    try {
      await store.client.asks.answer(ask.id, reply);
    } catch (error) {
      store.reportError(error);
    }
  };
  return (
    <div class="questions">
      <div class="questions-column">
        <header class="questions-head">
          <p ref={head} tabIndex={-1} role="status" class="questions-sum">
            {asks.length === 0 ? "No open questions." : formatQuestionCount(asks.length)}
          </p>
          <NotificationButton />
        </header>
        {asks.length === 0 && (
          <p class="questions-note">
            Runs of all sessions ask here for permissions and choices. They wait while a page of the console is open.
          </p>
        )}
        {asks.map((ask) => (
          <section key={ask.id} class="questions-entry" aria-label={`Question of ${titles.get(ask.session_id) ?? "…"}`}>
            <p class="questions-facts">
              <a href={toFragment({ name: "session", id: ask.session_id })}>
                <Icon name="chevron-right" />
                <bdi class="clipped">{titles.get(ask.session_id) ?? "…"}</bdi>
              </a>
              <span>{[ask.tool, formatAge(ask.created_at)].filter(Boolean).join(" · ")}</span>
            </p>
            <Locations ask={ask} />
            <AskCard ask={ask} isRead={isRead} answer={(reply) => answer(ask, reply)} />
          </section>
        ))}
      </div>
    </div>
  );
}

/** Files of the call that its diff does not name. */
function Locations({ ask: { locations, diff } }: { ask: ApiAsk }) {
  const otherLocations = locations.filter(({ path }) => diff.every((change) => change.path !== path));
  if (otherLocations.length === 0) return null;
  return (
    <ul class="questions-locations" aria-label="Files">
      {otherLocations.map(({ path, line }) => (
        <li key={`${path}:${line ?? ""}`}>
          <code>
            {escapeExactly(path)}
            {line !== undefined && `:${line}`}
          </code>
        </li>
      ))}
    </ul>
  );
}

/** Titles of the sessions of questions, by session id. */
function useSessionTitles(asks: readonly ApiAsk[]): ReadonlyMap<string, string> {
  const store = useConsole();
  const loadedTitles = useSignal<ReadonlyMap<string, string>>(new Map());
  const listedTitles = store.sessionBrowser.sessions.value.map(({ id, title }) => [id, title] as const);
  const titles = new Map([...loadedTitles.value, ...listedTitles]);
  const missingIds = [...new Set(asks.map(({ session_id }) => session_id))].filter((id) => !titles.has(id));
  useEffect(() => {
    const controller = new AbortController();
    const loadTitle = async (id: string) => {
      const session = await store.client.sessions.get(id, { signal: controller.signal }).catch(() => undefined);
      if (!controller.signal.aborted)
        loadedTitles.value = new Map([...loadedTitles.peek(), [id, session?.title ?? "Session"]]);
    };
    for (const id of missingIds) void loadTitle(id);
    return () => controller.abort();
  }, [missingIds.join()]);
  return titles;
}
