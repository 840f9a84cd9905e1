import { defineAdapter } from "gantry";
import { OptionReader, readAcpOptions, SHARED_KEYS } from "../acp-shared/index.js";
import { AcpStdioTransport } from "./acp-stdio-transport.js";

export { AcpStdioTransport, type StdioStreams } from "./acp-stdio-transport.js";

export default defineAdapter({
  kind: "transport",
  name: "acp-stdio",
  parse: (raw, { where }) => {
    const reader = new OptionReader(raw, where, SHARED_KEYS);
    return readAcpOptions(reader, reader.section("limits", ["frame_bytes", "json_depth"]));
  },
  use: AcpStdioTransport,
});
