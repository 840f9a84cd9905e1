import type { ComponentChildren } from "preact";
import type { ApiMessage } from "gantry/client";
import { escapeInvisible } from "../content/escape.js";
import { IconButton } from "../parts/button.js";
import { Icon } from "../parts/icon.js";
import { useConsole } from "../state/context.js";
import type { WatchedSession } from "../state/watched-session.js";
import { Output } from "../timeline/output.js";
import { getCommands, removeCommand, type PersonCommand } from "./person-commands.js";

/** Matches the text that the model receives for a command. */
const EXPANDED_PATTERN = /<user-command-output>\n([^]*)\n<\/user-command-output>$/;

/** A stored message of a command, with its output. */
export function StoredCommand({ message }: { message: ApiMessage }) {
  const text = typeof message.content === "string" ? message.content : "";
  const [, escapedOutput = ""] = EXPANDED_PATTERN.exec(message.expanded_content ?? "") ?? [];
  return (
    <CommandFrame
      command={text.slice(1)}
      output={escapedOutput.replace(/&lt;(?=[\s/]*user-command)/gi, "<")}
      note="shown to the model"
    />
  );
}

/** The commands that run, and those that are in no message. */
export function CommandRows({ session }: { session: WatchedSession }) {
  const store = useConsole();
  const rows = session.rows.value;
  const isStored = ({ result }: PersonCommand) => {
    const messageId = result.value?.message_id;
    return typeof messageId === "string" && rows.findLast(({ key }) => key === messageId) !== undefined;
  };
  return (
    <>
      {getCommands(store, session.id)
        .value.filter((command) => !isStored(command))
        .map((command) => (
          <CommandRow key={command.key} command={command} onRemoved={() => removeCommand(store, session.id, command)} />
        ))}
    </>
  );
}

function CommandRow({ command, onRemoved }: { command: PersonCommand; onRemoved: () => void }) {
  const result = command.result.value;
  const problem = command.problem.value;
  const isRunning = !result && problem === "";
  const end = result ? describeEnd(result.exit_code, result.timed_out) : problem;
  return (
    <CommandFrame
      command={command.command}
      output={result?.output ?? command.output.value}
      isRunning={isRunning}
      note={[end, command.isShared && !problem ? "" : "not shown to the model"].filter(Boolean).join(" · ")}
    >
      {isRunning ? (
        <button type="button" class="button danger" onClick={() => command.stop()}>
          <Icon name="stop" /> Stop the command
        </button>
      ) : (
        <IconButton icon="x" label="Remove the command" onClick={onRemoved} />
      )}
    </CommandFrame>
  );
}

interface CommandFrameProps {
  command: string;
  output: string;
  note: string;
  isRunning?: boolean;
  children?: ComponentChildren;
}

function CommandFrame({ command, output, note, isRunning = false, children }: CommandFrameProps) {
  return (
    <div class="person-command" role="group" aria-label="Your command">
      <div class="person-command-head">
        <Icon name="terminal" />
        <code>{escapeInvisible(command)}</code>
        {isRunning && <span class="spinner" role="img" aria-label="running" />}
        {children}
      </div>
      {output !== "" && <Output text={output} isStreaming={isRunning} />}
      {note !== "" && <p class="person-command-note">{note}</p>}
    </div>
  );
}

function describeEnd(exitCode: number | null, isTimedOut: boolean): string {
  if (isTimedOut) return "ended by the time limit";
  return exitCode === null ? "ended by a signal" : exitCode === 0 ? "" : `exit code ${exitCode}`;
}
