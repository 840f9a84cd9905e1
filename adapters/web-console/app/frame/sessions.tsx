import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { ApiSession } from "gantry/client";
import { IconButton } from "../parts/button.js";
import { formatAge, formatQuestionCount } from "../parts/format.js";
import { Icon } from "../parts/icon.js";
import { useConsole } from "../state/context.js";
import { toFragment } from "../state/router.js";
import { SearchLink } from "../search/search-link.js";
import { PinButton } from "./pin-button.js";
import { labelDay } from "./day-label.js";
import { MAX_TITLE_CHARACTERS } from "./header.js";
import "./sessions.css";

/** List of sessions: searchable by title, loaded while scrolling. */
export function Sessions() {
  const store = useConsole();
  const { sessionBrowser } = store;
  const hasPins = sessionBrowser.search.value === "" && !sessionBrowser.isArchive.value;
  const pinnedSessions = hasPins ? store.pins.sessions.value : [];
  const sessions = sessionBrowser.sessions.value.filter((session) => !pinnedSessions.includes(session));
  const asks = store.openAsks.value;
  const { name } = store.route.value;
  return (
    <nav class="side" aria-label="Sessions">
      <div class="side-top">
        <a class="side-name" href="#/">
          gantry
        </a>
        <IconButton
          class="side-archive"
          icon="archive"
          label="Archived sessions"
          pressed={sessionBrowser.isArchive.value}
          onClick={() => sessionBrowser.toggleArchive()}
        />
        <IconButton class="side-close" icon="x" label="Close" onClick={() => (store.isDrawerOpen.value = false)} />
      </div>
      <div class="side-links">
        <a
          class="side-link"
          href="#/"
          aria-current={name === "new" ? "page" : undefined}
          onClick={() => store.navigate({ name: "new" })}
        >
          <Icon name="plus" /> New session
        </a>
        <a
          class="side-link"
          href="#/runs"
          aria-current={name === "runs" ? "page" : undefined}
          onClick={() => store.navigate({ name: "runs" })}
        >
          <Icon name="list" /> Runs
        </a>
        <QuestionsLink />
        <SearchLink />
      </div>
      <label class="side-search">
        <Icon name="search" />
        <span class="visually-hidden">Search sessions</span>
        <input
          id="session-search"
          class="field"
          type="search"
          placeholder="Search"
          autocomplete="off"
          value={sessionBrowser.search.value}
          onInput={(event) => sessionBrowser.setSearch(event.currentTarget.value)}
        />
      </label>
      <div class="side-list">
        <ul>
          {pinnedSessions.map((session, index) => (
            <SessionEntry
              key={session.id}
              session={session}
              dayLabel={index === 0 ? "Pinned" : ""}
              questionCount={asks.filter(({ session_id: id }) => id === session.id).length}
            />
          ))}
          {sessions.map((session, index) => (
            <SessionEntry
              key={session.id}
              session={session}
              dayLabel={labelDay(session, sessions[index - 1])}
              questionCount={asks.filter(({ session_id: id }) => id === session.id).length}
            />
          ))}
        </ul>
        <ListEnd count={sessionBrowser.sessions.value.length} />
      </div>
    </nav>
  );
}

function QuestionsLink() {
  const store = useConsole();
  const count = store.openAsks.value.length;
  return (
    <a
      class="side-link"
      href="#/questions"
      aria-current={store.route.value.name === "questions" ? "page" : undefined}
      onClick={() => store.navigate({ name: "questions" })}
    >
      <Icon name="question" /> Questions
      {count > 0 && (
        <span class="badge">
          {count}
          <span class="visually-hidden"> open</span>
        </span>
      )}
    </a>
  );
}

/** The end of the list. Loads the next page when the end comes near the visible area. */
function ListEnd({ count }: { count: number }) {
  const { sessionBrowser } = useConsole();
  const container = useRef<HTMLDivElement>(null);
  const total = sessionBrowser.total.value;
  const hasMore = total !== undefined && count < total;
  useEffect(() => {
    const element = container.current;
    if (!element || !hasMore) return undefined;
    const observer = new IntersectionObserver(
      (entries) => {
        if (entries.some(({ isIntersecting }) => isIntersecting)) void sessionBrowser.loadMore();
      },
      { rootMargin: "600px" },
    );
    observer.observe(element);
    return () => observer.disconnect();
  }, [count, hasMore]);
  const text =
    total === undefined
      ? "Loading …"
      : count > 0
        ? hasMore
          ? "Loading …"
          : ""
        : sessionBrowser.search.value
          ? "No matching session."
          : sessionBrowser.isArchive.value
            ? "No archived session."
            : "No session yet.";
  return (
    <div class="side-end" ref={container}>
      {text}
    </div>
  );
}

