import { HTTP_DEFAULTS } from "../http/defaults.js";
import { oneOf, path, integer } from "./options.js";

const { streams, connections } = HTTP_DEFAULTS;

/** Options that several adapters share: drivers, transports, and the `limits` of transports. */
export const sharedOptions = {
  path: path(
    "Where sessions are kept. Default: `sessions.db` (`sqlite`) or the folder `sessions` (`json`) in gantry's home.",
    {
      default: "",
    },
  ),
  durability: oneOf(
    ["full", "normal"],
    '`"full"`: an answered run survives a power cut. `"normal"`: it survives a crash of the process, and writes are faster.',
    { default: "full" },
  ),
  max_body_bytes: integer("Longest request body; beyond it 413.", { min: 1, default: 10_485_760 }),
  streams: integer("Event streams of all transports at the same time; beyond it 503.", { min: 1, default: streams }),
  connections: integer("Connections at the same time; beyond it 503.", { min: 1, default: connections }),
  json_depth: integer("Nesting of a JSON body or message.", { min: 8, max: 10_000, default: 64 }),
  frame_bytes: integer("Longest ACP message.", { min: 1024, default: 67_108_864 }),
};
