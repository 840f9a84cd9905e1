import { option, sharedOptions } from "gantry/plugin";
import type { HttpHostOptions } from "gantry/http";
import { ACP_DEFAULTS, acpEntries, acpLimits, type AcpOptions } from "../acp-shared/index.js";

const { max_body_bytes, streams, connections } = sharedOptions;

const entries = {
  required_headers: option.headers(
    "Like `server.required_headers`, which do not apply to ACP. If only those are set, ACP over HTTP does not start until this is set too, or is `{}`.",
  ),
  allowed_origins: option.list(
    option.text("An origin."),
    "Additional origins of web pages that may open a WebSocket.",
    {
      default: [],
    },
  ),
  websocket_updates: option.flag(
    "Send updates over the WebSocket if no event stream is open; `false`: do not deliver them.",
    { default: true },
  ),
};
const limits = { streams, connections };

/** Options under `acp`, `limits` and `server`, and in this transport's entry of `server.transports`. */
export const acpHttpOptions = option.section({
  ...acpEntries,
  ...entries,
  max_body_bytes,
  limits: option.section({ ...acpLimits, ...limits }),
});

type OwnOptions = option.SectionValue<typeof entries & { max_body_bytes: typeof max_body_bytes } & typeof limits>;

/**
 * Options of the transport; embedders may omit all. The options of `HttpHostOptions` apply only if the transport opens
 * its own HTTP listener.
 */
export interface AcpHttpOptions
  extends AcpOptions, OwnOptions, Omit<HttpHostOptions, "logger" | "requiredHeaders" | "streams" | "connections"> {
  /** Interval between comments and pings, in ms; default 15,000. */
  heartbeatMs: number;
  /** Time without stream, socket and request before a connection is closed, in ms; default 600,000. */
  idleMs: number;
  /**
   * Time for which a client that only initialized keeps its connection if the limit is reached, in ms; default 5,000.
   */
  unusedMs: number;
}

const { limits: limitDefaults, ...defaults } = option.read(acpHttpOptions, {}, "");

/** Default options for embedders. */
export const ACP_HTTP_DEFAULTS: AcpHttpOptions = {
  ...ACP_DEFAULTS,
  ...defaults,
  ...limitDefaults,
  heartbeatMs: 15_000,
  idleMs: 10 * 60_000,
  unusedMs: 5_000,
};
