import { HTTP_DEFAULTS } from "../http/defaults.js";
import { oneOf, path, integer } from "./options.js";

const { streams, connections } = HTTP_DEFAULTS;

/** Options that several adapters share: drivers, transports, and the `limits` of transports. */
export const sharedOptions = {
  path: path(
    "Location of the sessions. Default: `sessions.db` (`sqlite`) or the folder `sessions` (`json`) in gantry's home.",
    {
      default: "",
    },
  ),
  durability: oneOf(
    ["full", "normal"],
    '`"full"`: an answered run survives a power cut. `"normal"`: it survives a crash of the process, and writes are faster.',
    { default: "full" },
  ),
  max_body_bytes: integer("Maximum request body; a larger one gives 413.", { min: 1, default: 10_485_760 }),
  streams: integer("Maximum number of event streams of all transports; beyond it 503.", { min: 1, default: streams }),
  connections: integer("Maximum number of connections; beyond it 503.", { min: 1, default: connections }),
  json_depth: integer("Maximum nesting of a JSON body or message.", { min: 8, max: 10_000, default: 64 }),
  frame_bytes: integer("Maximum size of an ACP message.", { min: 1024, default: 67_108_864 }),
};
