import { StoreError } from "gantry";

/** Returns the error code of PostgreSQL (SQLSTATE), the system (`E...`) or `pg`; `""` if there is none. */
export function errorCode(error: unknown): string {
  const code = error instanceof Error ? (error as { code?: unknown }).code : undefined;
  return typeof code === "string" ? code : "";
}

/** Whether the error ends the connection, so that the statement can be repeated on another connection. */
export function isConnectionLost(error: unknown): boolean {
  const code = errorCode(error);
  // 25006: the server became read-only after a failover. 57P: the server is shutting down or starting.
  if (/^(08...|57P0.|25006|E[A-Z_]+)$/.test(code)) return true;
  return (
    code === "" &&
    error instanceof Error &&
    /^(Connection terminated|Client (has|was)|timeout expired)/.test(error.message)
  );
}

/** Whether the server aborted the statement because of a conflict. The statement then had no effect. */
export function isConflict(error: unknown): boolean {
  return /^(40001|40P01)$/.test(errorCode(error));
}

const ADVICE_BY_CODE: readonly (readonly [
  pattern: RegExp,
  text: string,
  flags?: { isPermanent?: true; isDiskFull?: true },
])[] = [
  [/^28P01$/, "the server refuses the user or the password of session.url", { isPermanent: true }],
  [
    /^28...$/,
    "the server rejects this kind of connection; check its pg_hba.conf, or add ?sslmode=require to session.url",
    { isPermanent: true },
  ],
  [/^3D000$/, "the database does not exist; create it, or name another in session.url", { isPermanent: true }],
  [/^42501$/, "the user of session.url lacks a required privilege", { isPermanent: true }],
  [
    /^53300$/,
    "the server has no connection left; raise its max_connections, lower session.pool, or put a pooler in between",
  ],
  [/^53100$/, "no space left on the server's disk; free some space and retry", { isDiskFull: true }],
  [/^53...$/, "the server lacks memory or another resource"],
  [/^54...$/, "an id, a key or a message is longer than the database can hold"],
  [/^55P03$/, "another client of the database holds a lock for longer than the role's lock_timeout"],
  [/^57014$/, "the statement was cancelled"],
  [/^25006$/, "the server is a read-only standby"],
  [/^57P0[12]$/, "the server was shut down"],
  [/^57P03$/, "the server is starting up or shutting down"],
  [/^ECONNREFUSED$/, "connection refused; check that the server runs"],
  [/^(ENOTFOUND|EAI_AGAIN)$/, "the host name is unknown"],
  [/^(ETIMEDOUT|EHOSTUNREACH|ENETUNREACH)$/, "the host cannot be reached"],
  [/^(ECONNRESET|EPIPE)$/, "the connection was lost"],
  [/^ENOENT$/, "the socket or file does not exist"],
  [/^(EACCES|EPERM)$/, "the socket or file may not be opened"],
  [
    /^(SELF_SIGNED|UNABLE_TO|CERT_|DEPTH_ZERO|ERR_TLS_CERT)/,
    "the server's certificate is not trusted; name its authority (?sslrootcert=FILE in session.url), or trust any (?sslmode=no-verify)",
    { isPermanent: true },
  ],
  [/^(ERR_|EPROTO)/, "the encrypted connection failed", { isPermanent: true }],
];

/** Advice for errors of `pg` without a code, by message. */
const ADVICE_BY_MESSAGE: readonly (readonly [pattern: RegExp, text: string, isPermanent?: true])[] = [
  [
    /^The server does not support SSL/,
    "the server offers no encryption; remove sslmode from session.url, or enable encryption on the server",
    true,
  ],
  [/establishing an SSL/, "the peer is not a PostgreSQL server with encryption", true],
  [/password must be a/, "the server requires a password, and session.url has none", true],
  [/^SASL|channel binding/i, "the server and gantry support no common password authentication", true],
  [/^timeout expired/, "the server does not answer"],
  [/^Connection terminated/, "the connection was lost"],
];

/** Returns reason and remedy of an error. `isPermanent`: a retry fails until a person fixes the cause. */
export function describeError(error: unknown): { reason: string; isPermanent: boolean; isDiskFull: boolean } {
  const code = errorCode(error);
  const [, text, flags] = code === "" ? [] : (ADVICE_BY_CODE.find(([pattern]) => pattern.test(code)) ?? []);
  if (text !== undefined)
    return {
      reason: `${text} (${code})`,
      isPermanent: flags?.isPermanent ?? false,
      isDiskFull: flags?.isDiskFull ?? false,
    };
  const message = error instanceof Error ? error.message : String(error);
  const [, messageAdvice, isPermanent] = ADVICE_BY_MESSAGE.find(([pattern]) => pattern.test(message)) ?? [];
  if (messageAdvice !== undefined)
    return { reason: messageAdvice, isPermanent: isPermanent ?? false, isDiskFull: false };
  return { reason: describeServerError(code, message), isPermanent: !isConnectionLost(error), isDiskFull: false };
}

/** Omits server messages about a value, which may contain user text. Other messages contain only schema names. */
function describeServerError(code: string, message: string): string {
  if (/^22...$/.test(code)) return `a value does not fit (${code})`;
  return code === "" ? message : `${message} (${code})`;
}

/** Explains an error to `DriverLifecycle`. Undefined if neither the server nor the connection caused the error. */
export function explain(error: unknown): { reason: string; isFull: boolean; isUnavailable: boolean } | undefined {
  if (errorCode(error) === "" && !isConnectionLost(error)) return undefined;
  const { reason, isDiskFull, isPermanent } = describeError(error);
  return { reason, isFull: isDiskFull, isUnavailable: !isDiskFull && !isPermanent };
}

/** Removes user text and internals of the database functions from the error of a statement. */
export function removeUserText(error: unknown): unknown {
  if (!(error instanceof Error) || !/^[0-9A-Z]{5}$/.test(errorCode(error))) return error;
  // The driver itself reads `detail` of these errors.
  const userFields = /^(GN|23)/.test(errorCode(error)) ? [] : ["detail", "hint"];
  for (const field of [...userFields, "where", "internalQuery", "internalPosition", "file", "line", "routine"])
    Reflect.deleteProperty(error, field);
  if (/^22/.test(errorCode(error))) error.message = describeError(error).reason;
  return error;
}

/** Creates the error of an unreachable store. A retry may succeed. */
export function toUnavailableError(location: string, reason: string): StoreError {
  return new StoreError(`session store ${location}: ${reason}`, { isUnavailable: true });
}
