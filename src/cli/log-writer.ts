import type { CommandOutput } from "./command.js";

/**
 * Returns a function that reports a line of the logger on stderr. The line is formatted for a person if stderr is a
 * terminal, and unchanged for programs.
 */
export async function createLogWriter(
  output: Pick<CommandOutput, "columns" | "report">,
): Promise<(line: string) => void> {
  if (output.columns === undefined) return (line) => output.report(line);
  const { formatLogLine } = await import("./log-lines.js");
  return (line) => output.report(formatLogLine(line));
}
