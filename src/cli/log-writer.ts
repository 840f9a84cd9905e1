import { createLogger, type LogLevel } from "../base/log.js";
import type { Logger } from "../ports/logger.js";
import type { LoadedConfig } from "../serve/config.js";
import type { CommandOutput } from "./command.js";

/** Where a command logs to, and from which level. */
interface LogTarget extends Pick<CommandOutput, "columns" | "report"> {
  /** Default: `log.level` of the config. */
  level?: LogLevel;
}

/**
 * Creates the logger of a command, which writes to stderr. With `log.format` `json`, each line is a JSON object. Text
 * is formatted for a person if stderr is a terminal, and has its fields as JSON for programs.
 */
export async function createCommandLogger(
  { config: { log }, secrets }: Pick<LoadedConfig, "config" | "secrets">,
  target: LogTarget,
): Promise<Logger> {
  const { level = log.level, columns } = target;
  const isJson = log.format === "json";
  const format = isJson ? (await import("../base/json-log.js")).formatJsonEntry : undefined;
  const toLine = isJson || columns === undefined ? undefined : (await import("./log-lines.js")).formatLogLine;
  const write = (line: string) => target.report(toLine ? toLine(line) : line);
  return createLogger({ level, secrets: () => secrets, format, write });
}
