import type { GantryClient } from "gantry/client";
import type { NewSessionOptions } from "./conversation.js";
import type { StateFiles } from "./state-files.js";

/** Options of the state of a terminal. `Store`: the class of the state, which commands change. */
export interface StoreOptions<Store> {
  client: GantryClient;
  /** Settings of new sessions. */
  newSessionOptions: NewSessionOptions;
  /** Lists the files that `@` suggests, from a folder on this machine. Undefined: no suggestions. */
  listFiles?: ((folder: string | undefined, signal: AbortSignal) => Promise<readonly string[]>) | undefined;
  /** Lists only sessions of this folder. Undefined: all sessions. */
  projectDir?: string | undefined;
  /** Location for the first line of the screen: a folder or a server. */
  location: string;
  /** Files of unsent texts, history and settings. Resolves with undefined, or is absent, if nothing is stored. */
  stateFiles?: Promise<StateFiles | undefined>;
  /** Loads the terminal's own commands, and the function that runs a line with a command of the terminal or agent. */
  loadCommands: () => Promise<{
    COMMANDS: readonly (readonly [name: string, description: string])[];
    runCommand: (store: Store, line: string) => void;
    searchHistory: (store: Store) => void;
  }>;
  /** Rings the bell of the terminal. */
  ringBell?: () => void;
  requestExit: () => void;
  /** Returns the terminal to the shell. */
  suspend: () => void;
  /** Opens a text in the editor of the user. Rejects if the editor fails. Default: no editor. */
  editText?: (text: string) => Promise<string>;
  /** Returns the images of this machine that a prompt names. Undefined: prompts attach no images. */
  findImages?: (text: string) => Promise<readonly string[]>;
  /** Sets whether the program handles the wheel, not the terminal. */
  setWheel: (isEnabled: boolean) => void;
  /** Monotonic clock, in ms. Default: `performance.now`. */
  now?: () => number;
}
