import { effect } from "@preact/signals";
import { render } from "preact";
import { GantryClient, McpServersClient } from "gantry/client";
import { watchAttention } from "./attention/watch-attention.js";
import { installEscapeHook } from "./content/escape-hook.js";
import { App, LoginRequired } from "./frame/app.js";
import { installShortcuts } from "./shortcut-actions.js";
import { forgetHeaders, LinkError, logIn, fetchPersonHeaders, takeCode } from "./login.js";
import { Console } from "./state/console.js";
import { ConsoleContext } from "./state/context.js";
import { LiveEvents } from "./state/live-events.js";
import type { LiveHandlers } from "./state/live-source.js";
import { storeTheme, readPreferredTheme, showTheme } from "./state/theme.js";
import { toErrorMessage } from "./state/error-message.js";

const root = document.getElementById("app") ?? document.body;
showTheme(readPreferredTheme());
installEscapeHook();

/**
 * Logs in and calls `onLogin` with the headers. `code`: the code of a link, or undefined. If the login fails, shows the
 * reason.
 */
async function logInAndContinue(
  code: string | undefined,
  onLogin: (headers: Record<string, string>) => void,
): Promise<void> {
  try {
    onLogin(await logIn(code));
  } catch (error) {
    const isLinkError = error instanceof LinkError;
    const retry = isLinkError ? undefined : () => void logInAndContinue(code, onLogin);
    render(<LoginRequired reason={isLinkError ? error.message : toErrorMessage(error)} retry={retry} />, root);
  }
}

function showPage(headers: Record<string, string>): void {
  // The page does not wait for the token, which only a few requests need.
  let currentTokenHeaders: Record<string, string> = {};
  void fetchPersonHeaders().then((tokenHeaders = {}) => (currentTokenHeaders = tokenHeaders));
  const options = { headers: () => ({ ...currentTokenHeaders, ...headers }), personHeaders: fetchPersonHeaders };
  const client = new GantryClient(options);
  const openEvents = (handlers: LiveHandlers) => new LiveEvents(headers, handlers);
  const store = new Console(client, new McpServersClient(options), openEvents);
  effect(() => {
    if (store.isLocked.value) forgetHeaders(headers);
  });
  let isFirstRun = true;
  effect(() => {
    const theme = store.theme.value;
    // The first theme is not stored: the page follows the system's theme until the user chooses one.
    if (!isFirstRun) storeTheme(theme);
    isFirstRun = false;
  });
  store.start();
  watchAttention(store);
  installShortcuts(store);
  render(
    <ConsoleContext.Provider value={store}>
      <App />
    </ConsoleContext.Provider>,
    root,
  );
}

// Opening a login link in an already loaded page only changes the fragment. Restore the previous fragment and reload
// the page. The router registers its listener later and does not see this event.
addEventListener("hashchange", (event) => {
  const code = takeCode(new URL(event.oldURL).hash);
  if (code === undefined) return;
  event.stopImmediatePropagation();
  void logInAndContinue(code, () => location.reload());
});
void logInAndContinue(takeCode(), showPage);
