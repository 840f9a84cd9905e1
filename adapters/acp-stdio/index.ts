import { defineAdapter, option } from "gantry/plugin";
import { acpEntries, acpLimits } from "../acp-shared/index.js";
import { AcpStdioTransport } from "./acp-stdio-transport.js";

export { AcpStdioTransport, type StdioStreams } from "./acp-stdio-transport.js";

export default defineAdapter({
  kind: "transport",
  name: "acp-stdio",
  schema: option.section({ ...acpEntries, limits: option.section(acpLimits) }),
  create: ({ limits, ...options }, { logger }) => new AcpStdioTransport({ ...options, ...limits }, logger),
});
