import type { ModelRequest } from "gantry/plugin";
import type { EffortLevel } from "../efforts.js";
import { GeminiReader } from "../reading/google.js";
import { readReportedCost } from "../prices.js";
import { captureRequest, createRequestBuilder } from "../request-capture.js";
import type { BuiltInWire } from "./wire.js";

const THINKING_BUDGET_TOKENS: Readonly<Record<EffortLevel, number>> = {
  minimal: 512,
  low: 4096,
  medium: 12_288,
  high: 24_576,
  xhigh: 24_576,
  max: 24_576,
};
/** Thinking budget that the model chooses itself. */
const DYNAMIC_BUDGET_TOKENS = -1;

/** Whether a model has a thinking level instead of a budget, and accepts files in tool results, as since Gemini 3. */
const isGemini3 = (id: string): boolean => /gemini-/.test(id) && !/gemini-(1|2)(\.|-|$)|gemini-pro/.test(id);
const supportsThinking = (id: string): boolean => /gemini-2\.5/.test(id) || isGemini3(id);

/** Gemini's generateContent. */
export const wire: BuiltInWire = {
  createReader: () => new GeminiReader(),

  readCost: readReportedCost,

  input: (model) => (/gemma/.test(model.id) ? ["text", "image"] : ["text", "image", "pdf"]),

  rules: (model) => ({
    toolMedia: isGemini3(model.id) ? "inside" : "after",
    toolIds: "any",
    toolNames: "letter",
    reasoningOnMessage: false,
  }),

  async createRequestBuilder(settings) {
    const { createGoogleGenerativeAI } = await import("@ai-sdk/google");
    // Never undefined: the package would read a key from the environment and send it to this server.
    const google = createGoogleGenerativeAI({
      baseURL: settings.baseUrl,
      apiKey: settings.apiKey ?? "",
      headers: { ...settings.headers },
      fetch: captureRequest,
    });
    return createRequestBuilder((modelId) => google(modelId));
  },

  // Most models reject a schema together with tools.
  supportsOutputSchema: ({ request: { tools } }) => tools.length === 0,

  async options({ request, rejectedParameters }) {
    const { id, reasoning } = request.model;
    if (!(reasoning ?? supportsThinking(id)) || rejectedParameters.has("effort")) return {};
    return { providerOptions: { google: { thinkingConfig: { includeThoughts: true, ...thinkingOptions(request) } } } };
  },
};

/** Thinking options of a request. Without options nearly every model chooses its own budget. */
function thinkingOptions({ model: { id }, effort, needsReasoning }: ModelRequest) {
  if (isGemini3(id)) return effort === "" ? {} : { thinkingLevel: levelOf(effort, id) };
  if (effort !== "") return { thinkingBudget: THINKING_BUDGET_TOKENS[effort] };
  return /gemini-2\.5-flash-lite/.test(id) && needsReasoning !== false ? { thinkingBudget: DYNAMIC_BUDGET_TOKENS } : {};
}

function levelOf(effort: EffortLevel, id: string): "minimal" | "low" | "medium" | "high" {
  // Pro models do not support minimal thinking.
  if (effort === "minimal" && /pro/.test(id)) return "low";
  return effort === "xhigh" || effort === "max" ? "high" : effort;
}
