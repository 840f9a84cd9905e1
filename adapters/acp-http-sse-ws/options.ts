import { ConfigError } from "gantry";
import { headerFaultIn } from "gantry/http";
import { ACP_DEFAULTS, OptionReader, readAcpOptions, SHARED_KEYS, type AcpOptions } from "../acp-shared/index.js";

/** What the transport is told; an embedder may leave everything out. */
export interface AcpHttpOptions extends AcpOptions {
  /** Headers that every request must carry, in order; an empty value: whatever its value. Left out: those of the port. */
  requiredHeaders: Readonly<Record<string, string>> | undefined;
  /** Origins of web pages that may open a WebSocket, beside this server's own and loopback ones. */
  allowedOrigins: readonly string[];
  /** Whether updates go to the WebSocket where no SSE stream is open. */
  websocketUpdates: boolean;
  /** Bytes of one POST. */
  bodyBytes: number;
  /** Open SSE streams; clients. */
  streams: number;
  connections: number;
  /** In ms: between comments and pings; without stream, socket and request until a connection is closed. */
  heartbeatMs: number;
  idleMs: number;
  /** In ms: where there are too many clients, one that has done nothing since it was initialized keeps its place so long. */
  unusedMs: number;
  /** Of the port, where no shared one is given. */
  host: string;
  port: number;
  allowedHosts: readonly string[];
  allowCrossSite: boolean;
  insecure: boolean;
}

export const ACP_HTTP_DEFAULTS: AcpHttpOptions = {
  ...ACP_DEFAULTS,
  requiredHeaders: undefined,
  allowedOrigins: [],
  websocketUpdates: true,
  bodyBytes: 10 * 1024 * 1024,
  streams: 1024,
  connections: 4096,
  heartbeatMs: 15_000,
  idleMs: 10 * 60_000,
  unusedMs: 5_000,
  host: "127.0.0.1",
  port: 8080,
  allowedHosts: [],
  allowCrossSite: false,
  insecure: false,
};

const KEYS = [
  ...SHARED_KEYS,
  "required_headers",
  "allowed_origins",
  "websocket_updates",
  "max_body_bytes",
  "host",
  "port",
  "allowed_hosts",
  "allow_cross_site",
  "insecure",
];

/** Check and complete the raw options. Throws `ConfigError`. */
export function readOptions(raw: Readonly<Record<string, unknown>>, where: string): AcpHttpOptions {
  const reader = new OptionReader(raw, where, KEYS);
  const limits = reader.section("limits", ["frame_bytes", "json_depth", "streams", "connections"]);
  const defaults = ACP_HTTP_DEFAULTS;
  return {
    ...defaults,
    ...readAcpOptions(reader, limits),
    requiredHeaders: headersIn(raw, where),
    allowedOrigins: reader.strings("allowed_origins") ?? defaults.allowedOrigins,
    websocketUpdates: reader.boolean("websocket_updates", defaults.websocketUpdates),
    bodyBytes: reader.integer("max_body_bytes", defaults.bodyBytes, 1),
    streams: limits.integer("streams", defaults.streams, 1),
    connections: limits.integer("connections", defaults.connections, 1),
    host: reader.string("host", defaults.host),
    port: reader.integer("port", defaults.port, 0),
    allowedHosts: reader.strings("allowed_hosts") ?? defaults.allowedHosts,
    allowCrossSite: reader.boolean("allow_cross_site", defaults.allowCrossSite),
    insecure: reader.boolean("insecure", defaults.insecure),
  };
}

function headersIn(raw: Readonly<Record<string, unknown>>, where: string): Record<string, string> | undefined {
  const { required_headers: headers } = raw;
  if (headers === undefined) return undefined;
  const fault = headerFaultIn(headers, false);
  if (fault) throw new ConfigError(`${where}.required_headers${fault.key}: expected ${fault.expected}`);
  return headers as Record<string, string>;
}
