import { useComputed, useSignalEffect } from "@preact/signals";
import { Asks } from "../asks.js";
import { Composer } from "../composer.js";
import { hasLanguageModel } from "../language-models.js";
import { escapeInvisible } from "../content/escape.js";
import { Icon } from "../parts/icon.js";
import { IconButton } from "../parts/button.js";
import { Plan } from "../plan.js";
import { Processes } from "../processes.js";
import { NewSessionFolder } from "../projects/new-session-folder.js";
import { rewindTask } from "../rewind/rewind-task.js";
import { announce, announcement } from "../state/announce.js";
import { useConsole } from "../state/context.js";
import type { WatchedSession } from "../state/watched-session.js";
import { Timeline } from "../timeline/timeline.js";
import { Header, VIEW_TITLES } from "./header.js";
import { Notices } from "./notices.js";
import { Sessions } from "./sessions.js";
import { storeToken } from "../login.js";
import { createLazyView } from "./lazy-view.js";
import "./app.css";
// The styles of `deferred.ts`: without these imports, the build would link a second stylesheet with the same rules.
import "../asks.css";
import "../context-meter/context-meter.css";
import "../changes/changes.css";
import "../diff.css";
import "../help.css";
import "../mcp-servers.css";
import "../palette.css";
import "../person-commands/person-commands.css";
import "../preview/preview.css";
import "../questions.css";
import "../rewind/rewind.css";
import "../runs.css";
import "../search/search.css";
import "../settings.css";
import "../spending.css";

const ConversationPanel = createLazyView(async () => (await import("../deferred.js")).ConversationPanel, "");
const Changes = createLazyView(async () => (await import("../deferred.js")).Changes);
const Help = createLazyView(async () => (await import("../deferred.js")).Help, "");
const McpServers = createLazyView(async () => (await import("../deferred.js")).McpServers);
const Palette = createLazyView(async () => (await import("../deferred.js")).Palette, "");
const Preview = createLazyView(async () => (await import("../deferred.js")).Preview, "");
const Questions = createLazyView(async () => (await import("../deferred.js")).Questions);
const RewindDialog = createLazyView(async () => (await import("../deferred.js")).RewindDialog, "");
const Runs = createLazyView(async () => (await import("../deferred.js")).Runs);
const Search = createLazyView(async () => (await import("../deferred.js")).Search);
const Settings = createLazyView(async () => (await import("../deferred.js")).Settings);
const Spending = createLazyView(async () => (await import("../deferred.js")).Spending);

export function App() {
  const store = useConsole();
  useTitle();
  if (store.isLocked.value)
    return (
      <LoginRequired reason="This server requires a login. Run this command on the server's machine to get a login link:" />
    );
  const route = store.route.value;
  const { name } = route;
  const session = store.session.value;
  return (
    <div class={`app ${store.isDrawerOpen.value ? "with-drawer" : ""}`}>
      <SkipLink targetId={name === "new" || name === "session" ? "prompt" : "content"} />
      <Sessions />
      <div class="app-shade" onClick={() => (store.isDrawerOpen.value = false)} />
      <main id="content" class="app-main" tabIndex={-1}>
        <Header />
        {name === "runs" && <Runs />}
        {name === "questions" && <Questions />}
        {name === "search" && <Search />}
        {name === "mcp" && <McpServers />}
        {name === "settings" && <Settings />}
        {name === "new" && <NewSession />}
        {session && name === "changes" && !session.isMissing.value && <Changes key={session.id} session={session} />}
        {session && (name === "session" || session.isMissing.value) && (
          <SessionView key={session.id} session={session} />
        )}
      </main>
      {session && store.openPanel.value === "spending" && (
        <aside class="app-panel" aria-label="Spending">
          <div class="panel-head">
            <h2>Tokens and cost</h2>
            <IconButton icon="x" label="Close" onClick={() => (store.openPanel.value = "")} />
          </div>
          <Spending session={session} />
        </aside>
      )}
      {session && store.openPanel.value === "conversation" && <ConversationPanel session={session} />}
      {route.name === "session" && route.file && <Preview sessionId={route.id} file={route.file} />}
      {store.openPanel.value === "help" && <Help />}
      {store.openPanel.value === "palette" && <Palette />}
      {rewindTask.value && <RewindDialog task={rewindTask.value} />}
      <Notices />
      <div id="announcer" class="visually-hidden" aria-live="polite">
        {announcement.value}
      </div>
    </div>
  );
}

