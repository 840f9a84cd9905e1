import { defineAdapter } from "gantry";
import { readOptions } from "./options.js";
import { AcpHttpTransport } from "./acp-http-transport.js";

export { ACP_HTTP_DEFAULTS, type AcpHttpOptions } from "./options.js";
export { AcpHttpTransport } from "./acp-http-transport.js";

export default defineAdapter({
  kind: "transport",
  name: "acp-http-sse-ws",
  parse: (raw, { where }) => readOptions(raw, where),
  use: AcpHttpTransport,
});
