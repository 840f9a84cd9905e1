import type { LogFields, Logger } from "../ports/logger.js";
import { Redactor } from "./redact.js";

/** How much is told, from all to the least. */
export type LogLevel = "debug" | "info" | "warn" | "error";
const LEVELS: readonly LogLevel[] = ["debug", "info", "warn", "error"];

// Control characters would let a prompt or a provider forge lines of the log or drive a terminal.
// eslint-disable-next-line no-control-regex
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g;

function plain(value: unknown): unknown {
  if (value instanceof Error) {
    return {
      name: value.name,
      message: value.message,
      stack: value.stack,
      ...(value.cause ? { cause: plain(value.cause) } : {}),
    };
  }
  if (typeof value === "bigint") return String(value);
  return value;
}

/** A replacer that is given errors as they are, in place of what their `toJSON` leaves. */
function unfolded(this: Readonly<Record<string, unknown>>, key: string, value: unknown): unknown {
  return this[key] instanceof Error ? plain(this[key]) : plain(value);
}

/**
 * A logger that writes one line an entry: `<timestamp> <level> <message> {fields}`.
 * `write` gets the line without its end; `secrets` are redacted wherever they stand.
 */
export function createLogger(options: {
  level: LogLevel;
  write: (line: string) => void;
  secrets?: (() => Iterable<string>) | undefined;
}): Logger {
  const threshold = LEVELS.indexOf(options.level);
  const redactor = new Redactor(options.secrets ?? []);
  const log = (level: LogLevel) => {
    if (LEVELS.indexOf(level) < threshold) return () => undefined;
    return (message: string, fields?: LogFields): void => {
      let rest = "";
      if (fields !== undefined) {
        try {
          rest = ` ${JSON.stringify(fields, unfolded)}`;
        } catch {
          rest = " {unserialisable fields}";
        }
      }
      const line = `${new Date().toISOString()} ${level} ${message}${rest}`;
      options.write(redactor.redact(line).replace(CONTROL, " "));
    };
  };
  return { debug: log("debug"), info: log("info"), warn: log("warn"), error: log("error") };
}

/** The same logger with a name in front of each message. */
export function namedLogger(logger: Logger, name: string): Logger {
  return {
    debug: (message, fields) => logger.debug(`${name}: ${message}`, fields),
    info: (message, fields) => logger.info(`${name}: ${message}`, fields),
    warn: (message, fields) => logger.warn(`${name}: ${message}`, fields),
    error: (message, fields) => logger.error(`${name}: ${message}`, fields),
  };
}

/** The same logger with these fields in each line. */
export function loggerWith(logger: Logger, more: LogFields): Logger {
  return {
    debug: (message, fields) => logger.debug(message, { ...more, ...fields }),
    info: (message, fields) => logger.info(message, { ...more, ...fields }),
    warn: (message, fields) => logger.warn(message, { ...more, ...fields }),
    error: (message, fields) => logger.error(message, { ...more, ...fields }),
  };
}

/** Says nothing: the default of an embedded agent. */
export const silentLogger: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};
