import { useEffect, useRef } from "preact/hooks";
import { focusAsk } from "./asks.js";
import "./help.css";
import { IconButton } from "./parts/button.js";
import { listenToKeys, SHORTCUTS } from "./shortcuts.js";
import { announce } from "./state/announce.js";
import type { Console } from "./state/console.js";
import { useConsole } from "./state/context.js";

/** Dialog with the keyboard shortcuts. */
export function Help() {
  const app = useConsole();
  const dialog = useRef<HTMLDialogElement>(null);
  const isOpen = app.panel.value === "help";
  useEffect(() => {
    if (isOpen) dialog.current?.showModal();
    else dialog.current?.close();
  }, [isOpen]);
  if (!isOpen) return null;
  const close = () => (app.panel.value = "");
  return (
    <dialog
      ref={dialog}
      class="help"
      aria-labelledby="help-title"
      onClose={close}
      // The content fills the dialog, so a click on the dialog itself is a click on the backdrop.
      onClick={(event) => event.target === dialog.current && close()}
    >
      <div class="help-sheet">
        <header class="help-head">
          <h2 id="help-title">Keys</h2>
          <IconButton icon="x" label="Close" onClick={close} />
        </header>
        {SHORTCUTS.map(({ where, shortcuts }) => (
          <section key={where} aria-label={where}>
            <h3 class="help-where">{where}</h3>
            <dl class="help-keys">
              {shortcuts.map(({ keys, says }) => (
                <div key={keys.join(" ")}>
                  <dt>
                    {keys.map((key) => (
                      <kbd>{key}</kbd>
                    ))}
                  </dt>
                  <dd>{says}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </dialog>
  );
}

/** Installs the keyboard shortcuts. Returns a function that removes them. */
export function installShortcuts(app: Console): () => void {
  const focus = (id: string) => {
    const field = document.getElementById(id);
    field?.focus();
    return field !== null;
  };
  return listenToKeys(document, {
    help: () => (app.panel.value = app.panel.peek() === "help" ? "" : "help"),
    newSession: () => app.go({ name: "new" }),
    search: () => {
      app.drawer.value = isNarrow();
      // The field exists only after the drawer is drawn.
      requestAnimationFrame(() => focus("session-search"));
    },
    compose: () => focus("prompt"),
    runs: () => app.go({ name: "runs" }),
    spending: () => {
      if (app.session.peek()) app.panel.value = app.panel.peek() === "spending" ? "" : "spending";
    },
    theme: () => (app.theme.value = app.theme.peek() === "dark" ? "light" : "dark"),
    ask: () => focusAsk(),
    leave: () => {
      if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
      // The key only closes the open panel; it is not the first Escape of two.
      if (app.drawer.peek() || app.panel.peek() !== "") {
        app.drawer.value = false;
        app.panel.value = "";
        return false;
      }
      if (app.session.peek()?.busy.peek()) announce("Press Escape again to stop the run");
      return true;
    },
    stop: () => {
      const open = app.session.peek();
      if (!open?.busy.peek()) return;
      announce("The run is stopped");
      void open.stop();
    },
  });
}

function isNarrow(): boolean {
  return matchMedia("(max-width: 720px)").matches;
}
