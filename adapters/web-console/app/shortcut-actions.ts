import { focusAsk } from "./asks.js";
import { switchMode } from "./mode-switch.js";
import { listenToKeys } from "./shortcuts.js";
import { announce } from "./state/announce.js";
import type { Console } from "./state/console.js";

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
    openQuestions: () => store.navigate({ name: "questions" }),
    openSearch: () => store.navigate({ name: "search" }),
    openSettings: () => store.navigate({ name: "settings" }),
    togglePalette: () => (store.openPanel.value = store.openPanel.peek() === "palette" ? "" : "palette"),
    switchMode: () => switchMode(store),
    toggleSpending: () => {
      if (store.session.peek()) store.openPanel.value = store.openPanel.peek() === "spending" ? "" : "spending";
    },
    goToFirstMessage: () => store.session.peek()?.jump.toFirst(),
    goToEnd: () => store.session.peek()?.jump.toEnd(),
    toggleTheme: () => (store.theme.value = store.theme.peek() === "dark" ? "light" : "dark"),
    focusAsk: () => focusAsk(),
    pressFirstEscape: () => {
      if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
      const route = store.route.peek();
      if (route.name === "session" && route.file) {
        store.navigate({ name: "session", id: route.id });
        return false;
      }
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
