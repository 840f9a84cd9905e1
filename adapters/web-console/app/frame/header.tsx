import { useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { IconButton } from "../parts/button.js";
import { Icon } from "../parts/icon.js";
import { formatCost, formatQuestionCount, formatTokens } from "../parts/format.js";
import { useConsole } from "../state/context.js";
import type { WatchedSession } from "../state/watched-session.js";
import { GitBranch } from "./git-branch.js";
import { toFragment } from "../state/router.js";
import { createLazyView } from "./lazy-view.js";

const ContextMeter = createLazyView(async () => (await import("../deferred.js")).ContextMeter, "");

/** The server's limit for a title. */
export const MAX_TITLE_CHARACTERS = 50;

/** Titles of the views that show no session. */
export const VIEW_TITLES = {
  runs: "Runs",
  questions: "Questions",
  search: "Search",
  mcp: "MCP servers",
  settings: "Settings",
  new: "New session",
  session: "",
  changes: "Changes",
} as const;

/** Title and usage of the current view, and controls of the whole page. */
export function Header() {
  const store = useConsole();
  const session = store.session.value;
  const { name } = store.route.value;
  const parentId = session?.info.value?.spawned_by?.session_id;
  const isDark = store.theme.value === "dark";
  return (
    <header class="head">
      <IconButton
        class="head-menu"
        icon="menu"
        label="Sessions"
        onClick={() => (store.isDrawerOpen.value = !store.isDrawerOpen.value)}
      />
      {parentId !== undefined && (
        <a class="head-parent" href={toFragment({ name: "session", id: parentId })}>
          Back to the parent session
        </a>
      )}
      <div class="head-title">
        {session ? <Title key={session.id} session={session} /> : <h1>{VIEW_TITLES[name]}</h1>}
      </div>
      <QuestionsLink />
      {session && <GitBranch session={session} />}
      {session && <Usage session={session} />}
      <a
        class="icon-button"
        href="#/mcp"
        aria-label="MCP servers"
        title="MCP servers"
        aria-current={name === "mcp" ? "page" : undefined}
      >
        <Icon name="plug" />
      </a>
      <a
        class="icon-button"
        href="#/settings"
        aria-label="Settings"
        title="Settings"
        aria-current={name === "settings" ? "page" : undefined}
      >
        <Icon name="settings" />
      </a>
      <IconButton
        class="wide"
        icon={isDark ? "sun" : "moon"}
        label={isDark ? "Light theme" : "Dark theme"}
        onClick={() => (store.theme.value = isDark ? "light" : "dark")}
      />
      <IconButton
        class="wide"
        icon="keyboard"
        label="Keyboard shortcuts"
        onClick={() => (store.openPanel.value = store.openPanel.value === "help" ? "" : "help")}
      />
    </header>
  );
}

/** Link to the open questions on a narrow screen, which hides the session list. Renders nothing if there are none. */
function QuestionsLink() {
  const store = useConsole();
  const count = store.openAsks.value.length;
  if (count === 0 || store.route.value.name === "questions") return null;
  return (
    <a class="head-questions" href="#/questions" aria-label={formatQuestionCount(count)}>
      <Icon name="question" /> <span class="badge">{count}</span>
    </a>
  );
}

function Usage({ session }: { session: WatchedSession }) {
  const store = useConsole();
  const usage = session.info.value?.usage;
  const usageTexts = [
    usage && usage.total_tokens > 0 ? `${formatTokens(usage.total_tokens)} tokens` : "",
    formatCost(usage?.cost ?? 0),
  ];
  const isSpendingOpen = store.openPanel.value === "spending";
  return (
    <>
      <span class="head-usage">{usageTexts.filter((text) => text !== "").join(" · ")}</span>
      <ContextMeter key={session.id} session={session} />
      <IconButton
        icon="activity"
        label="Tokens and cost"
        pressed={isSpendingOpen}
        onClick={() => (store.openPanel.value = isSpendingOpen ? "" : "spending")}
      />
    </>
  );
}

/** The title of the session. A click on the title opens a field to edit it. */
function Title({ session }: { session: WatchedSession }) {
  const isEditing = useSignal(false);
  const input = useRef<HTMLInputElement>(null);
  const title = session.info.value?.title ?? "";
  useLayoutEffect(() => input.current?.select(), [isEditing.value]);
  if (!isEditing.value)
    return (
      <h1>
        <button
          type="button"
          class="head-name clipped"
          title="Rename"
          disabled={!session.info.value}
          onClick={() => (isEditing.value = true)}
        >
          {title || "…"}
        </button>
      </h1>
    );
  const save = (text: string) => {
    if (!isEditing.peek()) return;
    isEditing.value = false;
    if (text.trim() !== "" && text.trim() !== title) void session.update({ title: text.trim() });
  };
  return (
    <input
      ref={input}
      class="field"
      aria-label="Title"
      maxLength={MAX_TITLE_CHARACTERS}
      defaultValue={title}
      onBlur={(event) => save(event.currentTarget.value)}
      onKeyDown={(event) => {
        if (event.isComposing) return;
        if (event.key === "Enter") save(event.currentTarget.value);
        if (event.key === "Escape") {
          event.stopPropagation();
          isEditing.value = false;
        }
      }}
    />
  );
}
