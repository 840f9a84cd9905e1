/** A shell command that a person runs in a session. */
export interface UserCommand {
  /** The command, at most 128 KiB. */
  command: string;
  /** Whether to store command and output in the conversation, so that the model reads them. Default: true. */
  share?: boolean | undefined;
  /** Time limit in seconds, at most 600. Default: the limit of the tool `bash`. */
  timeout?: number | undefined;
  /** Stops the command with all processes that it started. */
  signal?: AbortSignal | undefined;
  /** Receives the output while the command runs. Fast output is reduced to its end. */
  onOutput?: ((text: string) => void) | undefined;
}

/** The result of a person's command. */
export interface UserCommandResult {
  /** Null if a signal or the time limit ended the command. */
  exitCode: number | null;
  /** Both output streams in their order, cleaned, without secrets; at most 30 kB. */
  output: string;
  /** Whether the middle of the output was removed. */
  truncated: boolean;
  /** Whether the time limit ended the command. */
  timedOut: boolean;
  /** Id of the stored message; null if the command was not shared. */
  messageId: string | null;
}
