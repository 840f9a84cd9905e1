import { HTTP_DEFAULTS } from "../http/defaults.js";
import * as option from "../plugin/options.js";
import { sharedOptions } from "../plugin/shared-options.js";
import { AGENT_DEFAULTS, BUDGET_LIMITS } from "../ports/agent-options.js";

const { streams, connections, json_depth, frame_bytes } = sharedOptions;
const { headerTimeout, requestTimeout, keepAliveTimeout } = HTTP_DEFAULTS;
const { concurrentRuns, attachmentBytes, toolOutputBytes } = AGENT_DEFAULTS;
const usdRange = { unit: "USD", above: 0, max: BUDGET_LIMITS.usd } as const;
const priceRange = { unit: "USD per million tokens", min: 0 } as const;
const secondsOption = (description: string, defaultSeconds: number) =>
  option.number(description, { unit: "seconds", above: 0, default: defaultSeconds });

/** Limits of the server, of runs and of sessions: numbers, sizes, costs and times. */
export const limits = option.section({
  concurrent_runs: option.integer("Maximum number of concurrent runs; beyond it 503.", {
    min: 1,
    default: concurrentRuns,
  }),
  streams,
  connections,
  attachment_bytes: option.integer("Maximum total size of the attachments of all active runs; beyond it 503.", {
    min: 1,
    default: attachmentBytes,
  }),
  json_depth,
  frame_bytes,
  tool_output_bytes: option.integer("Maximum size of a tool's output. The middle of a longer one is removed.", {
    min: 1024,
    default: toolOutputBytes,
  }),
  budget: option.section({
    usd: option.number("Maximum cost of a run, in USD.", usdRange),
    tokens: option.integer("Maximum prompt and completion tokens of a run.", { min: 1, max: BUDGET_LIMITS.tokens }),
    seconds: option.number("Maximum duration of a run, without the time that users need to answer.", {
      unit: "seconds",
      above: 0,
      max: BUDGET_LIMITS.seconds,
    }),
  }),
  session_budget: option.section({
    usd: option.number("Maximum total cost of a session's runs, in USD.", usdRange),
    tokens: option.integer("Maximum total prompt and completion tokens of a session's runs.", {
      min: 1,
      max: BUDGET_LIMITS.tokens,
    }),
  }),
  unknown_price: option.section(
    {
      input: option.number("Assumed price of prompt tokens if a model's price is unknown.", {
        ...priceRange,
        required: true,
      }),
      output: option.number("Assumed price of completion tokens.", { ...priceRange, required: true }),
    },
    { optional: true },
  ),
  header_timeout: secondsOption("Timeout for a request's headers.", headerTimeout),
  request_timeout: secondsOption("Timeout for a complete request.", requestTimeout),
  keep_alive_timeout: secondsOption("Timeout of an idle connection.", keepAliveTimeout),
});
