/** The wire protocols that are built in. */
export type WireName = "openai" | "openai-responses" | "anthropic" | "google";

export const WIRES: readonly WireName[] = ["openai", "openai-responses", "anthropic", "google"];

/** How a provider differs from the plain chat-completions wire. */
export interface Quirks {
  /** How an effort level is asked for. Default `reasoning_effort`. */
  effort?: "reasoning_effort" | "reasoning" | "thinking" | "none";
  /** The key that limits the answer. Default `max_tokens`. */
  maxTokens?: "max_tokens" | "max_completion_tokens";
  /** Whether each assistant message is sent with `reasoning_content`. Default: by the model's family. */
  echoReasoning?: boolean;
  /** Takes `prompt_cache_key`. */
  cacheKey?: boolean;
  /** Takes `cache_control` marks for Claude models. */
  cacheMarks?: boolean;
  /** Ids of tool calls: nine letters or digits. */
  shortToolIds?: boolean;
  /** Refuses or ignores `stream_options`. */
  noStreamOptions?: boolean;
  /** Where usage tells USD. */
  cost?: "usage.cost" | "usage.cost.total_cost" | "usage.cost_in_usd_ticks";
  /** The key goes into this header instead of `Authorization: Bearer`. */
  keyHeader?: string;
  /** Extra keys of each request. */
  body?: Readonly<Record<string, unknown>>;
}

/** A provider known by name. */
export interface Preset {
  readonly id: string;
  /** For people. */
  readonly name: string;
  readonly wire: WireName;
  /** Empty where it differs from account to account: `base_url` must then be given. */
  readonly baseUrl: string;
  /** Environment variables that hold its key and nothing else, the usual one first; one that is set is reason enough to use the provider. */
  readonly keyVariables: readonly string[];
  /** Variables whose key opens other doors too: used for a provider that is configured, never reason enough to send prompts there. */
  readonly sharedKeyVariables?: readonly string[];
  /** What it offers, where its listing is missing (`listing: false`) or not to be had. */
  readonly models?: readonly string[];
  /** Whether it lists what a key can use. Default true. */
  readonly listing?: false;
  /** Runs on this machine or in this network: needs no key, costs nothing, may think for minutes. */
  readonly local: boolean;
  /** Whether a model without a known price costs nothing. Default false. */
  readonly isFree?: boolean;
  /** What `base_url` looks like, where it must be given. */
  readonly baseUrlExample?: string;
  /** Its name in the price list, where that differs from `id`; `""`: not listed. */
  readonly prices?: string;
  readonly quirks: Quirks;
}

function preset(
  id: string,
  name: string,
  baseUrl: string,
  keyVariables: readonly string[],
  rest: Partial<Omit<Preset, "id" | "name" | "baseUrl" | "keyVariables">> = {},
): Preset {
  return { id, name, wire: "openai", baseUrl, keyVariables, local: false, quirks: {}, ...rest };
}

function local(id: string, name: string, baseUrl: string, quirks: Quirks = {}): Preset {
  return preset(id, name, baseUrl, [], { local: true, isFree: true, prices: "", quirks });
}

