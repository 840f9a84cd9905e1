import { HTTP_DEFAULTS } from "../http/defaults.js";
import { oneOf, path, whole } from "./options.js";

const { streams, connections } = HTTP_DEFAULTS;

/** Options that several adapters have, each defined once: of drivers, of transports, and of these what stands under `limits`. */
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
  max_body_bytes: whole("Longest request body; beyond it 413.", { min: 1, default: 10_485_760 }),
  streams: whole("Event streams of all transports at the same time; beyond it 503.", { min: 1, default: streams }),
  connections: whole("Connections at the same time; beyond it 503.", { min: 1, default: connections }),
  json_depth: whole("Nesting of a JSON body or message.", { min: 8, max: 10_000, default: 64 }),
  frame_bytes: whole("Longest ACP message.", { min: 1024, default: 67_108_864 }),
};
