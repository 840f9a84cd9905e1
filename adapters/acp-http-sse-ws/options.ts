import { option, sharedOptions } from "gantry/plugin";
import type { HttpHostOptions } from "gantry/http";
import { ACP_DEFAULTS, acpEntries, acpLimits, type AcpOptions } from "../acp-shared/index.js";

const { max_body_bytes, streams, connections } = sharedOptions;

const entries = {
  required_headers: option.headers(
    "As `server.required_headers`, which do not hold for ACP. Where only those are set, ACP over HTTP does not start until this is set too, or is `{}`.",
  ),
  allowed_origins: option.list(option.text("An origin."), "Further origins of web pages that may open a WebSocket.", {
    default: [],
  }),
  websocket_updates: option.flag(
    "Send updates to the WebSocket itself when no event stream is open; `false` leaves them undelivered.",
    { default: true },
  ),
};
const limits = { streams, connections };

/** Its options under `acp`, `limits` and `server`, and in its own entry of `server.transports`. */
export const acpHttpOptions = option.section({
  ...acpEntries,
  ...entries,
  max_body_bytes,
  limits: option.section({ ...acpLimits, ...limits }),
});

type Own = option.SectionValue<typeof entries & { max_body_bytes: typeof max_body_bytes } & typeof limits>;

/** What the transport is told; an embedder may leave everything out. What it has of `HttpHostOptions` holds only where it opens a port of its own. */
export interface AcpHttpOptions
  extends AcpOptions, Own, Omit<HttpHostOptions, "logger" | "requiredHeaders" | "streams" | "connections"> {
  /** In ms: between comments and pings; without stream, socket and request until a connection is closed. */
  heartbeatMs: number;
  idleMs: number;
  /** In ms: where there are too many clients, one that has done nothing since it was initialized keeps its place so long. */
  unusedMs: number;
}

const { limits: limitDefaults, ...defaults } = option.read(acpHttpOptions, {}, "");

/** What an embedder gets without saying anything. */
export const ACP_HTTP_DEFAULTS: AcpHttpOptions = {
  ...ACP_DEFAULTS,
  ...defaults,
  ...limitDefaults,
  heartbeatMs: 15_000,
  idleMs: 10 * 60_000,
  unusedMs: 5_000,
};
