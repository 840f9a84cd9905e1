import type { LogFields, Logger } from "../ports/logger.js";
import { Redactor } from "./redact.js";

/** Levels from the most to the least output. */
export type LogLevel = "debug" | "info" | "warn" | "error";
const LEVELS: readonly LogLevel[] = ["debug", "info", "warn", "error"];

// With control characters, a prompt or a provider could forge log lines or control a terminal.
// eslint-disable-next-line no-control-regex
const CONTROL_CHARACTERS = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g;

function toPlainValue(value: unknown): unknown {
  if (value instanceof Error) {
    return {
      name: value.name,
      message: value.message,
      stack: value.stack,
      ...(value.cause ? { cause: toPlainValue(value.cause) } : {}),
    };
  }
  if (typeof value === "bigint") return String(value);
  return value;
}

/** JSON replacer that serialises the fields of an `Error` instead of the result of its `toJSON`. */
function serializeErrors(this: Readonly<Record<string, unknown>>, key: string, value: unknown): unknown {
  return this[key] instanceof Error ? toPlainValue(this[key]) : toPlainValue(value);
}

/**
 * Returns the line of an entry, before secrets and control characters are replaced. `fieldsText`: the fields as JSON;
 * `""` without fields; another text for fields that JSON cannot contain.
 */
export type LogFormatter = (time: string, level: LogLevel, message: string, fieldsText: string) => string;

const formatText: LogFormatter = (time, level, message, fieldsText) =>
  `${time} ${level} ${message}${fieldsText === "" ? "" : ` ${fieldsText}`}`;

/**
 * Creates a logger that writes one line per entry, by default `<timestamp> <level> <message> {fields}`. `write` receives
 * the line without a line end. `secrets` are redacted anywhere in the line.
 */
export function createLogger(options: {
  level: LogLevel;
  write: (line: string) => void;
  secrets?: (() => Iterable<string>) | undefined;
  format?: LogFormatter | undefined;
}): Logger {
  const { format = formatText } = options;
  const threshold = LEVELS.indexOf(options.level);
  const redactor = new Redactor(options.secrets ?? []);
  const createMethod = (level: LogLevel) => {
    if (LEVELS.indexOf(level) < threshold) return () => undefined;
    return (message: string, fields?: LogFields): void => {
      let fieldsText = "";
      if (fields !== undefined) {
        try {
          fieldsText = JSON.stringify(fields, serializeErrors);
        } catch {
          fieldsText = "{unserialisable fields}";
        }
      }
      const line = format(new Date().toISOString(), level, message, fieldsText);
      options.write(redactor.redact(line).replace(CONTROL_CHARACTERS, " "));
    };
  };
  return createMethods(createMethod);
}

type LogMethod = Logger[LogLevel];

function createMethods(createMethod: (level: LogLevel) => LogMethod): Logger {
  return {
    debug: createMethod("debug"),
    info: createMethod("info"),
    warn: createMethod("warn"),
    error: createMethod("error"),
  };
}

/** Creates a logger that writes to `logger`, with `name: ` before each message. */
export function createNamedLogger(logger: Logger, name: string): Logger {
  return createMethods((level) => (message, fields) => logger[level](`${name}: ${message}`, fields));
}

/**
 * Creates a logger that writes to `logger`, with the fields of `getFields` in each entry. It is called for each entry.
 * Fields of the entry take precedence.
 */
export function createLoggerWithFields(logger: Logger, getFields: () => LogFields): Logger {
  return createMethods((level) => (message, fields) => logger[level](message, { ...getFields(), ...fields }));
}

/** Writes nothing. Default of an embedded agent. */
export const silentLogger: Logger = createMethods(() => () => undefined);
