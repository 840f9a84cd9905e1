import { signal, type ReadonlySignal, type Signal } from "@preact/signals";
import { ApiError, BusyError, type ApiShellResult } from "gantry/client";
import type { Console } from "../state/console.js";
import { toErrorMessage } from "../state/error-message.js";
import type { TypedCommand } from "./typed-command.js";

/** Maximum characters of streamed output that are kept. The result has the beginning and the end of a longer output. */
const MAX_OUTPUT_CHARACTERS = 100_000;

/** A shell command of the user that runs or has run in this page. */
export interface PersonCommand extends TypedCommand {
  readonly key: number;
  readonly output: ReadonlySignal<string>;
  /** Undefined while the command runs, and if it was stopped. */
  readonly result: ReadonlySignal<ApiShellResult | undefined>;
  /** Why the command has no result; `""` while it runs. */
  readonly problem: ReadonlySignal<string>;
  stop(): void;
}

const commandsByStore = new WeakMap<Console, Map<string, Signal<readonly PersonCommand[]>>>();
let lastKey = 0;

/** The commands of a session, oldest first. */
export function getCommands(store: Console, sessionId: string): Signal<readonly PersonCommand[]> {
  let commandsBySessionId = commandsByStore.get(store);
  if (!commandsBySessionId)
    commandsByStore.set(store, (commandsBySessionId = new Map<string, Signal<readonly PersonCommand[]>>()));
  let commands = commandsBySessionId.get(sessionId);
  if (!commands) commandsBySessionId.set(sessionId, (commands = signal<readonly PersonCommand[]>([])));
  return commands;
}

/** Removes a command from the list, and stops it. */
export function removeCommand(store: Console, sessionId: string, command: PersonCommand): void {
  command.stop();
  const commands = getCommands(store, sessionId);
  commands.value = commands.peek().filter(({ key }) => key !== command.key);
}

/**
 * Runs a command and lists it. Rejects if the server has refused the command, which is then not listed; a command that
 * has printed something stays listed with its problem.
 */
export async function runCommand(store: Console, sessionId: string, typedCommand: TypedCommand): Promise<void> {
  const controller = new AbortController();
  const [output, result, problem] = [signal(""), signal<ApiShellResult | undefined>(undefined), signal("")];
  const stop = () => controller.abort();
  const command: PersonCommand = { ...typedCommand, key: (lastKey += 1), output, result, problem, stop };
  const commands = getCommands(store, sessionId);
  commands.value = [...commands.peek(), command];
  try {
    result.value = await store.client.sessions.shell(
      sessionId,
      { command: typedCommand.command, share: typedCommand.isShared },
      {
        signal: controller.signal,
        onOutput: (text) => (output.value = (output.peek() + text).slice(-MAX_OUTPUT_CHARACTERS)),
      },
    );
  } catch (error) {
    if (controller.signal.aborted) problem.value = "stopped";
    else if (output.peek() !== "") problem.value = toErrorMessage(error);
    else {
      removeCommand(store, sessionId, command);
      throw new Error(describeRefusal(error), { cause: error });
    }
  }
}

function describeRefusal(error: unknown): string {
  if (error instanceof BusyError)
    return "The command did not run: a run is active, and the model would see the command. !! runs it at once, without the model.";
  if (error instanceof ApiError && error.code === "commands_disabled")
    return "The command did not run: this server runs no commands of people (server.shell, or no tool bash).";
  return `The command did not run: ${toErrorMessage(error)}`;
}
