import type { ReasoningEffort } from "gantry";
import { ResponsesReader } from "../reading/openai-responses.js";
import type { Asking, Wire } from "./wire.js";

/** Whether an id names one of OpenAI's reasoning models; deployments have names of their own, so configuration may say it too. */
function reasons({ request: { model } }: Pick<Asking, "request">): boolean {
  return model.reasoning ?? /^(o\d|gpt-([5-9]|\d\d)(?!.*chat)|codex)/.test(model.id);
}

/** OpenAI's Responses API. Nothing is stored there: reasoning goes back encrypted. */
export const wire: Wire = {
  reader: () => new ResponsesReader(),

  input: (model) => (/audio|realtime/.test(model.id) ? ["text"] : ["text", "image", "pdf"]),

  rules: () => ({ toolMedia: "inside", toolIds: "plain", reasoningOnMessage: false }),

  async open(settings, fetch) {
    const { createOpenAI } = await import("@ai-sdk/openai");
    const { keyHeader } = settings.quirks;
    const headers: Record<string, string> = { ...settings.headers };
    if (keyHeader !== undefined && settings.apiKey !== undefined) headers[keyHeader] ??= settings.apiKey;
    // Never undefined: the package would take a key from the environment and send it to whoever this is.
    const openai = createOpenAI({ baseURL: settings.baseUrl, apiKey: settings.apiKey ?? "", headers, fetch });
    return (modelId) => openai.responses(modelId);
  },

  options(asking, { tools }) {
    const { request, refused, maxTokens } = asking;
    const reasoning = reasons(asking);
    return Promise.resolve({
      ...(maxTokens === undefined ? {} : { maxOutputTokens: maxTokens }),
      // The API would make schemas strict by itself, and refuse those with optional properties.
      ...(tools === undefined ? {} : { tools: tools.map((tool) => ({ ...tool, strict: false })) as typeof tools }),
      providerOptions: {
        openai: {
          store: false,
          ...(refused.has("cache_key") ? {} : { promptCacheKey: request.cacheKey.slice(0, 64) }),
          ...(reasoning && request.model.reasoning === true ? { forceReasoning: true } : {}),
          ...(reasoning && !refused.has("summary") ? { reasoningSummary: "auto" } : {}),
          ...(reasoning && request.effort !== "" && !refused.has("effort")
            ? { reasoningEffort: effortOf(request.effort, request.model.id) }
            : {}),
        },
      },
    });
  },
};

function effortOf(effort: Exclude<ReasoningEffort, "">, modelId: string): string {
  // Only the first GPT-5 models know `minimal`.
  return effort === "minimal" && !/^gpt-5(-(mini|nano))?(-\d|$)/.test(modelId) ? "low" : effort;
}
