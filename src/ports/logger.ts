/** Structured fields of a log line; values must be JSON-serialisable. */
export type LogFields = Readonly<Record<string, unknown>>;

/** Where the kernel and the adapters report. Implementations redact secrets; callers never log a prompt or a key. */
export interface Logger {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
}
