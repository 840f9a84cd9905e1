import type { LogFields, Logger } from "./ports/logger.js";

export type LogLevel = "debug" | "info" | "warn" | "error";
const LEVELS: readonly LogLevel[] = ["debug", "info", "warn", "error"];

/** Shapes of keys that never appear in a log, whoever they belong to. */
const KEY_PATTERNS: readonly RegExp[] = [
  /\b(?:sk|pk|rk|xai|gsk|csk|nvapi|fw|pplx|hf|r8)[-_][A-Za-z0-9_-]{16,}/g,
  /\bAIza[A-Za-z0-9_-]{30,}/g,
  /\b(?:ghp|gho|ghs|ghu|github_pat|glpat)[-_][A-Za-z0-9_-]{16,}/g,
  /\bAKIA[A-Z0-9]{16}\b/g,
  /\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=-]{8,}/gi,
  /\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*/g,
];

/** Replaces the secrets given, of four characters and more, wherever they stand in a text. */
export function hideSecrets(text: string, secrets: Iterable<string>): string {
  let result = text;
  for (const secret of secrets) {
    if (secret.length < 4) continue;
    // In JSON some characters of it are escaped.
    for (const form of new Set([secret, JSON.stringify(secret).slice(1, -1)])) {
      result = result.split(form).join("[redacted]");
    }
  }
  return result;
}

/** Replaces secrets in a text: those given, and whatever looks like a key. */
export function redact(text: string, secrets: Iterable<string> = []): string {
  let result = hideSecrets(text, secrets);
  for (const pattern of KEY_PATTERNS) {
    result = result.replace(pattern, (_match, scheme: unknown) =>
      typeof scheme === "string" ? `${scheme} [redacted]` : "[redacted]",
    );
  }
  return result;
}

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

/**
 * A logger that writes one line an entry: `<timestamp> <level> <message> {fields}`.
 * `write` gets the line without its end; `secrets` are redacted wherever they stand.
 */
export function createLogger(options: {
  level: LogLevel;
  write: (line: string) => void;
  secrets?: () => Iterable<string>;
}): Logger {
  const threshold = LEVELS.indexOf(options.level);
  const log = (level: LogLevel) => {
    if (LEVELS.indexOf(level) < threshold) return () => undefined;
    return (message: string, fields?: LogFields): void => {
      let rest = "";
      if (fields !== undefined) {
        try {
          rest = ` ${JSON.stringify(fields, (_key, value: unknown) => plain(value))}`;
        } catch {
          rest = " {unserialisable fields}";
        }
      }
      const line = `${new Date().toISOString()} ${level} ${message}${rest}`;
      options.write(redact(line, options.secrets?.()).replace(CONTROL, " "));
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

/** Says nothing: the default of an embedded agent. */
export const silentLogger: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};
