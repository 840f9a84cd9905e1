import { option, sharedOptions } from "gantry/plugin";

const isPostgresUrl = (value: string): boolean => {
  try {
    return /^postgres(ql)?:$/.test(new URL(value).protocol);
  } catch {
    return false;
  }
};

/** Times are in seconds. */
const DEFAULTS = { schema: "gantry", size: 10, connectTimeout: 10, idleTimeout: 30, statementTimeout: 15 };

/** The driver's options in the section `session`. */
export const postgresOptions = option.section({
  url: option.text(
    'URL of the database, `postgres://user:password@host:port/database`; best as `"${DATABASE_URL}"`. `/ ? # @ %` of a password are percent-encoded. It is never logged. Required for `postgres`.',
    { required: true, secret: true, fits: isPostgresUrl, expected: "a postgres:// URL" },
  ),
  schema: option.text(
    "Database schema with gantry's tables. It is created if it is missing and the role has the privilege.",
    {
      default: DEFAULTS.schema,
      fits: (value) => /^[a-z_][a-z0-9_]{0,39}$/.test(value) && !value.startsWith("pg_"),
      pattern: "^(?!pg_)[a-z_][a-z0-9_]{0,39}$",
      expected:
        "a name of at most 40 lowercase letters, digits and underscores that starts with neither a digit nor `pg_`",
    },
  ),
  durability: sharedOptions.durability,
  pool: option.section({
    size: option.integer("Maximum connections of a process, besides the one that listens for notifications.", {
      min: 1,
      max: 1000,
      default: DEFAULTS.size,
    }),
    connect_timeout: option.number(
      "Maximum time that a call waits for a connection, including reconnection attempts; then 503. One attempt may take half of it, at least five seconds. After the server has been unreachable for two seconds, only calls of active runs wait that long; all others get 503 at once.",
      { unit: "seconds", above: 0, default: DEFAULTS.connectTimeout },
    ),
    idle_timeout: option.number("Time for which an unused connection is kept.", {
      unit: "seconds",
      above: 0,
      default: DEFAULTS.idleTimeout,
    }),
    statement_timeout: option.number("Maximum time of a statement.", {
      unit: "seconds",
      above: 0,
      default: DEFAULTS.statementTimeout,
    }),
    listen_url: option.text(
      "`postgres://` URL that bypasses a pooler in transaction mode, to listen for notifications. Default: `url`.",
      {
        default: "",
        secret: true,
        fits: (value) => value === "" || isPostgresUrl(value),
        expected: "a postgres:// URL",
      },
    ),
  }),
});

type OptionValues = option.Value<typeof postgresOptions>;

/** Options of the driver; times in seconds. Undefined options have the defaults of the configuration. */
export interface PostgresOptions
  extends Pick<OptionValues, "url">, Partial<Pick<OptionValues, "schema" | "durability">> {
  pool?: Partial<OptionValues["pool"]> | undefined;
}

export type ResolvedOptions = Pick<OptionValues, "url" | "schema" | "durability" | "pool">;

/** Applies the defaults; undefined counts as absent. */
export function applyDefaults({ url, schema, durability, pool = {} }: PostgresOptions): ResolvedOptions {
  return {
    url,
    schema: schema ?? DEFAULTS.schema,
    durability: durability ?? "full",
    pool: {
      size: pool.size ?? DEFAULTS.size,
      connectTimeout: pool.connectTimeout ?? DEFAULTS.connectTimeout,
      idleTimeout: pool.idleTimeout ?? DEFAULTS.idleTimeout,
      statementTimeout: pool.statementTimeout ?? DEFAULTS.statementTimeout,
      listenUrl: pool.listenUrl ?? "",
    },
  };
}
