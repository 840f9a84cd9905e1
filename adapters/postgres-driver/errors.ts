import { StoreError } from "gantry";

/** What PostgreSQL, the system or `pg` calls a failure: an SQLSTATE, an `E...` name, or `""`. */
export function codeOf(error: unknown): string {
  const code = error instanceof Error ? (error as { code?: unknown }).code : undefined;
  return typeof code === "string" ? code : "";
}

/** Whether a failure ends the connection that it came by; what was asked by it may be asked by another. */
export function isLost(error: unknown): boolean {
  const code = codeOf(error);
  // 25006: the server only reads since another one took over. 57P: it ends, or has not begun.
  if (/^(08...|57P0.|25006|E[A-Z_]+)$/.test(code)) return true;
  return (
    code === "" &&
    error instanceof Error &&
    /^(Connection terminated|Client (has|was)|timeout expired)/.test(error.message)
  );
}

/** Whether the server broke a statement off for the sake of another one: nothing of it was done. */
export function isConflict(error: unknown): boolean {
  return /^(40001|40P01)$/.test(codeOf(error));
}

const ADVICE: readonly (readonly [pattern: RegExp, text: string, more?: { lasting?: true; full?: true }])[] = [
  [/^28P01$/, "the server refuses the user or the password of session.url", { lasting: true }],
  [
    /^28...$/,
    "the server lets nobody in who comes so; look into its pg_hba.conf, or add ?sslmode=require to session.url",
    { lasting: true },
  ],
  [/^3D000$/, "the database is not there; create it, or name another one in session.url", { lasting: true }],
  [/^42501$/, "the user of session.url lacks a right that is needed", { lasting: true }],
  [
    /^53300$/,
    "the server has no connection left; raise its max_connections, lower session.pool, or put a pooler in between",
  ],
  [/^53100$/, "there is no room left on the server's disk; free some and try again", { full: true }],
  [/^53...$/, "the server lacks memory or another resource"],
  [/^54...$/, "an id, a key or a message is longer than the database can hold"],
  [/^57014$/, "the statement was cancelled"],
  [/^25006$/, "the server only reads: it stands by for another one"],
  [/^57P0[12]$/, "the server was shut down"],
  [/^57P03$/, "the server is starting up or shutting down"],
  [/^ECONNREFUSED$/, "nothing listens there; check that the server runs"],
  [/^(ENOTFOUND|EAI_AGAIN)$/, "the host is not known"],
  [/^(ETIMEDOUT|EHOSTUNREACH|ENETUNREACH)$/, "the host cannot be reached"],
  [/^(ECONNRESET|EPIPE)$/, "the connection was cut"],
  [/^ENOENT$/, "there is no such socket or file"],
  [/^(EACCES|EPERM)$/, "the socket or file may not be opened"],
  [
    /^(SELF_SIGNED|UNABLE_TO|CERT_|DEPTH_ZERO|ERR_TLS_CERT)/,
    "the server's certificate is not trusted; name its authority (?sslrootcert=FILE in session.url), or trust any (?sslmode=no-verify)",
    { lasting: true },
  ],
  [/^(ERR_|EPROTO)/, "no encrypted connection comes about", { lasting: true }],
];

/** Without a code: what `pg` itself says. */
const TOLD: readonly (readonly [pattern: RegExp, text: string, lasting?: true])[] = [
  [
    /^The server does not support SSL/,
    "the server offers no encryption; take sslmode out of session.url, or set it up there",
    true,
  ],
  [/establishing an SSL/, "what answers there is no PostgreSQL server that offers encryption", true],
  [/password must be a/, "the server wants a password, and session.url has none", true],
  [/^SASL|channel binding/i, "the server and this program do not agree on how a password is proved", true],
  [/^timeout expired/, "the server does not answer"],
  [/^Connection terminated/, "the connection was cut"],
];

/** What to tell of a failure. `lasting`: trying again does not help until a person does something. */
export function reason(error: unknown): { why: string; lasting: boolean; full: boolean } {
  const code = codeOf(error);
  const [, text, more] = code === "" ? [] : (ADVICE.find(([pattern]) => pattern.test(code)) ?? []);
  if (text !== undefined)
    return { why: `${text} (${code})`, lasting: more?.lasting ?? false, full: more?.full ?? false };
  const message = error instanceof Error ? error.message : String(error);
  const [, said, lasting] = TOLD.find(([pattern]) => pattern.test(message)) ?? [];
  if (said !== undefined) return { why: said, lasting: lasting ?? false, full: false };
  return { why: told(code, message), lasting: !isLost(error), full: false };
}

/** What the server says of a value may be what a user wrote; of all else it says names of ours. */
function told(code: string, message: string): string {
  if (/^22...$/.test(code)) return `a value does not fit (${code})`;
  return code === "" ? message : `${message} (${code})`;
}

/** For `DriverLife`: what to tell of whatever is no error of ours yet. */
export function explain(error: unknown): { why: string; full: boolean; unavailable: boolean } | undefined {
  if (codeOf(error) === "" && !isLost(error)) return undefined;
  const { why, full, lasting } = reason(error);
  return { why, full, unavailable: !full && !lasting };
}

/** A failed statement without what may be a user's words: its values, and where in a function it was. */
export function withoutWords(error: unknown): unknown {
  if (!(error instanceof Error) || !/^[0-9A-Z]{5}$/.test(codeOf(error))) return error;
  // Of these the driver itself reads what they are about.
  const kept = /^(GN|23)/.test(codeOf(error)) ? [] : ["detail", "hint"];
  for (const field of [...kept, "where", "internalQuery", "internalPosition", "file", "line", "routine"])
    Reflect.deleteProperty(error, field);
  if (/^22/.test(codeOf(error))) error.message = reason(error).why;
  return error;
}

/** The store cannot be reached now: the same may succeed later. */
export function unavailable(where: string, why: string): StoreError {
  return new StoreError(`session store ${where}: ${why}`, { unavailable: true });
}
