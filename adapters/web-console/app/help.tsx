import { useEffect, useRef } from "preact/hooks";
import { focusAsk } from "./asks.js";
import "./help.css";
import { IconButton } from "./parts/button.js";
import { listenToKeys, SHORTCUT_GROUPS } from "./shortcuts.js";
import { announce } from "./state/announce.js";
import type { Console } from "./state/console.js";
import { useConsole } from "./state/context.js";

/** Dialog with the keyboard shortcuts. */
export function Help() {
  const store = useConsole();
  const dialog = useRef<HTMLDialogElement>(null);
  const isOpen = store.openPanel.value === "help";
  useEffect(() => {
    if (isOpen) dialog.current?.showModal();
    else dialog.current?.close();
  }, [isOpen]);
  if (!isOpen) return null;
  const close = () => (store.openPanel.value = "");
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
          <h2 id="help-title">Keyboard shortcuts</h2>
          <IconButton icon="x" label="Close" onClick={close} />
        </header>
        {SHORTCUT_GROUPS.map(({ context, shortcuts }) => (
          <section key={context} aria-label={context}>
            <h3 class="help-context">{context}</h3>
            <dl class="help-keys">
              {shortcuts.map(({ keys, description }) => (
                <div key={keys.join(" ")}>
                  <dt>
                    {keys.map((key) => (
                      <kbd>{key}</kbd>
                    ))}
                  </dt>
                  <dd>{description}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </dialog>
  );
}

/** Installs the keyboard shortcuts. Returns a function that removes the shortcuts. */
export function installShortcuts(store: Console): () => void {
  const focusField = (id: string) => {
    const field = document.getElementById(id);
    field?.focus();
    return field !== null;
  };
  return listenToKeys(document, {
    toggleHelp: () => (store.openPanel.value = store.openPanel.peek() === "help" ? "" : "help"),
    openNewSession: () => store.navigate({ name: "new" }),
    focusSearch: () => {
      store.isDrawerOpen.value = isNarrow();
      // The field becomes visible only after the drawer is drawn.
      requestAnimationFrame(() => focusField("session-search"));
    },
    focusPrompt: () => focusField("prompt"),
    openRuns: () => store.navigate({ name: "runs" }),
    toggleSpending: () => {
      if (store.session.peek()) store.openPanel.value = store.openPanel.peek() === "spending" ? "" : "spending";
    },
    toggleTheme: () => (store.theme.value = store.theme.peek() === "dark" ? "light" : "dark"),
    focusAsk: () => focusAsk(),
    pressFirstEscape: () => {
      if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
      // The first Escape closes the open panel: a second Escape must not stop the run.
      if (store.isDrawerOpen.peek() || store.openPanel.peek() !== "") {
        store.isDrawerOpen.value = false;
        store.openPanel.value = "";
        return false;
      }
      if (store.session.peek()?.isBusy.peek()) announce("Press Escape again to stop the run");
      return true;
    },
    pressSecondEscape: () => {
      const session = store.session.peek();
      if (!session?.isBusy.peek()) return;
      announce("Stopping the run");
      void session.stop();
    },
  });
}

function isNarrow(): boolean {
  return matchMedia("(max-width: 720px)").matches;
}
