import { useSignalEffect } from "@preact/signals";
import type { ApiMessageMatch } from "gantry/client";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { escapeReordering } from "../content/escape.js";
import { formatAge } from "../parts/format.js";
import type { Console } from "../state/console.js";
import { useConsole } from "../state/context.js";
import { toFragment } from "../state/router.js";
import { groupBySession, MessageSearch } from "./message-search.js";

const ROLE_LABELS: Readonly<Record<ApiMessageMatch["role"], string>> = {
  user: "You",
  assistant: "Agent",
  system: "System",
  tool: "Tool",
};

/** The search of each page, which keeps its matches while another view is shown. */
const searches = new WeakMap<Console, MessageSearch>();

function getSearch(store: Console): MessageSearch {
  let search = searches.get(store);
  if (!search) searches.set(store, (search = new MessageSearch(store.client)));
  return search;
}

/** Search in the messages of all sessions. Arrow keys move through the matches. */
export function Search() {
  const store = useConsole();
  const search = useMemo(() => getSearch(store), [store]);
  const field = useRef<HTMLInputElement>(null);
  const view = useRef<HTMLDivElement>(null);
  const text = store.messageSearchText;
  useSignalEffect(() => search.search(text.value));
  useEffect(() => {
    field.current?.focus();
    field.current?.select();
  }, []);
  const groups = groupBySession(search.matches.value);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.isComposing) return;
    const links = [...(view.current?.querySelectorAll<HTMLAnchorElement>(".search-match") ?? [])];
    const index = links.findIndex((link) => link === document.activeElement);
    const isInField = event.target === field.current;
    if (event.key === "Enter" && isInField) links[0]?.click();
    else if (event.key === "ArrowDown") links[Math.min(index + 1, links.length - 1)]?.focus();
    else if (event.key === "ArrowUp" && index >= 0) (links[index - 1] ?? field.current)?.focus();
    else return;
    event.preventDefault();
  };
  return (
    <div class="search" ref={view} onKeyDown={onKeyDown}>
      <div class="search-column">
        <label class="search-label" for="message-search">
          Search the messages of all sessions
        </label>
        <input
          ref={field}
          id="message-search"
          class="field"
          type="search"
          autocomplete="off"
          placeholder="Words that a message contains"
          value={text.value}
          onInput={(event) => (text.value = event.currentTarget.value)}
        />
        <p class="search-sum" role="status">
          {describeState(search, text.value, groups.length)}
        </p>
        {groups.map(({ sessionId, title, matches }) => (
          <section key={sessionId} aria-label={title}>
            <h2>
              <a href={toFragment({ name: "session", id: sessionId })}>
                <bdi>{title || "No title"}</bdi>
              </a>
            </h2>
            <ul class="search-list">
              {matches.map((match) => (
                <MatchRow key={match.message_id} match={match} />
              ))}
            </ul>
          </section>
        ))}
        {search.next.value !== undefined && (
          <button type="button" class="button" disabled={search.isLoading.value} onClick={() => void search.loadMore()}>
            Older matches
          </button>
        )}
      </div>
    </div>
  );
}

function MatchRow({ match }: { match: ApiMessageMatch }) {
  return (
    <li>
      <a class="search-match" href={toFragment({ name: "session", id: match.session_id, seq: match.seq })}>
        <span class="search-facts">
          {ROLE_LABELS[match.role]} · {formatAge(match.created_at)}
        </span>
        <bdi class="search-snippet">{markRanges(match)}</bdi>
      </a>
    </li>
  );
}

function markRanges({ snippet, ranges }: ApiMessageMatch) {
  const edges = ranges.flatMap(({ start, end }) => [start, end]);
  return [0, ...edges].map((start, index) => {
    const text = escapeReordering(snippet.slice(start, edges[index]));
    return index % 2 === 1 ? <mark key={index}>{text}</mark> : text;
  });
}

function describeState(search: MessageSearch, text: string, sessionCount: number): string {
  if (search.problem.value !== "") return search.problem.value;
  if (search.isLoading.value) return "Searching…";
  if (text.trim() === "") return "";
  const count = search.matches.value.length;
  if (count === 0) return "No message contains these words.";
  const messages = `${count}${search.next.value === undefined ? "" : " or more"} ${count === 1 ? "message" : "messages"}`;
  return `${messages} in ${sessionCount} ${sessionCount === 1 ? "session" : "sessions"}`;
}
