import { defineAdapter } from "gantry/plugin";
import { AcpHttpTransport } from "./acp-http-transport.js";
import { acpHttpOptions } from "./options.js";

export { ACP_HTTP_DEFAULTS, type AcpHttpOptions } from "./options.js";
export { AcpHttpTransport } from "./acp-http-transport.js";

export default defineAdapter({
  kind: "transport",
  name: "acp-http-sse-ws",
  schema: acpHttpOptions,
  create: ({ limits, ...options }, { http, logger }) => new AcpHttpTransport({ ...options, ...limits }, logger, http),
});
