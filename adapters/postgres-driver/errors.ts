import { StoreError } from "gantry";

/** Error code from PostgreSQL (SQLSTATE), the system (`E...`) or `pg`; `""` if there is none. */
export function codeOf(error: unknown): string {
  const code = error instanceof Error ? (error as { code?: unknown }).code : undefined;
  return typeof code === "string" ? code : "";
}

/** Whether the error ends its connection, so that the statement can be repeated on another one. */
export function isLost(error: unknown): boolean {
  const code = codeOf(error);
  // 25006: the server became read-only after a failover. 57P: it is shutting down or starting.
  if (/^(08...|57P0.|25006|E[A-Z_]+)$/.test(code)) return true;
  return (
    code === "" &&
    error instanceof Error &&
    /^(Connection terminated|Client (has|was)|timeout expired)/.test(error.message)
  );
}

/** Whether the server aborted the statement because of a conflict; it had no effect. */
export function isConflict(error: unknown): boolean {
  return /^(40001|40P01)$/.test(codeOf(error));
}

const ADVICE: readonly (readonly [pattern: RegExp, text: string, more?: { lasting?: true; full?: true }])[] = [
  [/^28P01$/, "the server refuses the user or the password of session.url", { lasting: true }],
  [
    /^28...$/,
    "the server rejects this kind of connection; check its pg_hba.conf, or add ?sslmode=require to session.url",
    { lasting: true },
  ],
  [/^3D000$/, "the database does not exist; create it, or name another in session.url", { lasting: true }],
  [/^42501$/, "the user of session.url lacks a required privilege", { lasting: true }],
  [
    /^53300$/,
    "the server has no connection left; raise its max_connections, lower session.pool, or put a pooler in between",
  ],
  [/^53100$/, "no space left on the server's disk; free some space and retry", { full: true }],
  [/^53...$/, "the server lacks memory or another resource"],
  [/^54...$/, "an id, a key or a message is longer than the database can hold"],
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
    { lasting: true },
  ],
  [/^(ERR_|EPROTO)/, "the encrypted connection failed", { lasting: true }],
];

/** Advice for errors of `pg` without a code, by message. */
const MESSAGE_ADVICE: readonly (readonly [pattern: RegExp, text: string, lasting?: true])[] = [
  [
    /^The server does not support SSL/,
    "the server offers no encryption; take sslmode out of session.url, or set it up there",
    true,
  ],
  [/establishing an SSL/, "the peer is not a PostgreSQL server with encryption", true],
  [/password must be a/, "the server requires a password, and session.url has none", true],
  [/^SASL|channel binding/i, "the server and gantry support no common password authentication", true],
  [/^timeout expired/, "the server does not answer"],
  [/^Connection terminated/, "the connection was lost"],
];

/** Reason and remedy for an error. `lasting`: a retry fails until a person fixes the cause. */
export function reason(error: unknown): { why: string; lasting: boolean; full: boolean } {
  const code = codeOf(error);
  const [, text, flags] = code === "" ? [] : (ADVICE.find(([pattern]) => pattern.test(code)) ?? []);
  if (text !== undefined)
    return { why: `${text} (${code})`, lasting: flags?.lasting ?? false, full: flags?.full ?? false };
  const message = error instanceof Error ? error.message : String(error);
  const [, messageAdvice, lasting] = MESSAGE_ADVICE.find(([pattern]) => pattern.test(message)) ?? [];
  if (messageAdvice !== undefined) return { why: messageAdvice, lasting: lasting ?? false, full: false };
  return { why: describeServerError(code, message), lasting: !isLost(error), full: false };
}

/** Server messages about a value may contain user text; other messages contain only names from the schema. */
function describeServerError(code: string, message: string): string {
  if (/^22...$/.test(code)) return `a value does not fit (${code})`;
  return code === "" ? message : `${message} (${code})`;
}

/** For `DriverLifecycle`: reason and remedy for an error that is not a `GantryError`. */
export function explain(error: unknown): { reason: string; full: boolean; unavailable: boolean } | undefined {
  if (codeOf(error) === "" && !isLost(error)) return undefined;
  const { why, full, lasting } = reason(error);
  return { reason: why, full, unavailable: !full && !lasting };
}

/** Removes possible user text from the error of a failed statement: its values, and its position in a function. */
export function withoutUserText(error: unknown): unknown {
  if (!(error instanceof Error) || !/^[0-9A-Z]{5}$/.test(codeOf(error))) return error;
  // The driver itself reads `detail` of these errors.
  const userFields = /^(GN|23)/.test(codeOf(error)) ? [] : ["detail", "hint"];
  for (const field of [...userFields, "where", "internalQuery", "internalPosition", "file", "line", "routine"])
    Reflect.deleteProperty(error, field);
  if (/^22/.test(codeOf(error))) error.message = reason(error).why;
  return error;
}

/** Error for an unreachable store; a retry may succeed. */
export function unavailable(where: string, why: string): StoreError {
  return new StoreError(`session store ${where}: ${why}`, { unavailable: true });
}
