import { readFileSync } from "node:fs";
import { userInfo } from "node:os";
import type { ConnectionOptions } from "node:tls";
import { ConfigError } from "gantry/plugin";

/** Encryption of a connection, and whether the server's certificate is verified. */
export type TlsMode = "none" | "if offered" | "always" | "verified" | "verified authority";

/**
 * Address of a database, from a URL. `password` is a function, so that a logged address does not contain the password.
 */
export interface Address {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password: () => string;
  readonly database: string;
  readonly tls: TlsMode;
  /** Files named by the URL's `sslrootcert`, `sslcert` and `sslkey`. */
  readonly tlsFiles: { readonly ca?: string; readonly cert?: string; readonly key?: string };
  /** `options` of the URL, sent with the connection request. A pooler may reject them. */
  readonly options: string | undefined;
  readonly applicationName: string;
  /** Whether authentication must use channel binding. */
  readonly requiresChannelBinding: boolean;
  /** `host:port/database`; safe to log. */
  readonly location: string;
}

const EXPECTED_URL =
  "expected a postgres:// URL with user:password@host:port/database, where / ? # @ % of a password are percent-encoded";

/** Encryption by `sslmode`. Only `no-verify` accepts an unverified certificate when encryption is required. */
const TLS_BY_SSLMODE: Readonly<Record<string, TlsMode>> = {
  disable: "none",
  allow: "if offered",
  prefer: "if offered",
  "no-verify": "always",
  require: "verified",
  "verify-ca": "verified authority",
  "verify-full": "verified",
};

/** Parses a database URL. Throws `ConfigError` for an invalid URL; the message names `field`, but not the URL. */
export function parseAddress(text: string, field = "session.url"): Address {
  const toConfigError = (problem: string): ConfigError => new ConfigError(`${field}: ${problem}`);
  let url: URL;
  let user: string;
  let password: string;
  let host: string;
  let database: string;
  try {
    // The URL parser rejects a user without a host, which a URL for a socket folder may have.
    url = new URL(text.replace(/^([a-z]+:\/\/[^/?#]*@)(?=[/?]|$)/, "$1localhost"));
    user = decodeURIComponent(url.username);
    password = decodeURIComponent(url.password);
    host = decodeURIComponent(url.hostname).replace(/^\[(.*)\]$/, "$1");
    database = decodeURIComponent(url.pathname.slice(1));
  } catch {
    throw toConfigError(EXPECTED_URL);
  }
  if (url.protocol !== "postgres:" && url.protocol !== "postgresql:") throw toConfigError(EXPECTED_URL);
  // An unencoded `/`, `?` or `#` in a password ends the host early. The remaining password would then appear as the
  // database or a parameter in messages.
  const parameterNames = [...url.searchParams.keys()].join("");
  if (url.hash !== "" || (url.username === "" && `${url.pathname}${parameterNames}`.includes("@")))
    throw toConfigError(EXPECTED_URL);
  const parameters = url.searchParams;
  const sslMode = parameters.get("sslmode") ?? (parameters.get("ssl") === "true" ? "require" : "disable");
  const tls = TLS_BY_SSLMODE[sslMode];
  if (tls === undefined) throw toConfigError(`sslmode: expected one of ${Object.keys(TLS_BY_SSLMODE).join(", ")}`);
  host = parameters.get("host") ?? (host || "localhost");
  const port = Number(parameters.get("port") ?? (url.port || "5432"));
  if (!Number.isInteger(port) || port < 1 || port > 65_535) throw toConfigError(EXPECTED_URL);
  user = parameters.get("user") ?? (user || getSystemUser());
  database ||= parameters.get("dbname") ?? user;
  const resolvedPassword = parameters.get("password") ?? password;
  const toTlsFile = (name: string, parameter: string) =>
    parameters.has(parameter) ? { [name]: parameters.get(parameter) } : {};
  return {
    host,
    port,
    user,
    password: () => resolvedPassword,
    database,
    tls,
    tlsFiles: { ...toTlsFile("ca", "sslrootcert"), ...toTlsFile("cert", "sslcert"), ...toTlsFile("key", "sslkey") },
    options: parameters.get("options") ?? undefined,
    applicationName: parameters.get("application_name") ?? "gantry",
    requiresChannelBinding: parameters.get("channel_binding") === "require",
    location: `${host.includes(":") ? `[${host}]` : host}:${port}/${database}`,
  };
}

/** Default user of a URL without a user, as in other PostgreSQL clients. `postgres` if the system user has no name. */
function getSystemUser(): string {
  try {
    return userInfo().username;
  } catch {
    return "postgres";
  }
}

/**
 * Options for `node:tls`; undefined for no encryption. Reads the files that the URL names; throws if a file is missing.
 */
export function createTlsOptions({ tls, tlsFiles: files }: Address): ConnectionOptions | undefined {
  if (tls === "none" || (tls === "if offered" && Object.keys(files).length === 0)) {
    return tls === "none" ? undefined : { rejectUnauthorized: false };
  }
  const fileContents = Object.fromEntries(Object.entries(files).map(([name, path]) => [name, readFileSync(path)]));
  if (tls === "always" || tls === "if offered") return { ...fileContents, rejectUnauthorized: false };
  // With an explicit authority, every certificate of this authority is trusted, whatever its host name.
  if (tls === "verified authority" && files.ca !== undefined)
    return { ...fileContents, checkServerIdentity: () => undefined };
  return { ...fileContents };
}
