import { useEffect, useRef } from "preact/hooks";
import { IconButton } from "../parts/button.js";
import { Icon } from "../parts/icon.js";
import { ProjectFilter } from "../projects/project-filter.js";
import { useConsole } from "../state/context.js";
import { SearchLink } from "../search/search-link.js";
import { labelDay } from "./day-label.js";
import { SessionEntry } from "./session-entry.js";
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
      <ProjectFilter />
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
