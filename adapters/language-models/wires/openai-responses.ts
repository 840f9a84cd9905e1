import { needsEffortToThink } from "../efforts.js";
import type { ModelCallOptions } from "../language-model.js";
import { ResponsesReader } from "../reading/openai-responses.js";
import { readReportedCost } from "../prices.js";
import { captureRequest, createRequestBuilder } from "../request-capture.js";
import type { WireRequest, BuiltInWire } from "./wire.js";

/** OpenAI's limit for `prompt_cache_key`. */
const MAX_CACHE_KEY_CHARACTERS = 64;

/** Whether a model reasons, by the model's data or by OpenAI's model ids. Azure deployments have their own ids. */
function isReasoningModel({ request: { model } }: Pick<WireRequest, "request">): boolean {
  return model.reasoning ?? /^(o\d|gpt-([5-9]|\d\d)(?!.*chat)|codex)/.test(model.id);
}

/** OpenAI's Responses API. Nothing is stored at the provider: reasoning is sent back encrypted. */
export const wire: BuiltInWire = {
  createReader: () => new ResponsesReader(),

  readCost: readReportedCost,

  optionalParameters: () => ["cache_key", "summary"],

  input: (model) => (/audio|realtime/.test(model.id) ? ["text"] : ["text", "image", "pdf"]),

  rules: () => ({ toolMedia: "inside", toolIds: "plain", toolNames: "plain", reasoningOnMessage: false }),

  async createRequestBuilder(settings) {
    const { createOpenAI } = await import("@ai-sdk/openai");
    const { keyHeader } = settings.quirks;
    const headers: Record<string, string> = { ...settings.headers };
    if (keyHeader !== undefined && settings.apiKey !== undefined) headers[keyHeader] ??= settings.apiKey;
    // Never undefined: the package would read a key from the environment and send it to this server.
    const openai = createOpenAI({
      baseURL: settings.baseUrl,
      apiKey: settings.apiKey ?? "",
      headers,
      fetch: captureRequest,
    });
    return createRequestBuilder((modelId) => openai.responses(modelId));
  },

  supportsOutputSchema: () => true,

  async options(wireRequest, { tools, responseFormat }) {
    const { request, rejectedParameters } = wireRequest;
    const { effort, model, cacheKey, needsReasoning } = request;
    const openai: Record<string, string | boolean> = { store: false };
    // Strict mode rejects schemas with optional properties.
    if (responseFormat !== undefined) openai.strictJsonSchema = false;
    if (!rejectedParameters.has("cache_key")) openai.promptCacheKey = cacheKey.slice(0, MAX_CACHE_KEY_CHARACTERS);
    if (isReasoningModel(wireRequest)) {
      if (model.reasoning === true) openai.forceReasoning = true;
      if (!rejectedParameters.has("summary")) openai.reasoningSummary = "auto";
      const effectiveEffort =
        effort === "" && needsReasoning !== false && needsEffortToThink(model.id) ? "medium" : effort;
      if (effectiveEffort !== "" && !rejectedParameters.has("effort")) openai.reasoningEffort = effectiveEffort;
    }
    const options: Partial<ModelCallOptions> = { providerOptions: { openai } };
    // The API's default is strict, which rejects schemas with optional properties.
    if (tools !== undefined) options.tools = tools.map((tool) => ({ ...tool, strict: false })) as typeof tools;
    return options;
  },
};
