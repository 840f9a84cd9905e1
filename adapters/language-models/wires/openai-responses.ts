import { thinksWhenAsked } from "../efforts.js";
import type { CallOptions } from "../language-model.js";
import { ResponsesReader } from "../reading/openai-responses.js";
import { reportedCost } from "../prices.js";
import { captureRequest, writtenBy } from "../writing.js";
import type { Asking, OwnWire } from "./wire.js";

/** Whether an id names one of OpenAI's reasoning models; deployments have names of their own, so configuration may say it too. */
function reasons({ request: { model } }: Pick<Asking, "request">): boolean {
  return model.reasoning ?? /^(o\d|gpt-([5-9]|\d\d)(?!.*chat)|codex)/.test(model.id);
}

/** OpenAI's Responses API. Nothing is stored there: reasoning goes back encrypted. */
export const wire: OwnWire = {
  reader: () => new ResponsesReader(),

  cost: reportedCost,

  optional: () => ["cache_key", "summary"],

  input: (model) => (/audio|realtime/.test(model.id) ? ["text"] : ["text", "image", "pdf"]),

  rules: () => ({ toolMedia: "inside", toolIds: "plain", toolNames: "plain", reasoningOnMessage: false }),

  async open(settings) {
    const { createOpenAI } = await import("@ai-sdk/openai");
    const { keyHeader } = settings.quirks;
    const headers: Record<string, string> = { ...settings.headers };
    if (keyHeader !== undefined && settings.apiKey !== undefined) headers[keyHeader] ??= settings.apiKey;
    // Never undefined: the package would take a key from the environment and send it to whoever this is.
    const openai = createOpenAI({
      baseURL: settings.baseUrl,
      apiKey: settings.apiKey ?? "",
      headers,
      fetch: captureRequest,
    });
    return writtenBy((modelId) => openai.responses(modelId));
  },

  ownJson: () => true,

  async options(asking, { tools, responseFormat }) {
    const { request, refused } = asking;
    const { effort, model, cacheKey, needsReasoning: thinks } = request;
    const openai: Record<string, string | boolean> = { store: false };
    // Strictly, it would refuse schemas with optional properties.
    if (responseFormat !== undefined) openai.strictJsonSchema = false;
    if (!refused.has("cache_key")) openai.promptCacheKey = cacheKey.slice(0, 64);
    if (reasons(asking)) {
      if (model.reasoning === true) openai.forceReasoning = true;
      if (!refused.has("summary")) openai.reasoningSummary = "auto";
      const asked = effort === "" && thinks !== false && thinksWhenAsked(model.id) ? "medium" : effort;
      if (asked !== "" && !refused.has("effort")) openai.reasoningEffort = asked;
    }
    const options: Partial<CallOptions> = { providerOptions: { openai } };
    // The API would make schemas strict by itself, and refuse those with optional properties.
    if (tools !== undefined) options.tools = tools.map((tool) => ({ ...tool, strict: false })) as typeof tools;
    return options;
  },
};