interface SessionEntryProps {
  session: ApiSession;
  dayLabel: string;
  questionCount: number;
}

function SessionEntry({ session, dayLabel, questionCount }: SessionEntryProps) {
  const store = useConsole();
  const openAction = useSignal<"" | "rename" | "delete">("");
  const { route } = store;
  const isCurrent = "id" in route.value && route.value.id === session.id;
  return (
    <>
      {dayLabel !== "" && (
        <li class="side-day" aria-hidden="true">
          {dayLabel}
        </li>
      )}
      <li class={`side-session ${isCurrent ? "current" : ""}`} data-session={session.id}>
        {openAction.value === "rename" ? (
          <RenameField session={session} onDone={() => (openAction.value = "")} />
        ) : openAction.value === "delete" ? (
          <DeleteConfirmation session={session} onDone={() => (openAction.value = "")} />
        ) : (
          <>
            <a
              href={toFragment({ name: "session", id: session.id })}
              aria-current={isCurrent ? "page" : undefined}
              onClick={() => (store.isDrawerOpen.value = false)}
            >
              <span class="side-title clipped">{session.title || "No title"}</span>
              <SessionState session={session} questionCount={questionCount} />
            </a>
            <span class="side-tools">
              <PinButton session={session} />
              <IconButton
                icon="pencil"
                label={`Rename ${session.title}`}
                onClick={() => (openAction.value = "rename")}
              />
              <IconButton
                icon="archive"
                label={`${session.archived ? "Unarchive" : "Archive"} ${session.title}`}
                onClick={() => void store.sessionBrowser.setArchived(session.id, !session.archived)}
              />
              <IconButton
                icon="trash"
                label={`Delete ${session.title}`}
                onClick={() => (openAction.value = "delete")}
              />
            </span>
          </>
        )}
      </li>
    </>
  );
}

/** The number of open questions, otherwise the state of the active run, otherwise the time of the last use. */
function SessionState({ session, questionCount }: { session: ApiSession; questionCount: number }) {
  if (questionCount > 0)
    return (
      <span class="badge" title={formatQuestionCount(questionCount)}>
        {questionCount}
        <span class="visually-hidden"> open</span>
      </span>
    );
  return (
    <span class="side-time">
      {session.run ? (
        <span class="side-state" title={session.run.state}>
          <span class={`dot ${session.run.state === "waiting" ? "waiting" : "busy"}`} />
          <span class="visually-hidden">{session.run.state}</span>
        </span>
      ) : (
        formatAge(session.updated_at)
      )}
    </span>
  );
}

function RenameField({ session, onDone }: { session: ApiSession; onDone: () => void }) {
  const { sessionBrowser } = useConsole();
  const field = useRef<HTMLInputElement>(null);
  const isFinished = useRef(false);
  useLayoutEffect(() => field.current?.select(), []);
  const finish = (title: string) => {
    if (isFinished.current) return;
    isFinished.current = true;
    onDone();
    if (title !== "" && title !== session.title) void sessionBrowser.rename(session.id, title);
  };
  return (
    <input
      ref={field}
      class="field"
      aria-label="Title"
      maxLength={MAX_TITLE_CHARACTERS}
      defaultValue={session.title}
      onBlur={(event) => finish(event.currentTarget.value.trim())}
      onKeyDown={(event) => {
        if (event.isComposing) return;
        if (event.key === "Enter") finish(event.currentTarget.value.trim());
        if (event.key === "Escape") {
          event.stopPropagation();
          finish("");
        }
      }}
    />
  );
}

function DeleteConfirmation({ session, onDone }: { session: ApiSession; onDone: () => void }) {
  const store = useConsole();
  const keepButton = useRef<HTMLButtonElement>(null);
  // Focuses the safe choice, so that an accidental key press deletes nothing.
  useLayoutEffect(() => keepButton.current?.focus(), []);
  const deleteSession = async () => {
    const { value: route } = store.route;
    if (!(await store.sessionBrowser.deleteSession(session.id))) onDone();
    else if (route.name === "session" && route.id === session.id) store.navigate({ name: "new" });
  };
  return (
    <div
      class="side-delete"
      role="group"
      aria-label={`Delete ${session.title}?`}
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        event.stopPropagation();
        onDone();
      }}
    >
      <span>Delete permanently?</span>
      <button type="button" class="button quiet" ref={keepButton} onClick={onDone}>
        Keep
      </button>
      <button type="button" class="button danger" onClick={() => void deleteSession()}>
        Delete
      </button>
    </div>
  );
}
