import { useSignal } from "@preact/signals";
import type { ApiSession } from "gantry/client";
import { useLayoutEffect, useRef } from "preact/hooks";
import { IconButton } from "../parts/button.js";
import { formatAge, formatQuestionCount } from "../parts/format.js";
import { ProjectLabel } from "../projects/project-filter.js";
import { useConsole } from "../state/context.js";
import { toFragment } from "../state/router.js";
import { MAX_TITLE_CHARACTERS } from "./header.js";
import { PinButton } from "./pin-button.js";

interface SessionEntryProps {
  session: ApiSession;
  dayLabel: string;
  questionCount: number;
}

/** A session of the list. */
export function SessionEntry({ session, dayLabel, questionCount }: SessionEntryProps) {
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
              <ProjectLabel folder={session.project_dir} />
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
