import { resolve } from "node:path";
import { ConfigError, isRecord, type OptionsContext } from "gantry";
import { headerFaultIn } from "gantry/http";

export interface KoaHttpOptions {
  /** Headers that every request must carry, and their values; `""` for any value. Default none. */
  requiredHeaders: Readonly<Record<string, string>>;
  /** Sent on every response; their names are allowed in browsers' requests too. */
  headers: Readonly<Record<string, string>>;
  /** Default 10 MiB. */
  maxBodyBytes: number;
  /** What becomes of a run whose client goes away: default `cancel`. */
  onDisconnect: "cancel" | "continue";
  /** SSE streams at the same time; default 1024. */
  streams: number;
  /** Nesting of a request body; default 64. */
  jsonDepth: number;
  /** ms of silence after which a stream carries a comment; default 15,000. */
  heartbeatMs: number;
  /** Beyond loopback: folders whose files may be attached, beside the project and the temporary folder. Absolute. */
  allowPaths: readonly string[];
  /** Never attached: gantry's home and store. Absolute. */
  deniedPaths: readonly string[];
  /** The rest holds only where it opens a port of its own. Default 127.0.0.1:8080. */
  host: string;
  port: number;
  allowedHosts: readonly string[];
  allowCrossSite: boolean;
  insecure: boolean;
}

const DEFAULTS: KoaHttpOptions = {
  requiredHeaders: {},
  headers: {},
  maxBodyBytes: 10 * 1024 * 1024,
  onDisconnect: "cancel",
  streams: 1024,
  jsonDepth: 64,
  heartbeatMs: 15_000,
  allowPaths: [],
  deniedPaths: [],
  host: "127.0.0.1",
  port: 8080,
  allowedHosts: [],
  allowCrossSite: false,
  insecure: false,
};

/** What of HTTP itself, or fixed by the API, a configured header must not touch. */
const RESERVED: ReadonlySet<string> = new Set([
  "connection",
  "content-encoding",
  "content-length",
  "content-type",
  "date",
  "keep-alive",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "x-ignored-fields",
  "x-model",
  "x-session-id",
]);
/** Fill in what is left out. Throws `ConfigError` for a header that cannot be sent. */
export function completeOptions(options: Partial<KoaHttpOptions>): KoaHttpOptions {
  const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
  const complete: KoaHttpOptions = { ...DEFAULTS, ...given };
  const check = new Check("koa-http-api");
  check.headers("requiredHeaders", complete.requiredHeaders, false);
  check.headers("headers", complete.headers, true);
  return complete;
}

/** Options as the config writes them. */
export function parseOptions(raw: Readonly<Record<string, unknown>>, context: OptionsContext): KoaHttpOptions {
  const check = new Check(context.where);
  const limits = raw["limits"] ?? {};
  if (!isRecord(limits)) throw check.error("limits", "an object");
  check.keys(limits, ["streams", "json_depth"], "limits.");
  check.keys(raw, [
    "required_headers",
    "headers",
    "max_body_bytes",
    "on_disconnect",
    "allow_cross_site",
    "limits",
    "allow_paths",
    "denied_paths",
    "host",
    "port",
    "allowed_hosts",
    "insecure",
  ]);
  const paths = (key: string) => check.strings(key, raw[key] ?? []).map((path) => resolve(context.configDir, path));
  const onDisconnect = raw["on_disconnect"] ?? DEFAULTS.onDisconnect;
  if (onDisconnect !== "cancel" && onDisconnect !== "continue")
    throw check.error("on_disconnect", '"cancel" or "continue"');
  return {
    requiredHeaders: check.headers("required_headers", raw["required_headers"] ?? {}, false),
    headers: check.headers("headers", raw["headers"] ?? {}, true),
    maxBodyBytes: check.integer("max_body_bytes", raw["max_body_bytes"] ?? DEFAULTS.maxBodyBytes, 1),
    onDisconnect,
    streams: check.integer("limits.streams", limits["streams"] ?? DEFAULTS.streams, 1),
    jsonDepth: check.integer("limits.json_depth", limits["json_depth"] ?? DEFAULTS.jsonDepth, 1),
    heartbeatMs: DEFAULTS.heartbeatMs,
    allowPaths: paths("allow_paths"),
    deniedPaths: paths("denied_paths"),
    host: check.string("host", raw["host"] ?? DEFAULTS.host),
    port: check.integer("port", raw["port"] ?? DEFAULTS.port, 0, 65_535),
    allowedHosts: check.strings("allowed_hosts", raw["allowed_hosts"] ?? []),
    allowCrossSite: check.boolean("allow_cross_site", raw["allow_cross_site"] ?? false),
    insecure: check.boolean("insecure", raw["insecure"] ?? false),
  };
}

class Check {
  readonly #where: string;

  constructor(where: string) {
    this.#where = where;
  }

  error(key: string, expected: string): ConfigError {
    return new ConfigError(`${this.#where}.${key}: expected ${expected}`);
  }

  keys(object: Readonly<Record<string, unknown>>, known: readonly string[], prefix = ""): void {
    const unknown = Object.keys(object).find((key) => !known.includes(key));
    if (unknown !== undefined)
      throw new ConfigError(`${this.#where}.${prefix}${unknown}: unknown key; expected one of ${known.join(", ")}`);
  }

  string(key: string, value: unknown): string {
    if (typeof value !== "string") throw this.error(key, "a string");
    return value;
  }

  strings(key: string, value: unknown): string[] {
    if (!Array.isArray(value) || !value.every((entry) => typeof entry === "string"))
      throw this.error(key, "a list of strings");
    return value;
  }

  boolean(key: string, value: unknown): boolean {
    if (typeof value !== "boolean") throw this.error(key, "true or false");
    return value;
  }

  integer(key: string, value: unknown, min: number, max = Number.MAX_SAFE_INTEGER): number {
    if (typeof value !== "number" || !Number.isInteger(value) || value < min || value > max)
      throw this.error(key, max === Number.MAX_SAFE_INTEGER ? `an integer of at least ${min}` : `${min} to ${max}`);
    return value;
  }

  /** `sent`: by this server, so that names which HTTP itself needs are refused. */
  headers(key: string, value: unknown, sent: boolean): Record<string, string> {
    const fault = headerFaultIn(value, sent);
    if (fault) throw this.error(`${key}${fault.key}`, fault.expected);
    const reserved = sent && Object.keys(value as object).find((name) => RESERVED.has(name.toLowerCase()));
    if (reserved) throw this.error(`${key}.${reserved}`, "another header: this one is set by the server");
    return value as Record<string, string>;
  }
}
