/** Structured fields of a log line. Values must be JSON-serialisable. */
export type LogFields = Readonly<Record<string, unknown>>;

/** Log of the kernel and the adapters. Implementations redact secrets; callers never log a prompt or a key. */
export interface Logger {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
}
