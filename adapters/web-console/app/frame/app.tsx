import { useComputed, useSignalEffect } from "@preact/signals";
import { Asks } from "../asks.js";
import { Composer } from "../composer.js";
import { seen } from "../content/seen.js";
import { Help } from "../help.js";
import { Icon } from "../parts/icon.js";
import { IconButton } from "../parts/button.js";
import { Plan } from "../plan.js";
import { Processes } from "../processes.js";
import { Runs } from "../runs.js";
import { Spending } from "../spending.js";
import { announce, announced } from "../state/announce.js";
import { useConsole } from "../state/context.js";
import type { OpenSession } from "../state/open-session.js";
import { Timeline } from "../timeline/timeline.js";
import { Header } from "./header.js";
import { Notices } from "./notices.js";
import { Sessions } from "./sessions.js";
import "./app.css";

/** The whole page. */
export function App() {
  const store = useConsole();
  useTitle();
  if (store.locked.value)
    return (
      <Locked reason="This server wants to know who you are. Type this where it runs, for a link that lets you in:" />
    );
  const { name } = store.route.value;
  const session = store.session.value;
  return (
    <div class={`app ${store.drawer.value ? "with-drawer" : ""}`}>
      <a class="skip" href="#prompt" onClick={skip}>
        To the prompt
      </a>
      <Sessions />
      <div class="app-shade" onClick={() => (store.drawer.value = false)} />
      <main class="app-main">
        <Header />
        {name === "runs" && <Runs />}
        {name === "new" && <NewSession />}
        {session && <SessionView key={session.id} session={session} />}
      </main>
      {session && store.panel.value === "spending" && (
        <aside class="app-panel" aria-label="Spending">
          <div class="panel-head">
            <h2>Tokens and cost</h2>
            <IconButton icon="x" label="Close" onClick={() => (store.panel.value = "")} />
          </div>
          <Spending session={session} />
        </aside>
      )}
      <Help />
      <Notices />
      <div id="announcer" class="unseen" aria-live="polite">
        {announced.value}
      </div>
    </div>
  );
}

function skip(event: MouseEvent): void {
  // The end of the address says which session is open.
  event.preventDefault();
  document.getElementById("prompt")?.focus();
}

function SessionView({ session }: { session: OpenSession }) {
  const store = useConsole();
  useAnswers(session);
  if (session.missing.value)
    return (
      <div class="empty">
        <h2>This session is not here</h2>
        <p>It was deleted, or never was.</p>
        <button type="button" class="button" onClick={() => store.go({ name: "new" })}>
          <Icon name="plus" /> New session
        </button>
      </div>
    );
  return (
    <>
      {session.connection.value === "lost" && (
        <div class="lost" role="status">
          <span class="spinner" /> The connection is lost. It comes back by itself.
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
  return (
    <div class="new">
      <div class="new-words">
        <h2>What shall be done?</h2>
        <p>The agent reads, changes and runs things in its project folder. Each session is kept.</p>
      </div>
      <div class="foot">
        <Composer session={undefined} />
      </div>
    </div>
  );
}

/** What stands there instead of the page for whom the server does not know. `again`: what may help. */
export function Locked({ reason, again }: { reason: string; again?: (() => void) | undefined }) {
  return (
    <main class="empty locked">
      <Icon name="shield" />
      <p>{reason}</p>
      {again ? (
        <button type="button" class="button" onClick={again}>
          Try again
        </button>
      ) : (
        <pre>
          <code>gantry console</code>
        </pre>
      )}
    </main>
  );
}

/** The name of the page is that of what it shows, with a mark while something goes on. */
function useTitle(): void {
  const store = useConsole();
  const title = useComputed(() => {
    const session = store.session.value;
    const asks = session?.asks.value.length || store.asksElsewhere.value.length;
    const mark = asks ? "? " : session?.busy.value ? "● " : "";
    const title = session?.missing.value ? undefined : session?.info.value?.title;
    return `${mark}${title === undefined ? (store.route.value.name === "runs" ? "Runs" : "gantry") : seen(title)}`;
  });
  useSignalEffect(() => {
    document.title = title.value;
  });
}

/** A screen reader hears that an answer is whole, not each word of it. */
function useAnswers(session: OpenSession): void {
  let busy = session.busy.peek();
  useSignalEffect(() => {
    // What was said of it last is true no more.
    if (session.missing.value) {
      announce("This session is not here.");
      return;
    }
    const now = session.busy.value;
    if (busy && !now)
      announce(session.run.peek()?.state === "finished" ? "The answer is there." : "The run has ended.");
    if (!busy && now) announce("The agent works.");
    busy = now;
  });
}
