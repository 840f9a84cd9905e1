import { effect } from "@preact/signals";
import { render } from "preact";
import { GantryClient } from "gantry/client";
import { showAsSeen } from "./content/show-as-seen.js";
import { App, Locked } from "./frame/app.js";
import { installShortcuts } from "./help.js";
import { forgetHeaders, LinkError, logIn, personHeaders, takeCode } from "./login.js";
import { Console } from "./state/console.js";
import { ConsoleContext } from "./state/context.js";
import { keepTheme, preferredTheme, showTheme } from "./state/theme.js";
import { wordsOf } from "./state/words.js";

const root = document.getElementById("app") ?? document.body;
showTheme(preferredTheme());
showAsSeen();

/** Log in, by a link where there is one, and go on with what lets this page in; else say why not. */
async function enter(code: string | undefined, go: (headers: Record<string, string>) => void): Promise<void> {
  try {
    go(await logIn(code));
  } catch (error) {
    const known = error instanceof LinkError;
    const again = known ? undefined : () => void enter(code, go);
    render(<Locked reason={known ? error.message : wordsOf(error)} again={again} />, root);
  }
}

function show(headers: Record<string, string>): void {
  // The page does not wait for the token, which only a few requests need.
  let token: Record<string, string> = {};
  void personHeaders().then((own = {}) => (token = own));
  const store = new Console(new GantryClient({ headers: () => ({ ...headers, ...token }), personHeaders }));
  effect(() => {
    if (store.locked.value) forgetHeaders(headers);
  });
  let first = true;
  effect(() => {
    const theme = store.theme.value;
    // The system's choice holds until somebody makes another.
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

// A link that is opened in a page that is here already loads nothing. The page goes back to what it showed, and begins anew;
// the router, which listens from later on, does not hear of it.
addEventListener("hashchange", (event) => {
  const code = takeCode(new URL(event.oldURL).hash);
  if (code === undefined) return;
  event.stopImmediatePropagation();
  void enter(code, () => location.reload());
});
void enter(takeCode(), show);
