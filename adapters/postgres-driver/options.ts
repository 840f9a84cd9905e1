import { option, sharedOptions } from "gantry/plugin";

const isUrl = (value: string): boolean => {
  try {
    return /^postgres(ql)?:$/.test(new URL(value).protocol);
  } catch {
    return false;
  }
};

const DEFAULTS = { schema: "gantry", size: 10, connectTimeout: 10, idleTimeout: 30, statementTimeout: 15 };

/** Its options under `session`. */
export const postgresOptions = option.section({
  url: option.text(
    'Of the database, `postgres://user:password@host:port/database`; best as `"${DATABASE_URL}"`. `/ ? # @ %` of a password are percent-encoded. It is never logged. Needed with `postgres`.',
    { required: true, secret: true, fits: isUrl, expected: "a postgres:// URL" },
  ),
  schema: option.text(
    "Schema of the database that gantry's tables are in. It is made where it is missing and the role may do so.",
    {
      default: DEFAULTS.schema,
      fits: (value) => /^[a-z_][a-z0-9_]{0,39}$/.test(value) && !value.startsWith("pg_"),
      pattern: "^(?!pg_)[a-z_][a-z0-9_]{0,39}$",
      expected:
        "a name of at most 40 small letters, digits and underscores that begins with no digit and not with `pg_`",
    },
  ),
  durability: sharedOptions.durability,
  pool: option.section({
    size: option.integer("Most connections of a process, beside the one that listens for news.", {
      min: 1,
      max: 1000,
      default: DEFAULTS.size,
    }),
    connect_timeout: option.number(
      "Longest that a call waits for a connection, with all attempts to reach the server again; beyond it 503. While the server has been away for two seconds, only what a run is in the middle of waits so long; all else is 503 at once.",
      { unit: "seconds", above: 0, default: DEFAULTS.connectTimeout },
    ),
    idle_timeout: option.number("How long an unused connection is kept.", {
      unit: "seconds",
      above: 0,
      default: DEFAULTS.idleTimeout,
    }),
    statement_timeout: option.number("Longest that a statement may take.", {
      unit: "seconds",
      above: 0,
      default: DEFAULTS.statementTimeout,
    }),
    listen_url: option.text(
      "A `postgres://` URL past a pooler in transaction mode, to listen for news at. Default: that of `url`.",
      { default: "", secret: true, fits: (value) => value === "" || isUrl(value), expected: "a postgres:// URL" },
    ),
  }),
});

type Read = option.Value<typeof postgresOptions>;

/** What the driver is made with; times in seconds. Whatever is left out is as the configuration's table says. */
export interface PostgresOptions extends Pick<Read, "url">, Partial<Pick<Read, "schema" | "durability">> {
  pool?: Partial<Read["pool"]> | undefined;
}

/** The same, with all that was left out. */
export type WholeOptions = Pick<Read, "url" | "schema" | "durability" | "pool">;

/** What is undefined counts as left out. */
export function whole({ url, schema, durability, pool = {} }: PostgresOptions): WholeOptions {
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
