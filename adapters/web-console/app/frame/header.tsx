import { useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { IconButton } from "../parts/button.js";
import { money, tokens } from "../parts/format.js";
import { useConsole } from "../state/context.js";
import type { WatchedSession } from "../state/open-session.js";
import { hashOf } from "../state/router.js";

/** Title and usage of the current view, and controls of the whole page. */
export function Header() {
  const store = useConsole();
  const session = store.session.value;
  const { name } = store.route.value;
  const asker = session?.info.value?.spawned_by?.session_id;
  const dark = store.theme.value === "dark";
  return (
    <header class="head">
      <IconButton
        class="head-menu"
        icon="menu"
        label="Sessions"
        onClick={() => (store.drawer.value = !store.drawer.value)}
      />
      {asker !== undefined && (
        <a class="head-asker" href={hashOf({ name: "session", id: asker })}>
          Back to the parent session
        </a>
      )}
      <div class="head-title">
        {session ? <Title key={session.id} session={session} /> : <h1>{name === "runs" ? "Runs" : "New session"}</h1>}
      </div>
      {session && <Usage session={session} />}
      <IconButton
        icon={dark ? "sun" : "moon"}
        label={dark ? "Light theme" : "Dark theme"}
        onClick={() => (store.theme.value = dark ? "light" : "dark")}
      />
      <IconButton
        class="wide"
        icon="keyboard"
        label="Keys"
        onClick={() => (store.panel.value = store.panel.value === "help" ? "" : "help")}
      />
    </header>
  );
}

function Usage({ session }: { session: WatchedSession }) {
  const store = useConsole();
  const usage = session.info.value?.usage;
  const words = [
    usage && usage.total_tokens > 0 ? `${tokens(usage.total_tokens)} tokens` : "",
    money(usage?.cost ?? 0),
  ];
  const shown = store.panel.value === "spending";
  return (
    <>
      <span class="head-usage">{words.filter((word) => word !== "").join(" · ")}</span>
      <IconButton
        icon="activity"
        label="Tokens and cost"
        pressed={shown}
        onClick={() => (store.panel.value = shown ? "" : "spending")}
      />
    </>
  );
}

/** The title. A click edits it. */
function Title({ session }: { session: WatchedSession }) {
  const editing = useSignal(false);
  const field = useRef<HTMLInputElement>(null);
  const title = session.info.value?.title ?? "";
  useLayoutEffect(() => field.current?.select(), [editing.value]);
  if (!editing.value)
    return (
      <h1>
        <button
          type="button"
          class="head-name clipped"
          title="Rename"
          disabled={!session.info.value}
          onClick={() => (editing.value = true)}
        >
          {title || "…"}
        </button>
      </h1>
    );
  const keep = (text: string) => {
    if (!editing.peek()) return;
    editing.value = false;
    if (text.trim() !== "" && text.trim() !== title) void session.change({ title: text.trim() });
  };
  return (
    <input
      ref={field}
      class="field"
      aria-label="Title"
      maxLength={50}
      defaultValue={title}
      onBlur={(event) => keep(event.currentTarget.value)}
      onKeyDown={(event) => {
        if (event.isComposing) return;
        if (event.key === "Enter") keep(event.currentTarget.value);
        if (event.key === "Escape") {
          event.stopPropagation();
          editing.value = false;
        }
      }}
    />
  );
}
