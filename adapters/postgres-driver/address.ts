import { readFileSync } from "node:fs";
import { userInfo } from "node:os";
import type { ConnectionOptions } from "node:tls";
import { ConfigError } from "gantry/plugin";

/** How a connection is to be encrypted. */
export type Tls = "none" | "if offered" | "always" | "verified" | "verified authority";

/** Where a database is, as a URL says it. The password is in no field that is printed. */
export interface Address {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password: () => string;
  readonly database: string;
  readonly tls: Tls;
  /** Files of a URL's `sslrootcert`, `sslcert` and `sslkey`. */
  readonly files: { readonly ca?: string; readonly cert?: string; readonly key?: string };
  /** What is asked of the server with the connection (`options` of a URL); a pooler may refuse it. */
  readonly options: string | undefined;
  readonly name: string;
  /** Whether the password's proof must be bound to the encryption. */
  readonly bound: boolean;
  /** `host:port/database`: what may be told. */
  readonly where: string;
}

const EXPECTED =
  "expected a postgres:// URL with user:password@host:port/database, where / ? # @ % of a password are percent-encoded";

/** `sslmode`. Without `no-verify` nothing is called encrypted that anybody in between could read. */
const MODES: Readonly<Record<string, Tls>> = {
  disable: "none",
  allow: "if offered",
  prefer: "if offered",
  "no-verify": "always",
  require: "verified",
  "verify-ca": "verified authority",
  "verify-full": "verified",
};

/** Read a `session.url`. `ConfigError` for one that says no place, which does not repeat it. */
export function readAddress(text: string, field = "session.url"): Address {
  const wrong = (what: string): ConfigError => new ConfigError(`${field}: ${what}`);
  let url: URL;
  let user: string;
  let password: string;
  let host: string;
  let database: string;
  try {
    // Without a host, as for a socket's folder, a URL may not have a user for all others who read it.
    url = new URL(text.replace(/^([a-z]+:\/\/[^/?#]*@)(?=[/?]|$)/, "$1localhost"));
    user = decodeURIComponent(url.username);
    password = decodeURIComponent(url.password);
    host = decodeURIComponent(url.hostname).replace(/^\[(.*)\]$/, "$1");
    database = decodeURIComponent(url.pathname.slice(1));
  } catch {
    throw wrong(EXPECTED);
  }
  if (url.protocol !== "postgres:" && url.protocol !== "postgresql:") throw wrong(EXPECTED);
  // A password that was not encoded ends the host's part early: what is left of it would be told as a host or a database.
  const keys = [...url.searchParams.keys()].join("");
  if (url.hash !== "" || (url.username === "" && `${url.pathname}${keys}`.includes("@"))) throw wrong(EXPECTED);
  const asked = url.searchParams;
  const mode = asked.get("sslmode") ?? (asked.get("ssl") === "true" ? "require" : "disable");
  const tls = MODES[mode];
  if (tls === undefined) throw wrong(`sslmode: expected one of ${Object.keys(MODES).join(", ")}`);
  host = asked.get("host") ?? (host || "localhost");
  const port = Number(asked.get("port") ?? (url.port || "5432"));
  if (!Number.isInteger(port) || port < 1 || port > 65_535) throw wrong(EXPECTED);
  user = asked.get("user") ?? (user || systemUser());
  database ||= asked.get("dbname") ?? user;
  const secret = asked.get("password") ?? password;
  const file = (name: string, parameter: string) => (asked.has(parameter) ? { [name]: asked.get(parameter) } : {});
  return {
    host,
    port,
    user,
    password: () => secret,
    database,
    tls,
    files: { ...file("ca", "sslrootcert"), ...file("cert", "sslcert"), ...file("key", "sslkey") },
    options: asked.get("options") ?? undefined,
    name: asked.get("application_name") ?? "gantry",
    bound: asked.get("channel_binding") === "require",
    where: `${host.includes(":") ? `[${host}]` : host}:${port}/${database}`,
  };
}

/** As other programs have it where a URL names no user. */
function systemUser(): string {
  try {
    return userInfo().username;
  } catch {
    return "postgres";
  }
}

/** What `node:tls` is told; undefined for no encryption. Reads the URL's files. */
export function tlsOptions({ tls, files }: Address): ConnectionOptions | undefined {
  if (tls === "none" || (tls === "if offered" && Object.keys(files).length === 0)) {
    return tls === "none" ? undefined : { rejectUnauthorized: false };
  }
  const read = Object.fromEntries(Object.entries(files).map(([name, path]) => [name, readFileSync(path)]));
  if (tls === "always" || tls === "if offered") return { ...read, rejectUnauthorized: false };
  // Whoever names an authority of their own trusts all that it signed.
  if (tls === "verified authority" && files.ca !== undefined) return { ...read, checkServerIdentity: () => undefined };
  return { ...read };
}
