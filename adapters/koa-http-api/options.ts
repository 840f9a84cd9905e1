import { option, sharedOptions } from "gantry/plugin";
import type { HttpHostOptions } from "gantry/http";

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
  "x-run-id",
  "x-session-id",
]);

const { max_body_bytes, streams, json_depth } = sharedOptions;

/** Its options under `server` and `limits`, and in its own entry of `server.transports`. */
export const koaHttpOptions = option.section({
  required_headers: option.headers("Headers that requests to `/api` must carry, in place of the port's."),
  headers: option.headers("Sent with every `/api` response, and allowed for browsers.", {
    sent: true,
    reserved: RESERVED,
    default: {},
  }),
  max_body_bytes,
  on_disconnect: option.oneOf(
    ["cancel", "continue"],
    'What happens to a run whose client goes away: `"cancel"` or `"continue"`.',
    { default: "cancel" },
  ),
  open_probes: option.flag(
    "Answer `GET /api/health` and `GET /api/ready` without the required headers, as probes of balancers send none.",
    { default: false },
  ),
  project_roots: option.list(
    option.path(""),
    "Folders in which the `project_dir` of a run may be, beside the served one. Relative ones start at the config file's folder.",
    { default: [] },
  ),
  limits: option.section({ streams, json_depth }),
});

type Read = option.Value<typeof koaHttpOptions>;

/** What the transport is told; an embedder may leave everything out. What it has of `HttpHostOptions` holds only where it opens a port of its own. */
export interface KoaHttpOptions
  extends
    Omit<Read, "limits" | "requiredHeaders" | "projectRoots">,
    Omit<Read["limits"], "streams">,
    Omit<HttpHostOptions, "logger" | "streams"> {
  /** Streams of events at the same time. */
  streams: number;
  /** ms of silence after which a stream carries a comment; default 15,000. */
  heartbeatMs: number;
  /** Beyond loopback: folders whose files may be attached, beside the project and the temporary folder. Absolute. */
  allowPaths: readonly string[];
  /** Folders in which runs may work, beside the agent's own. Absolute. */
  projectRoots: readonly string[];
  /** Never attached, and never worked in: gantry's home and store. Absolute. */
  deniedPaths: readonly string[];
}

/** Fill in what is left out. Throws `ConfigError` for a header that cannot be sent. */
export function completeOptions(options: Partial<KoaHttpOptions>): KoaHttpOptions {
  const { limits, ...defaults } = option.read(koaHttpOptions, {}, "");
  const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
  const { required_headers, headers } = koaHttpOptions.entries;
  option.read(required_headers, options.requiredHeaders, "koa-http-api.requiredHeaders");
  option.read(headers, options.headers, "koa-http-api.headers");
  return { ...defaults, ...limits, heartbeatMs: 15_000, allowPaths: [], projectRoots: [], deniedPaths: [], ...given };
}
