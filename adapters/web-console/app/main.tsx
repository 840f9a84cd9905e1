import { effect } from "@preact/signals";
import { render } from "preact";
import { GantryClient } from "gantry/client";
import { showAsSeen } from "./content/show-as-seen.js";
import { App, Locked } from "./frame/app.js";
import { installShortcuts } from "./help.js";
import { forgetHeaders, LinkError, logIn } from "./login.js";
import { Console } from "./state/console.js";
import { ConsoleContext } from "./state/context.js";
import { keepTheme, preferredTheme, showTheme } from "./state/theme.js";
import { wordsOf } from "./state/words.js";

const root = document.getElementById("app") ?? document.body;
showTheme(preferredTheme());
showAsSeen();

/** Show the console, to whoever may see it. */
async function main(): Promise<void> {
  const headers = await logIn();
  const store = new Console(new GantryClient({ headers }));
  effect(() => {
    if (store.locked.value) forgetHeaders();
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

main().catch((error: unknown) =>
  render(<Locked reason={error instanceof LinkError ? error.message : wordsOf(error)} />, root),
);