/** Link for keyboards that skips the session list: to the prompt, or to the content of a view without one. */
function SkipLink({ targetId }: { targetId: "prompt" | "content" }) {
  return (
    <a
      class="skip"
      href={`#${targetId}`}
      onClick={(event) => {
        // The link must not change the URL fragment, which names the open session.
        event.preventDefault();
        (document.getElementById(targetId) ?? document.getElementById("content"))?.focus();
      }}
    >
      {targetId === "prompt" ? "To the prompt" : "To the content"}
    </a>
  );
}

function SessionView({ session }: { session: WatchedSession }) {
  const store = useConsole();
  useRunAnnouncements(session);
  if (session.isMissing.value)
    return (
      <div class="empty">
        <h2>Session not found</h2>
        <p>It was deleted or never existed.</p>
        <button type="button" class="button" onClick={() => store.navigate({ name: "new" })}>
          <Icon name="plus" /> New session
        </button>
      </div>
    );
  return (
    <>
      {session.connection.value === "lost" && (
        <div class="connection-lost" role="status">
          <span class="spinner" /> Connection lost. Reconnecting…
        </div>
      )}
      <Timeline session={session} />
      <div class="foot">
        <Plan session={session} />
        <Processes session={session} />
        <Asks session={session} />
        <Composer session={session} />
      </div>
    </>
  );
}

function NewSession() {
  const store = useConsole();
  const models = store.models.value;
  return (
    <div class="new-session">
      <div class="new-intro">
        <h2>What should the agent do?</h2>
        <NewSessionFolder />
        {models && !hasLanguageModel(models) && (
          <p class="new-missing">
            <Icon name="warning" />
            <span>
              No language model is connected. The built-in guide answers by fixed rules.{" "}
              <a href="#/settings">Connect a model</a>
            </span>
          </p>
        )}
      </div>
      <div class="foot">
        <Composer session={undefined} />
      </div>
    </div>
  );
}

/** View for an unauthenticated client. `retry` repeats the login; undefined if the user needs a new link. */
export function LoginRequired({ reason, retry }: { reason: string; retry?: (() => void) | undefined }) {
  return (
    <main class="empty locked">
      <Icon name="shield" />
      <h1>gantry</h1>
      <p>{reason}</p>
      {retry ? (
        <button type="button" class="button" onClick={retry}>
          Try again
        </button>
      ) : (
        <>
          <pre>
            <code>gantry console</code>
          </pre>
          <form
            class="token-form"
            onSubmit={(event) => {
              event.preventDefault();
              storeToken(event.currentTarget.querySelector("input")?.value ?? "");
              location.reload();
            }}
          >
            <label>
              Or enter your token:
              <input type="password" name="token" autocomplete="current-password" required />
            </label>
            <button class="button">Log in</button>
          </form>
        </>
      )}
    </main>
  );
}

/**
 * Sets the page title to the title of the session or view, with the number of open questions, or with a mark during a
 * run.
 */
function useTitle(): void {
  const store = useConsole();
  const title = useComputed(() => {
    const session = store.session.value;
    const questionCount = store.openAsks.value.length;
    const mark = questionCount > 0 ? `(${questionCount}) ` : session?.isBusy.value ? "● " : "";
    const sessionTitle = session?.isMissing.value ? undefined : session?.info.value?.title;
    const { name } = store.route.value;
    const viewTitle = name === "new" || name === "session" ? "gantry" : VIEW_TITLES[name];
    return `${mark}${sessionTitle === undefined ? viewTitle : escapeInvisible(sessionTitle)}`;
  });
  useSignalEffect(() => {
    document.title = title.value;
  });
}

/** Announces the start and end of a run to screen readers, but not each word of the answer. */
function useRunAnnouncements(session: WatchedSession): void {
  let wasBusy = session.isBusy.peek();
  useSignalEffect(() => {
    // Replace the last announcement, which no longer applies.
    if (session.isMissing.value) {
      announce("Session not found.");
      return;
    }
    const isBusy = session.isBusy.value;
    if (wasBusy && !isBusy)
      announce(session.run.peek()?.state === "finished" ? "The answer is complete." : "The run has ended.");
    if (!wasBusy && isBusy) announce("The agent is running.");
    wasBusy = isBusy;
  });
}
