import { option, sharedOptions } from "gantry/plugin";
import type { HttpHostOptions } from "gantry/http";

/** Headers of HTTP itself or of this API, which the configuration must not set. */
const RESERVED_HEADERS: ReadonlySet<string> = new Set([
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
  "x-run-id",
  "x-session-id",
]);

const { max_body_bytes, streams, json_depth } = sharedOptions;

/** Options under `server` and `limits`, and in this transport's entry of `server.transports`. */
export const koaHttpOptions = option.section({
  required_headers: option.headers("Headers that requests to `/api` must carry, instead of `server.required_headers`."),
  headers: option.headers("Headers of every `/api` response. Requests of web pages may carry them too.", {
    sent: true,
    reserved: RESERVED_HEADERS,
    default: {},
  }),
  max_body_bytes,
  on_disconnect: option.oneOf(
    ["cancel", "continue"],
    'Action on a run whose client disconnects: `"cancel"` or `"continue"`.',
    { default: "cancel" },
  ),
  open_probes: option.flag(
    "Answer `GET /api/health` and `GET /api/ready` without the required headers, because probes of load balancers send none.",
    { default: false },
  ),
  project_roots: option.list(
    option.path(""),
    "Folders that may contain the `project_dir` of a run, besides the served folder. Relative paths start at the folder of the config file.",
    { default: [] },
  ),
  shell: option.flag("Whether people may run shell commands in a session (`POST /api/sessions/{id}/shell`).", {
    default: true,
  }),
  limits: option.section({ streams, json_depth }),
});

type ConfiguredOptions = option.Value<typeof koaHttpOptions>;

/**
 * Options of the transport; embedders may omit all. The options of `HttpHostOptions` apply only if the transport opens
 * its own HTTP listener.
 */
export interface KoaHttpOptions
  extends
    Omit<ConfiguredOptions, "limits" | "requiredHeaders" | "projectRoots">,
    Omit<ConfiguredOptions["limits"], "streams">,
    Omit<HttpHostOptions, "logger" | "streams"> {
  /** Maximum number of concurrent event streams. */
  streams: number;
  /** Silence after which a stream sends a comment, in ms; default 15,000. */
  heartbeatMs: number;
  /**
   * Folders whose files may be attached, besides the project and the temporary folder. Applies only if the HTTP
   * listener is not limited to loopback; otherwise files of any folder may be attached. Absolute paths; default none.
   */
  allowPaths: readonly string[];
  /** Folders in which runs may work, besides the agent's own. Absolute paths; default none. */
  projectRoots: readonly string[];
  /**
   * Folders whose files are never attached and in which no run may work: gantry's home and store. Absolute paths;
   * default none.
   */
  deniedPaths: readonly string[];
  /** Environment variables of Git, of which it gets `PATH` and `HOME`. Default none: then no repository is found. */
  environment: Readonly<Record<string, string>>;
}

/** Adds the defaults. Throws `ConfigError` for a header that cannot be sent. */
export function completeOptions(options: Partial<KoaHttpOptions>): KoaHttpOptions {
  const { limits, ...defaults } = option.read(koaHttpOptions, {}, "");
  const definedOptions = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
  const { required_headers, headers } = koaHttpOptions.entries;
  option.read(required_headers, options.requiredHeaders, "koa-http-api.requiredHeaders");
  option.read(headers, options.headers, "koa-http-api.headers");
  return {
    ...defaults,
    ...limits,
    heartbeatMs: 15_000,
    allowPaths: [],
    projectRoots: [],
    deniedPaths: [],
    environment: {},
    ...definedOptions,
  };
}
