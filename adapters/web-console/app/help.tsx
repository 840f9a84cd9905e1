import { useEffect, useRef } from "preact/hooks";
import { IconButton } from "./parts/button.js";
import { useConsole } from "./state/context.js";

/** A shortcut in the help dialog. */
interface Shortcut {
  keys: readonly string[];
  description: string;
}

/** Shortcuts by the context in which they apply, in the order of the help dialog. */
const SHORTCUT_GROUPS: readonly { context: string; shortcuts: readonly Shortcut[] }[] = [
  {
    context: "Everywhere",
    shortcuts: [
      { keys: ["Ctrl", "K"], description: "Commands and sessions (Cmd K on a Mac)" },
      { keys: ["?"], description: "Show this list" },
      { keys: ["n"], description: "New session" },
      { keys: ["/"], description: "Search the sessions" },
      { keys: ["i"], description: "Go to the prompt" },
      { keys: ["g", "r"], description: "Runs of all sessions" },
      { keys: ["g", "q"], description: "Open questions of all sessions" },
      { keys: ["g", "m"], description: "Search the messages of all sessions" },
      { keys: ["g", "t"], description: "First message of the session" },
      { keys: ["g", "e"], description: "End of the session" },
      { keys: ["g", "s"], description: "Settings" },
      { keys: ["g", "c"], description: "Tokens and cost of the session" },
      { keys: ["Alt", "M"], description: "Next mode of the session" },
      { keys: ["t"], description: "Switch between dark and light" },
      { keys: ["Esc"], description: "Leave the field, close the open panel" },
      { keys: ["Esc", "Esc"], description: "Stop the run" },
    ],
  },
  {
    context: "While you write",
    shortcuts: [
      { keys: ["Enter"], description: "Send, or instruct the active run" },
      { keys: ["Shift", "Enter"], description: "New line" },
      { keys: ["@"], description: "Complete the path of a file" },
      { keys: ["!"], description: "Run a shell command; the model sees it (!! it does not)" },
      { keys: ["↑"], description: "In an empty field: earlier prompts" },
      { keys: ["Ctrl", "R"], description: "Search earlier prompts" },
      { keys: ["Ctrl", "V"], description: "Attach files from the clipboard" },
    ],
  },
  {
    context: "During a question of the run",
    shortcuts: [
      { keys: ["a"], description: "Go to the question" },
      { keys: ["1"], description: "Choose the first answer (2, 3, … the others)" },
    ],
  },
];

/** Dialog with the keyboard shortcuts. */
export function Help() {
  const store = useConsole();
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
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
