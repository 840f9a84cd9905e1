import { effect } from "@preact/signals";
import { render } from "preact";
import { GantryClient } from "gantry/client";
import { escapeAllText } from "./content/show-as-seen.js";
import { App, Locked } from "./frame/app.js";
import { installShortcuts } from "./help.js";
import { forgetHeaders, LinkError, logIn, personHeaders, takeCode } from "./login.js";
import { Console } from "./state/console.js";
import { ConsoleContext } from "./state/context.js";
import { keepTheme, preferredTheme, showTheme } from "./state/theme.js";
import { errorMessage } from "./state/words.js";

const root = document.getElementById("app") ?? document.body;
showTheme(preferredTheme());
escapeAllText();

/**
 * Logs in, with a link's code if there is one, and calls `go` with the headers. Otherwise shows why the login failed.
 */
async function enter(code: string | undefined, go: (headers: Record<string, string>) => void): Promise<void> {
  try {
    go(await logIn(code));
  } catch (error) {
    const isLinkError = error instanceof LinkError;
    const again = isLinkError ? undefined : () => void enter(code, go);
    render(<Locked reason={isLinkError ? error.message : errorMessage(error)} again={again} />, root);
  }
}

function show(headers: Record<string, string>): void {
  // The page does not wait for the token, which only a few requests need.
  let token: Record<string, string> = {};
  void personHeaders().then((tokenHeaders = {}) => (token = tokenHeaders));
  const store = new Console(new GantryClient({ headers: () => ({ ...headers, ...token }), personHeaders }));
  effect(() => {
    if (store.locked.value) forgetHeaders(headers);
  });
  let first = true;
  effect(() => {
    const theme = store.theme.value;
    // Follow the system's theme until the user chooses one.
    if (!first) keepTheme(theme);
    first = false;
  });
  store.start();
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
  void enter(code, () => location.reload());
});
void enter(takeCode(), show);