/** Every preset, in the order in which keys in the environment are taken up. */
export const PRESETS: readonly Preset[] = [
  preset("anthropic", "Anthropic", "https://api.anthropic.com/v1", ["ANTHROPIC_API_KEY"], { wire: "anthropic" }),
  preset("openai", "OpenAI", "https://api.openai.com/v1", ["OPENAI_API_KEY"], {
    wire: "openai-responses",
    quirks: { maxTokens: "max_completion_tokens", cacheKey: true },
  }),
  preset(
    "google",
    "Google Gemini",
    "https://generativelanguage.googleapis.com/v1beta",
    ["GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"],
    { wire: "google", sharedKeyVariables: ["GOOGLE_API_KEY"] },
  ),
  preset("openrouter", "OpenRouter", "https://openrouter.ai/api/v1", ["OPENROUTER_API_KEY"], {
    quirks: { effort: "reasoning", cost: "usage.cost", cacheMarks: true, body: { usage: { include: true } } },
  }),
  preset("groq", "Groq", "https://api.groq.com/openai/v1", ["GROQ_API_KEY"], {
    quirks: { maxTokens: "max_completion_tokens" },
  }),
  preset("mistral", "Mistral", "https://api.mistral.ai/v1", ["MISTRAL_API_KEY"], {
    quirks: { shortToolIds: true, effort: "none", noStreamOptions: true },
  }),
  preset("deepseek", "DeepSeek", "https://api.deepseek.com/v1", ["DEEPSEEK_API_KEY"], {
    quirks: { echoReasoning: true, effort: "thinking" },
  }),
  preset("xai", "xAI", "https://api.x.ai/v1", ["XAI_API_KEY"], {
    prices: "x-ai",
    quirks: { cost: "usage.cost_in_usd_ticks" },
  }),
  preset("together", "Together AI", "https://api.together.xyz/v1", ["TOGETHER_API_KEY", "TOGETHER_AI_API_KEY"]),
  preset("fireworks", "Fireworks AI", "https://api.fireworks.ai/inference/v1", ["FIREWORKS_API_KEY"], {
    quirks: { cacheKey: true },
  }),
  preset("cerebras", "Cerebras", "https://api.cerebras.ai/v1", ["CEREBRAS_API_KEY"], {
    quirks: { maxTokens: "max_completion_tokens" },
  }),
  preset("perplexity", "Perplexity", "https://api.perplexity.ai", ["PERPLEXITY_API_KEY"], {
    listing: false,
    models: ["sonar-pro", "sonar", "sonar-reasoning-pro"],
    quirks: { cost: "usage.cost.total_cost", noStreamOptions: true },
  }),
  preset("deepinfra", "DeepInfra", "https://api.deepinfra.com/v1/openai", ["DEEPINFRA_API_KEY", "DEEPINFRA_TOKEN"]),
  preset("nvidia", "NVIDIA NIM", "https://integrate.api.nvidia.com/v1", ["NVIDIA_API_KEY"], { prices: "" }),
  preset("moonshot", "Moonshot AI", "https://api.moonshot.ai/v1", ["MOONSHOT_API_KEY"], {
    prices: "moonshotai",
    quirks: { echoReasoning: true, effort: "thinking", cacheKey: true },
  }),
  preset("zhipu", "Z.ai (Zhipu)", "https://api.z.ai/api/paas/v4", ["ZAI_API_KEY", "ZHIPU_API_KEY"], {
    prices: "zai",
    quirks: { echoReasoning: true, effort: "thinking" },
  }),
  preset("minimax", "MiniMax", "https://api.minimax.io/v1", ["MINIMAX_API_KEY"], {
    models: ["MiniMax-M2"],
    quirks: { effort: "none" },
  }),
  preset(
    "qwen",
    "Alibaba Model Studio",
    "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
    ["DASHSCOPE_API_KEY", "QWEN_API_KEY"],
    { prices: "", quirks: { effort: "none" } },
  ),
  preset("siliconflow", "SiliconFlow", "https://api.siliconflow.com/v1", ["SILICONFLOW_API_KEY"], {
    prices: "",
    quirks: { effort: "none" },
  }),
  preset("novita", "Novita AI", "https://api.novita.ai/openai/v1", ["NOVITA_API_KEY"]),
  preset("nebius", "Nebius Token Factory", "https://api.tokenfactory.nebius.com/v1", ["NEBIUS_API_KEY"], {
    prices: "",
  }),
  preset("hyperbolic", "Hyperbolic", "https://api.hyperbolic.xyz/v1", ["HYPERBOLIC_API_KEY"], { prices: "" }),
  preset("sambanova", "SambaNova", "https://api.sambanova.ai/v1", ["SAMBANOVA_API_KEY"], { prices: "" }),
  preset("baseten", "Baseten", "https://inference.baseten.co/v1", ["BASETEN_API_KEY"], { prices: "" }),
  preset("huggingface", "Hugging Face", "https://router.huggingface.co/v1", ["HUGGINGFACE_API_KEY"], {
    prices: "",
    sharedKeyVariables: ["HF_TOKEN"],
  }),
  preset("github-models", "GitHub Models", "https://models.github.ai/inference", ["GITHUB_MODELS_TOKEN"], {
    prices: "",
    sharedKeyVariables: ["GITHUB_TOKEN"],
    quirks: { effort: "none" },
  }),
  preset("vercel", "Vercel AI Gateway", "https://ai-gateway.vercel.sh/v1", ["AI_GATEWAY_API_KEY"], {
    prices: "",
    quirks: { cacheMarks: true },
  }),
  preset("cohere", "Cohere", "https://api.cohere.ai/compatibility/v1", ["COHERE_API_KEY", "CO_API_KEY"], {
    quirks: { effort: "none" },
  }),
  preset("inception", "Inception", "https://api.inceptionlabs.ai/v1", ["INCEPTION_API_KEY"], { prices: "" }),
  preset(
    "ovhcloud",
    "OVHcloud",
    "https://oai.endpoints.kepler.ai.cloud.ovh.net/v1",
    ["OVH_AI_ENDPOINTS_ACCESS_TOKEN"],
    {
      prices: "ovhcloud",
    },
  ),
  preset("scaleway", "Scaleway", "https://api.scaleway.ai/v1", [], {
    prices: "",
    sharedKeyVariables: ["SCW_SECRET_KEY"],
  }),
  preset("azure", "Azure OpenAI", "", ["AZURE_OPENAI_API_KEY", "AZURE_API_KEY"], {
    // It lists all that Azure has, not what was deployed.
    listing: false,
    wire: "openai-responses",
    baseUrlExample: "https://RESOURCE.openai.azure.com/openai/v1",
    quirks: { maxTokens: "max_completion_tokens", cacheKey: true, keyHeader: "api-key" },
  }),
  preset("cloudflare", "Cloudflare Workers AI", "", [], {
    sharedKeyVariables: ["CLOUDFLARE_API_TOKEN"],
    baseUrlExample: "https://api.cloudflare.com/client/v4/accounts/ACCOUNT/ai/v1",
    prices: "",
    quirks: { effort: "none" },
  }),
  local("ollama", "Ollama", "http://127.0.0.1:11434/v1"),
  local("lmstudio", "LM Studio", "http://127.0.0.1:1234/v1"),
  local("vllm", "vLLM", "http://127.0.0.1:8000/v1"),
  local("llamacpp", "llama.cpp", "http://127.0.0.1:8080/v1", { effort: "none" }),
  // It forwards to providers that cost something.
  { ...local("litellm", "LiteLLM", "http://127.0.0.1:4000/v1"), isFree: false },
  local("jan", "Jan", "http://127.0.0.1:1337/v1", { effort: "none" }),
];

const BY_ID = new Map(PRESETS.map((entry) => [entry.id, entry]));
// Other names that people know them by.
const ALIASES: Readonly<Record<string, string>> = {
  gemini: "google",
  "z.ai": "zhipu",
  zai: "zhipu",
  moonshotai: "moonshot",
  kimi: "moonshot",
  togetherai: "together",
  "lm-studio": "lmstudio",
  "llama.cpp": "llamacpp",
  alibaba: "qwen",
  dashscope: "qwen",
  claude: "anthropic",
};

export function findPreset(id: string): Preset | undefined {
  return BY_ID.get(id) ?? BY_ID.get(ALIASES[id] ?? "");
}

/** The preset that lives at this address, so that a provider given by its URL alone gets its quirks too. Local ones share ports: never. */
export function presetAt(baseUrl: string): Preset | undefined {
  const host = hostOf(baseUrl);
  if (host === "") return undefined;
  if (host.endsWith(".openai.azure.com")) return BY_ID.get("azure");
  return PRESETS.find((entry) => !entry.local && hostOf(entry.baseUrl) === host);
}

function hostOf(url: string): string {
  try {
    return new URL(url).hostname;
  } catch {
    return "";
  }
}
