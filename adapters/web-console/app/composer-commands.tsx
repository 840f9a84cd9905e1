import { useSignal, type ReadonlySignal, type Signal } from "@preact/signals";
import type { Command, GantryClient } from "gantry/client";
import { useEffect } from "preact/hooks";
import type { WatchedSession } from "./state/watched-session.js";

const MAX_SUGGESTIONS = 8;
/** Time after a request in which the loaded commands are used again, in ms. */
const COMMAND_CACHE_MS = 5_000;

/** Commands of a session that the page executes. A command of the server with the same name replaces them. */
const PAGE_COMMANDS: readonly Command[] = (
  [
    ["undo", "Undo the last run with its files"],
    ["redo", "Revert the last undo or rewind"],
  ] as const
).map(([name, description]) => ({ name, description, hint: "", origin: "console" }));

/** The available slash commands, and the suggestions for the current text. */
export class CommandSuggestions {
  readonly #commands: Signal<readonly Command[]>;
  readonly #index: Signal<number>;
  readonly #text: ReadonlySignal<string>;

  constructor(commands: Signal<readonly Command[]>, index: Signal<number>, text: ReadonlySignal<string>) {
    this.#commands = commands;
    this.#index = index;
    this.#text = text;
  }

  /** Commands whose name starts with the typed word. Empty once the name is followed by a space. */
  get suggestions(): readonly Command[] {
    const [, word] = /^\/(\S*)$/.exec(this.#text.value) ?? [];
    if (word === undefined) return [];
    return this.#commands.value.filter(({ name }) => name.startsWith(word)).slice(0, MAX_SUGGESTIONS);
  }

  /** Index of the selected suggestion; -1 if there are no suggestions. */
  get selectedIndex(): number {
    return Math.min(this.#index.value, this.suggestions.length - 1);
  }

  /** Whether a prompt is a command, which cannot be sent to a running run. */
  isCommand(prompt: string): boolean {
    const [, word] = /^\/(\S+)/.exec(prompt.trim()) ?? [];
    return this.#commands.value.some(({ name }) => name === word);
  }

  /** The command of a prompt that the page executes; undefined for other prompts. */
  findPageCommand(prompt: string): "undo" | "redo" | undefined {
    const command = this.#commands.value.find(({ name }) => `/${name}` === prompt.trim());
    if (!command || !PAGE_COMMANDS.includes(command)) return undefined;
    return command.name === "undo" ? "undo" : "redo";
  }

  /** Handles a key of the list. Returns false for other keys. `setPrompt` receives the new text of the prompt. */
  handleKey({ key, shiftKey }: KeyboardEvent, setPrompt: (text: string) => void): boolean {
    const { suggestions, selectedIndex } = this;
    const command = suggestions[selectedIndex];
    if (!command || shiftKey) return false;
    if (key === "ArrowDown" || key === "ArrowUp")
      this.#index.value = (selectedIndex + (key === "ArrowDown" ? 1 : suggestions.length - 1)) % suggestions.length;
    else if (key === "Tab" || (key === "Enter" && this.#text.value !== `/${command.name}`))
      setPrompt(`/${command.name} `);
    else return false;
    return true;
  }
}

/** Loads the commands of a session, or of a new session's folder, when the user types a slash. */
export function useCommands(
  client: GantryClient,
  text: ReadonlySignal<string>,
  session: WatchedSession | undefined,
  projectDir: string,
): CommandSuggestions {
  const commands = useSignal<readonly Command[]>([]);
  const index = useSignal(0);
  const requestedAtMs = useSignal(-Infinity);
  const isCommandText = text.value.startsWith("/");
  useEffect(() => {
    index.value = 0;
    if (!isCommandText || performance.now() - requestedAtMs.peek() < COMMAND_CACHE_MS) return;
    requestedAtMs.value = performance.now();
    const scope = session ? { sessionId: session.id } : projectDir === "" ? {} : { projectDir };
    // If loading fails, the text is sent as a normal prompt.
    client.commands(scope).then(
      (loadedCommands) => (commands.value = withPageCommands(loadedCommands, session)),
      () => (commands.value = withPageCommands([], session)),
    );
  }, [text.value]);
  return new CommandSuggestions(commands, index, text);
}

/** A subagent's session has no commands of the page: the session of its parent undoes its work. */
function withPageCommands(commands: readonly Command[], session: WatchedSession | undefined): readonly Command[] {
  if (!session || session.info.peek()?.spawned_by) return commands;
  const names = new Set(commands.map(({ name }) => name));
  return [...commands, ...PAGE_COMMANDS.filter(({ name }) => !names.has(name))];
}

/** The list of suggestions above the prompt. */
export function ComposerCommands({
  commands,
  setPrompt,
}: {
  commands: CommandSuggestions;
  setPrompt: (text: string) => void;
}) {
  const { suggestions, selectedIndex } = commands;
  if (suggestions.length === 0) return null;
  return (
    <ul class="composer-commands" role="listbox" aria-label="Commands" id="composer-commands">
      {suggestions.map(({ name, description, hint, origin }, index) => (
        <li
          key={name}
          class="composer-command"
          role="option"
          aria-selected={index === selectedIndex}
          title={origin}
          onMouseDown={(event) => {
            // Keeps the focus in the prompt.
            event.preventDefault();
            setPrompt(`/${name} `);
          }}
        >
          <bdi class="composer-command-name clipped">
            /{name} {hint}
          </bdi>
          <bdi class="composer-command-description clipped">{description}</bdi>
        </li>
      ))}
    </ul>
  );
}
