import type { ModelRequest } from "gantry/plugin";
import type { Effort } from "../efforts.js";
import { GeminiReader } from "../reading/google.js";
import { reportedCost } from "../prices.js";
import { captureRequest, writtenBy } from "../writing.js";
import type { OwnWire } from "./wire.js";

const BUDGETS: Readonly<Record<Effort, number>> = {
  minimal: 512,
  low: 4096,
  medium: 12_288,
  high: 24_576,
  xhigh: 24_576,
  max: 24_576,
};
/** As much as the question needs. */
const DYNAMIC = -1;

/** Models that take a level of thinking instead of a budget, and files within results of tools. */
const isGemini3 = (id: string): boolean => /gemini-/.test(id) && !/gemini-(1|2)(\.|-|$)|gemini-pro/.test(id);
const thinks = (id: string): boolean => /gemini-2\.5/.test(id) || isGemini3(id);

/** Gemini's generateContent. */
export const wire: OwnWire = {
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
    // Never undefined: the package would take a key from the environment and send it to whoever this is.
    const google = createGoogleGenerativeAI({
      baseURL: settings.baseUrl,
      apiKey: settings.apiKey ?? "",
      headers: { ...settings.headers },
      fetch: captureRequest,
    });
    return writtenBy((modelId) => google(modelId));
  },

  // Beside tools most models refuse it.
  ownJson: ({ request: { tools } }) => tools.length === 0,

  async options({ request, refused }) {
    const { id, reasoning } = request.model;
    if (!(reasoning ?? thinks(id)) || refused.has("effort")) return {};
    return { providerOptions: { google: { thinkingConfig: { includeThoughts: true, ...grade(request) } } } };
  },
};

/** How much a model shall think; by itself nearly each does as the question needs. */
function grade({ model: { id }, effort, needsReasoning: thinks }: ModelRequest) {
  if (isGemini3(id)) return effort === "" ? {} : { thinkingLevel: levelOf(effort, id) };
  if (effort !== "") return { thinkingBudget: BUDGETS[effort] };
  return /gemini-2\.5-flash-lite/.test(id) && thinks !== false ? { thinkingBudget: DYNAMIC } : {};
}

function levelOf(effort: Effort, id: string): "minimal" | "low" | "medium" | "high" {
  // Pro models do not think minimally.
  if (effort === "minimal" && /pro/.test(id)) return "low";
  return effort === "xhigh" || effort === "max" ? "high" : effort;
}
