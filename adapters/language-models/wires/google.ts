import type { ModelRequest } from "gantry/plugin";
import type { RequestedEffort } from "../efforts.js";
import { GeminiReader } from "../reading/google.js";
import { reportedCost } from "../prices.js";
import { captureRequest, createWrite } from "../writing.js";
import type { BuiltInWire } from "./wire.js";

const BUDGETS: Readonly<Record<RequestedEffort, number>> = {
  minimal: 512,
  low: 4096,
  medium: 12_288,
  high: 24_576,
  xhigh: 24_576,
  max: 24_576,
};
/** Thinking budget that the model chooses itself. */
const DYNAMIC = -1;

/** Models with a thinking level instead of a budget, and with files in tool results. */
const isGemini3 = (id: string): boolean => /gemini-/.test(id) && !/gemini-(1|2)(\.|-|$)|gemini-pro/.test(id);
const thinks = (id: string): boolean => /gemini-2\.5/.test(id) || isGemini3(id);

/** Gemini's generateContent. */
export const wire: BuiltInWire = {
  reader: () => new GeminiReader(),

  cost: reportedCost,

  input: (model) => (/gemma/.test(model.id) ? ["text", "image"] : ["text", "image", "pdf"]),

  rules: (model) => ({
    toolMedia: isGemini3(model.id) ? "inside" : "behind",
    toolIds: "any",
    toolNames: "letter",
    reasoningOnMessage: false,
  }),

  async open(settings) {
    const { createGoogleGenerativeAI } = await import("@ai-sdk/google");
    // Never undefined: the package would read a key from the environment and send it to this server.
    const google = createGoogleGenerativeAI({
      baseURL: settings.baseUrl,
      apiKey: settings.apiKey ?? "",
      headers: { ...settings.headers },
      fetch: captureRequest,
    });
    return createWrite((modelId) => google(modelId));
  },

  // Most models reject a schema together with tools.
  supportsOutputSchema: ({ request: { tools } }) => tools.length === 0,

  async options({ request, refused }) {
    const { id, reasoning } = request.model;
    if (!(reasoning ?? thinks(id)) || refused.has("effort")) return {};
    return { providerOptions: { google: { thinkingConfig: { includeThoughts: true, ...thinkingOptions(request) } } } };
  },
};

/** Thinking options of a request; by default nearly every model chooses itself. */
function thinkingOptions({ model: { id }, effort, needsReasoning }: ModelRequest) {
  if (isGemini3(id)) return effort === "" ? {} : { thinkingLevel: levelOf(effort, id) };
  if (effort !== "") return { thinkingBudget: BUDGETS[effort] };
  return /gemini-2\.5-flash-lite/.test(id) && needsReasoning !== false ? { thinkingBudget: DYNAMIC } : {};
}

function levelOf(effort: RequestedEffort, id: string): "minimal" | "low" | "medium" | "high" {
  // Pro models do not support minimal thinking.
  if (effort === "minimal" && /pro/.test(id)) return "low";
  return effort === "xhigh" || effort === "max" ? "high" : effort;
}
