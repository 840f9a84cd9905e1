/** A shell command that the user has typed as `!command`, or as `!!command`, which the model does not see. */
export interface TypedCommand {
  command: string;
  isShared: boolean;
}

/** Reads a typed command; undefined for a prompt. A space before the `!` makes the text a prompt. */
export function readTypedCommand(text: string): TypedCommand | undefined {
  const [, marks, command = ""] = /^(!!?)\s*(\S[^]*)$/.exec(text) ?? [];
  return marks === undefined ? undefined : { command: command.trimEnd(), isShared: marks === "!" };
}
