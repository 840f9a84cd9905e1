import { hasCode, type Logger, type ProviderError } from "gantry";
import type { OptionalParameter } from "./wires/wire.js";

const PARAMETER_PATTERNS: readonly (readonly [OptionalParameter, RegExp])[] = [
  ["echo", /reasoning_content/i],
  ["temperature", /temperature/i],
  ["summary", /reasoning\.?_?summar|reasoning summar|generate reasoning summar/i],
  ["effort", /reasoning[_. ]?effort|reasoning|thinking|\beffort\b/i],
  ["max_tokens", /max_completion_tokens|max_tokens|max_output_tokens/i],
  ["cache_key", /prompt_cache_key|promptCacheKey/i],
  ["stream_options", /stream_options|include_usage/i],
  [
    "json",
    /response_?format|json_?schema|structured[-_ ]?outputs?|output_(config|format)|response_?schema|response_?mime_?type|additionalProperties|\bschema\b/i,
  ],
];
const REJECTION_PATTERN =
  /unsupported|not support|n't support|only (the )?default|only 1 |unrecognized|unknown|unexpected|extra (inputs|fields)|not permitted|not allowed|deprecated|invalid|not available|unavailable|must be verified|instead/i;

/**
 * Examples. DeepSeek: "The `reasoning_content` in the thinking mode must be passed back to the API.", on the wire
 * `anthropic` with `content[].thinking`; Moonshot: "thinking is enabled but reasoning_content is missing in assistant
 * tool call message at index 2".
 */
const MISSING_ECHO_PATTERN =
  /(reasoning_content|content\[\]\.thinking).*(missing|must be|required|passed back)|(missing|require).*reasoning_content/is;

const OPPOSITE_PARAMETERS: Readonly<Partial<Record<OptionalParameter, OptionalParameter>>> = {
  echo: "no_echo",
  no_echo: "echo",
};

/** Parameters that each model rejected. Later requests of this process omit these parameters. */
export class RejectedParameters {
  readonly #parametersByModelId = new Map<string, Set<OptionalParameter>>();
  readonly #logger: Logger | undefined;

  constructor(logger: Logger | undefined) {
    this.#logger = logger;
  }

  findByModel(modelId: string): ReadonlySet<OptionalParameter> {
    return this.#parametersByModelId.get(modelId) ?? new Set();
  }

  /**
   * Stores the parameter that the model rejected. Returns whether a retry without the parameter may succeed: the
   * parameter was sent and is not settled. A server may reject a parameter and its absence. The opposite therefore
   * becomes settled, so that there are only two attempts.
   */
  recordRejection(
    modelId: string,
    fault: ProviderError,
    sentParameters: ReadonlySet<OptionalParameter>,
    settledParameters: Set<OptionalParameter>,
  ): boolean {
    const parameter = findRejectedParameter(fault, sentParameters);
    if (parameter === undefined || settledParameters.has(parameter)) return false;
    const rejectedParameters = new Set([...this.findByModel(modelId), parameter]);
    const opposite = OPPOSITE_PARAMETERS[parameter];
    if (opposite !== undefined) {
      rejectedParameters.delete(opposite);
      settledParameters.add(opposite);
    }
    this.#parametersByModelId.set(modelId, rejectedParameters);
    this.#logger?.info("model rejected a parameter; omitting it from now on", { model: modelId, parameter });
    return true;
  }
}

/**
 * Finds the optional parameter that a provider rejected; undefined unless the parameter was sent and can be omitted.
 */
function findRejectedParameter(
  error: unknown,
  sentParameters: ReadonlySet<OptionalParameter>,
): OptionalParameter | undefined {
  if (!hasCode(error, "provider") || error.kind !== "bad_request") return undefined;
  if (MISSING_ECHO_PATTERN.test(error.message)) return sentParameters.has("no_echo") ? "no_echo" : undefined;
  if (!REJECTION_PATTERN.test(error.message)) return undefined;
  return PARAMETER_PATTERNS.find(([name, pattern]) => sentParameters.has(name) && pattern.test(error.message))?.[0];
}
