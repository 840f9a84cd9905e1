import type { CommandEntry } from "./completion.js";
import type { PromptHost } from "./prompt.js";
import type { StoreOptions } from "./store-options.js";

/** Services that the host needs from the state of the terminal. */
interface HostServices extends Pick<PromptHost, "submit"> {
  readonly signal: AbortSignal;
  /** Project folder of the session; undefined before the session exists. */
  getFolder(): string | undefined;
  loadAgentCommands(): Promise<CommandEntry[]>;
  /** Starts an asynchronous action and shows its error. */
  attempt(work: () => Promise<unknown>): void;
}

/** Creates the services of the prompt, which loads suggestions from the agent and from the project folder. */
export function createPromptHost<Store>(
  { listFiles, loadCommands }: StoreOptions<Store>,
  { signal, getFolder, loadAgentCommands, attempt, submit }: HostServices,
): PromptHost {
  return {
    findCommands: (onFound) =>
      attempt(async () => {
        // Loaded while the command is typed, so that commands and prompts are sent in the order of the Enter keys.
        const { COMMANDS: ownCommands } = await loadCommands();
        onFound(ownCommands);
        onFound([...ownCommands, ...(await loadAgentCommands().catch(() => []))]);
      }),
    findFiles: listFiles && ((onFound) => attempt(async () => onFound(await listFiles(getFolder(), signal)))),
    submit,
  };
}
