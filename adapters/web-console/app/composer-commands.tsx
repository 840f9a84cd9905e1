import { useSignal, type Signal } from "@preact/signals";
import type { Command, GantryClient } from "gantry/client";
import { useEffect } from "preact/hooks";

const MAX_SUGGESTIONS = 8;
/** Time for which the list of commands is cached, in ms. */
const COMMAND_CACHE_MS = 5_000;

/** The available slash commands, and the suggestions for the current text. */
export class CommandSuggestions {
  readonly #commands: Signal<readonly Command[]>;
  readonly #at: Signal<number>;
  readonly #text: Signal<string>;

  constructor(commands: Signal<readonly Command[]>, at: Signal<number>, text: Signal<string>) {
    this.#commands = commands;
    this.#at = at;
    this.#text = text;
  }

  /** Commands whose name starts with the typed word. Empty once the name is followed by a space. */
  get suggestions(): readonly Command[] {
    const [, word] = /^\/(\S*)$/.exec(this.#text.value) ?? [];
    if (word === undefined) return [];
    return this.#commands.value.filter(({ name }) => name.startsWith(word)).slice(0, MAX_SUGGESTIONS);
  }

  get chosen(): number {
    return Math.min(this.#at.value, this.suggestions.length - 1);
  }

  /** Whether a prompt is a command, which cannot be sent to a running run. */
  isCommand(prompt: string): boolean {
    const [, word] = /^\/(\S+)/.exec(prompt.trim()) ?? [];
    return this.#commands.value.some(({ name }) => name === word);
  }

  /** Handles a key of the list and returns true, or false for other keys. `take` receives the new prompt text. */
  press({ key, shiftKey }: KeyboardEvent, take: (text: string) => void): boolean {
    const { suggestions, chosen } = this;
    const command = suggestions[chosen];
    if (!command || shiftKey) return false;
    if (key === "ArrowDown" || key === "ArrowUp")
      this.#at.value = (chosen + (key === "ArrowDown" ? 1 : suggestions.length - 1)) % suggestions.length;
    else if (key === "Tab" || (key === "Enter" && this.#text.value !== `/${command.name}`)) take(`/${command.name} `);
    else return false;
    return true;
  }
}

/** Loads the commands of a session, or of a new session's folder, when the user types a slash. */
export function useCommands(
  client: GantryClient,
  text: Signal<string>,
  sessionId: string | undefined,
  projectDir: string,
): CommandSuggestions {
  const commands = useSignal<readonly Command[]>([]);
  const at = useSignal(0);
  const requestedAt = useSignal(-Infinity);
  const isWanted = text.value.startsWith("/");
  useEffect(() => {
    at.value = 0;
    if (!isWanted || performance.now() - requestedAt.peek() < COMMAND_CACHE_MS) return;
    requestedAt.value = performance.now();
    const of = sessionId === undefined ? (projectDir === "" ? {} : { projectDir }) : { sessionId };
    // If loading fails, the text is sent as a normal prompt.
    client.commands(of).then(
      (all) => (commands.value = all),
      () => (commands.value = []),
    );
  }, [text.value]);
  return new CommandSuggestions(commands, at, text);
}

/** The list of suggestions above the prompt. */
export function ComposerCommands({ commands, take }: { commands: CommandSuggestions; take: (text: string) => void }) {
  const { suggestions, chosen } = commands;
  if (suggestions.length === 0) return null;
  return (
    <ul class="composer-commands" role="listbox" aria-label="Commands" id="composer-commands">
      {suggestions.map(({ name, description, hint, origin }, at) => (
        <li
          key={name}
          class="composer-command"
          role="option"
          aria-selected={at === chosen}
          title={origin}
          onMouseDown={(event) => {
            // Keeps the focus in the prompt.
            event.preventDefault();
            take(`/${name} `);
          }}
        >
          <bdi class="composer-command-name clipped">
            /{name} {hint}
          </bdi>
          <bdi class="composer-command-about clipped">{description}</bdi>
        </li>
      ))}
    </ul>
  );
}
