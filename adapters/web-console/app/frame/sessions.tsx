import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { ApiSession } from "gantry/client";
import { escapeInvisible } from "../content/seen.js";
import { IconButton } from "../parts/button.js";
import { ago } from "../parts/format.js";
import { Icon } from "../parts/icon.js";
import { useConsole } from "../state/context.js";
import { hashOf } from "../state/router.js";
import "./sessions.css";

/** List of sessions: searchable by title, loaded while scrolling. */
export function Sessions() {
  const store = useConsole();
  const { list } = store;
  const sessions = list.sessions.value;
  const { name } = store.route.value;
  return (
    <nav class="side" aria-label="Sessions">
      <div class="side-top">
        <a class="side-name" href="#/">
          gantry
        </a>
        <IconButton class="side-close" icon="x" label="Close" onClick={() => (store.drawer.value = false)} />
      </div>
      <div class="side-ways">
        <a
          class="side-way"
          href="#/"
          aria-current={name === "new" ? "page" : undefined}
          onClick={() => store.go({ name: "new" })}
        >
          <Icon name="plus" /> New session
        </a>
        <a
          class="side-way"
          href="#/runs"
          aria-current={name === "runs" ? "page" : undefined}
          onClick={() => store.go({ name: "runs" })}
        >
          <Icon name="list" /> Runs
        </a>
        <Questions />
      </div>
      <label class="side-search">
        <Icon name="search" />
        <span class="unseen">Search sessions</span>
        <input
          id="session-search"
          class="field"
          type="search"
          placeholder="Search"
          autocomplete="off"
          value={list.search.value}
          onInput={(event) => list.find(event.currentTarget.value)}
        />
      </label>
      <div class="side-list">
        <ul>
          {sessions.map((session, index) => (
            <Entry key={session.id} session={session} day={dayOf(session, sessions[index - 1])} />
          ))}
        </ul>
        <End count={sessions.length} />
      </div>
    </nav>
  );
}

/** Link to the newest question of another session. */
function Questions() {
  const store = useConsole();
  const asks = store.asksElsewhere.value;
  const [newest] = asks;
  if (!newest) return null;
  return (
    <a
      class="side-way"
      href={hashOf({ name: "session", id: newest.session_id })}
      title={escapeInvisible(newest.title)}
      onClick={() => (store.drawer.value = false)}
    >
      <span class="dot waiting" /> {asks.length === 1 ? "1 pending question" : `${asks.length} pending questions`}
    </a>
  );
}

/** Loads the next page when it scrolls into view. */
function End({ count }: { count: number }) {
  const { list } = useConsole();
  const place = useRef<HTMLDivElement>(null);
  const total = list.total.value;
  const hasMore = total !== undefined && count < total;
  useEffect(() => {
    const element = place.current;
    if (!element || !hasMore) return undefined;
    const observer = new IntersectionObserver(
      (entries) => {
        if (entries.some(({ isIntersecting }) => isIntersecting)) void list.loadMore();
      },
      { rootMargin: "600px" },
    );
    observer.observe(element);
    return () => observer.disconnect();
  }, [count, hasMore]);
  const words =
    total === undefined
      ? "Loading …"
      : count > 0
        ? hasMore
          ? "Loading …"
          : ""
        : list.search.value
          ? "Nothing found."
          : "No session yet.";
  return (
    <div class="side-end" ref={place}>
      {words}
    </div>
  );
}

function Entry({ session, day }: { session: ApiSession; day: string }) {
  const store = useConsole();
  const doing = useSignal<"" | "rename" | "delete">("");
  const { route } = store;
  const current = route.value.name === "session" && route.value.id === session.id;
  return (
    <>
      {day !== "" && (
        <li class="side-day" aria-hidden="true">
          {day}
        </li>
      )}
      <li class={`side-session ${current ? "current" : ""}`} data-session={session.id}>
        {doing.value === "rename" ? (
          <Rename session={session} done={() => (doing.value = "")} />
        ) : doing.value === "delete" ? (
          <Delete session={session} done={() => (doing.value = "")} />
        ) : (
          <>
            <a
              href={hashOf({ name: "session", id: session.id })}
              aria-current={current ? "page" : undefined}
              onClick={() => (store.drawer.value = false)}
            >
              <span class="side-title clipped">{session.title || "No title"}</span>
              <span class="side-when">
                {session.run ? (
                  <span class={`dot ${session.run.state === "waiting" ? "waiting" : "busy"}`} title={session.run.state}>
                    <span class="unseen">{session.run.state}</span>
                  </span>
                ) : (
                  ago(session.updated_at)
                )}
              </span>
            </a>
            <span class="side-tools">
              <IconButton icon="pencil" label={`Rename ${session.title}`} onClick={() => (doing.value = "rename")} />
              <IconButton icon="trash" label={`Delete ${session.title}`} onClick={() => (doing.value = "delete")} />
            </span>
          </>
        )}
      </li>
    </>
  );
}

function Rename({ session, done }: { session: ApiSession; done: () => void }) {
  const { list } = useConsole();
  const field = useRef<HTMLInputElement>(null);
  const isFinished = useRef(false);
  useLayoutEffect(() => field.current?.select(), []);
  const leave = (title: string) => {
    if (isFinished.current) return;
    isFinished.current = true;
    done();
    if (title !== "" && title !== session.title) void list.rename(session.id, title);
  };
  return (
    <input
      ref={field}
      class="field"
      aria-label="Title"
      maxLength={50}
      defaultValue={session.title}
      onBlur={(event) => leave(event.currentTarget.value.trim())}
      onKeyDown={(event) => {
        if (event.isComposing) return;
        if (event.key === "Enter") leave(event.currentTarget.value.trim());
        if (event.key === "Escape") {
          event.stopPropagation();
          leave("");
        }
      }}
    />
  );
}

function Delete({ session, done }: { session: ApiSession; done: () => void }) {
  const store = useConsole();
  const keep = useRef<HTMLButtonElement>(null);
  // Focuses the safe choice, so that an accidental key press deletes nothing.
  useLayoutEffect(() => keep.current?.focus(), []);
  const remove = async () => {
    const { value: route } = store.route;
    if (!(await store.list.remove(session.id))) done();
    else if (route.name === "session" && route.id === session.id) store.go({ name: "new" });
  };
  return (
    <div
      class="side-delete"
      role="group"
      aria-label={`Delete ${session.title}?`}
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        event.stopPropagation();
        done();
      }}
    >
      <span>Delete permanently?</span>
      <button type="button" class="button quiet" ref={keep} onClick={done}>
        Keep
      </button>
      <button type="button" class="button danger" onClick={() => void remove()}>
        Delete
      </button>
    </div>
  );
}

/** Label of the session's day; "" if the session above has the same one. */
function dayOf(session: ApiSession, above: ApiSession | undefined): string {
  const word = wordOf(session.updated_at);
  return above && wordOf(above.updated_at) === word ? "" : word;
}

function wordOf(iso: string): string {
  const midnight = new Date().setHours(0, 0, 0, 0);
  const time = Date.parse(iso);
  if (time >= midnight) return "Today";
  if (time >= midnight - 86_400_000) return "Yesterday";
  if (time >= midnight - 6 * 86_400_000) return "Last seven days";
  return "Older";
}
