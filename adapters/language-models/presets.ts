/** The built-in wire protocols. */
export type WireName = "openai" | "openai-responses" | "anthropic" | "google";

export const WIRES: readonly WireName[] = ["openai", "openai-responses", "anthropic", "google"];

/** Differences of a provider from the plain chat-completions protocol. */
export interface Quirks {
  /** Parameter for the effort level. Default `reasoning_effort`. */
  effort?: "reasoning_effort" | "reasoning" | "thinking" | "none";
  /** Parameter for the answer limit. Default `max_tokens`. */
  maxTokens?: "max_tokens" | "max_completion_tokens";
  /** Answer limit in tokens for models with an unknown limit, where the provider's default is too small for an agent. */
  answerTokens?: number;
  /** Whether to send `reasoning_content` with each assistant message. Default: by the model's family. */
  echoReasoning?: boolean;
  /** Whether the provider accepts `prompt_cache_key`. */
  cacheKey?: boolean;
  /** Field of the cache marks for Claude models: on a content part, or on the message. Default: no marks are sent. */
  cacheMarks?: "cache_control" | "copilot_cache_control";
  /** Whether tool call ids must consist of nine letters or digits. */
  shortToolIds?: boolean;
  /** Whether the provider rejects or ignores `stream_options`. */
  noStreamOptions?: boolean;
  /** Usage field with the cost in USD. */
  cost?: "usage.cost" | "usage.cost.total_cost" | "usage.cost_in_usd_ticks";
  /** Header for the key instead of `Authorization: Bearer`. */
  keyHeader?: string;
  /** Additional fields of each request body. */
  body?: Readonly<Record<string, unknown>>;
}

/** A provider that is known by name. */
export interface Preset {
  readonly id: string;
  /** Name for users. */
  readonly name: string;
  readonly wire: WireName;
  /** Empty if it differs between accounts: `base_url` is then required. */
  readonly baseUrl: string;
  /**
   * Environment variables that contain only this provider's key, the usual variable first. The provider is used if one
   * of the variables is set.
   */
  readonly keyVariables: readonly string[];
  /**
   * Variables whose keys also have other uses. A configured provider reads these variables, but the variables alone
   * never cause prompts to be sent to the provider.
   */
  readonly sharedKeyVariables?: readonly string[];
  /** Models to offer if the provider has no list (`hasModelList: false`) or the list is not found. */
  readonly models?: readonly string[];
  /** Whether the provider lists the models that a key can use. Default true. */
  readonly hasModelList?: false;
  /** Whether the server is on this machine or network: it needs no key, costs nothing, and may think for minutes. */
  readonly isLocal: boolean;
  /** Whether models without a known price are free. Default false. */
  readonly isFree?: boolean;
  /** Example of a `base_url`, if one is required. */
  readonly baseUrlExample?: string;
  /** Provider id in the price list, if it differs from `id`; `""`: not in the list. */
  readonly prices?: string;
  /** Converts addresses and credentials of requests; see `hosts`. */
  readonly host?: "vertex" | "copilot" | "bedrock";
  readonly quirks: Quirks;
}

function createPreset(
  id: string,
  name: string,
  baseUrl: string,
  keyVariables: readonly string[],
  overrides: Partial<Omit<Preset, "id" | "name" | "baseUrl" | "keyVariables">> = {},
): Preset {
  return { id, name, wire: "openai", baseUrl, keyVariables, isLocal: false, quirks: {}, ...overrides };
}

function createLocalPreset(id: string, name: string, baseUrl: string, quirks: Quirks = {}): Preset {
  return createPreset(id, name, baseUrl, [], { isLocal: true, isFree: true, prices: "", quirks });
}

const VERTEX_URL = "https://aiplatform.googleapis.com/v1/projects/PROJECT/locations/global";

/** All presets, in the order in which keys in the environment are used. */
export const PRESETS: readonly Preset[] = [
  createPreset("anthropic", "Anthropic", "https://api.anthropic.com/v1", ["ANTHROPIC_API_KEY"], { wire: "anthropic" }),
  createPreset("openai", "OpenAI", "https://api.openai.com/v1", ["OPENAI_API_KEY"], {
    wire: "openai-responses",
    quirks: { maxTokens: "max_completion_tokens", cacheKey: true },
  }),
  createPreset(
    "google",
    "Google Gemini",
    "https://generativelanguage.googleapis.com/v1beta",
    ["GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"],
    { wire: "google", sharedKeyVariables: ["GOOGLE_API_KEY"] },
  ),
  createPreset("openrouter", "OpenRouter", "https://openrouter.ai/api/v1", ["OPENROUTER_API_KEY"], {
    quirks: {
      effort: "reasoning",
      cost: "usage.cost",
      cacheMarks: "cache_control",
      body: { usage: { include: true } },
    },
  }),
  createPreset("groq", "Groq", "https://api.groq.com/openai/v1", ["GROQ_API_KEY"], {
    quirks: { maxTokens: "max_completion_tokens" },
  }),
  createPreset("mistral", "Mistral", "https://api.mistral.ai/v1", ["MISTRAL_API_KEY"], {
    quirks: { shortToolIds: true, effort: "none", noStreamOptions: true },
  }),
  createPreset("deepseek", "DeepSeek", "https://api.deepseek.com/v1", ["DEEPSEEK_API_KEY"], {
    quirks: { echoReasoning: true, effort: "thinking" },
  }),
  createPreset("xai", "xAI", "https://api.x.ai/v1", ["XAI_API_KEY"], {
    prices: "x-ai",
    quirks: { cost: "usage.cost_in_usd_ticks" },
  }),
  createPreset("together", "Together AI", "https://api.together.xyz/v1", ["TOGETHER_API_KEY", "TOGETHER_AI_API_KEY"]),
  createPreset("fireworks", "Fireworks AI", "https://api.fireworks.ai/inference/v1", ["FIREWORKS_API_KEY"], {
    // Its default is 2,048 tokens. It lowers a limit that exceeds the context window.
    quirks: { cacheKey: true, answerTokens: 32_000 },
  }),
  createPreset("cerebras", "Cerebras", "https://api.cerebras.ai/v1", ["CEREBRAS_API_KEY"], {
    quirks: { maxTokens: "max_completion_tokens" },
  }),
  createPreset("perplexity", "Perplexity", "https://api.perplexity.ai", ["PERPLEXITY_API_KEY"], {
    hasModelList: false,
    models: ["sonar-pro", "sonar", "sonar-reasoning-pro"],
    quirks: { cost: "usage.cost.total_cost", noStreamOptions: true },
  }),
  createPreset("deepinfra", "DeepInfra", "https://api.deepinfra.com/v1/openai", [
    "DEEPINFRA_API_KEY",
    "DEEPINFRA_TOKEN",
  ]),
  createPreset("nvidia", "NVIDIA NIM", "https://integrate.api.nvidia.com/v1", ["NVIDIA_API_KEY"], { prices: "" }),
  createPreset("moonshot", "Moonshot AI", "https://api.moonshot.ai/v1", ["MOONSHOT_API_KEY"], {
    prices: "moonshotai",
    // https://platform.kimi.ai/docs/api/chat: max_tokens is deprecated.
    quirks: { echoReasoning: true, effort: "thinking", cacheKey: true, maxTokens: "max_completion_tokens" },
  }),
  createPreset("zhipu", "Z.ai (Zhipu)", "https://api.z.ai/api/paas/v4", ["ZAI_API_KEY", "ZHIPU_API_KEY"], {
    prices: "zai",
    quirks: { echoReasoning: true, effort: "thinking" },
  }),
  createPreset("minimax", "MiniMax", "https://api.minimax.io/v1", ["MINIMAX_API_KEY"], {
    models: ["MiniMax-M2"],
    quirks: { effort: "none" },
  }),
  createPreset(
    "qwen",
    "Alibaba Model Studio",
    "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
    ["DASHSCOPE_API_KEY", "QWEN_API_KEY"],
    { prices: "", quirks: { effort: "none" } },
  ),
  createPreset("siliconflow", "SiliconFlow", "https://api.siliconflow.com/v1", ["SILICONFLOW_API_KEY"], {
    prices: "",
    // Its default is 4,096 tokens.
    quirks: { effort: "none", answerTokens: 16_384 },
  }),
  createPreset("novita", "Novita AI", "https://api.novita.ai/openai/v1", ["NOVITA_API_KEY"]),
  createPreset("nebius", "Nebius Token Factory", "https://api.tokenfactory.nebius.com/v1", ["NEBIUS_API_KEY"], {
    prices: "",
  }),
  createPreset("hyperbolic", "Hyperbolic", "https://api.hyperbolic.xyz/v1", ["HYPERBOLIC_API_KEY"], { prices: "" }),
  createPreset("sambanova", "SambaNova", "https://api.sambanova.ai/v1", ["SAMBANOVA_API_KEY"], { prices: "" }),
  createPreset("baseten", "Baseten", "https://inference.baseten.co/v1", ["BASETEN_API_KEY"], { prices: "" }),
  createPreset("huggingface", "Hugging Face", "https://router.huggingface.co/v1", ["HUGGINGFACE_API_KEY"], {
    prices: "",
    sharedKeyVariables: ["HF_TOKEN"],
  }),
  createPreset("github-models", "GitHub Models", "https://models.github.ai/inference", ["GITHUB_MODELS_TOKEN"], {
    prices: "",
    sharedKeyVariables: ["GITHUB_TOKEN"],
    quirks: { effort: "none" },
  }),
  createPreset("vercel", "Vercel AI Gateway", "https://ai-gateway.vercel.sh/v1", ["AI_GATEWAY_API_KEY"], {
    prices: "",
    quirks: { cost: "usage.cost", cacheMarks: "cache_control" },
  }),
  createPreset("avian", "Avian", "https://api.avian.io/v1", ["AVIAN_API_KEY"], {
    prices: "",
    quirks: { cost: "usage.cost" },
  }),
  createPreset("cohere", "Cohere", "https://api.cohere.ai/compatibility/v1", ["COHERE_API_KEY", "CO_API_KEY"], {
    quirks: { effort: "none" },
  }),
  createPreset("inception", "Inception", "https://api.inceptionlabs.ai/v1", ["INCEPTION_API_KEY"], { prices: "" }),
  createPreset(
    "ovhcloud",
    "OVHcloud",
    "https://oai.endpoints.kepler.ai.cloud.ovh.net/v1",
    ["OVH_AI_ENDPOINTS_ACCESS_TOKEN"],
    {
      prices: "ovhcloud",
    },
  ),
  createPreset("scaleway", "Scaleway", "https://api.scaleway.ai/v1", [], {
    prices: "",
    sharedKeyVariables: ["SCW_SECRET_KEY"],
  }),
  createPreset("azure", "Azure OpenAI", "", ["AZURE_OPENAI_API_KEY", "AZURE_API_KEY"], {
    // The list contains all models of Azure, not the deployed ones.
    hasModelList: false,
    wire: "openai-responses",
    baseUrlExample: "https://RESOURCE.openai.azure.com/openai/v1",
    quirks: { maxTokens: "max_completion_tokens", cacheKey: true, keyHeader: "api-key" },
  }),
  createPreset("bedrock", "Amazon Bedrock", "", [], {
    wire: "anthropic",
    host: "bedrock",
    sharedKeyVariables: ["AWS_BEARER_TOKEN_BEDROCK"],
    hasModelList: false,
    models: ["us.anthropic.claude-sonnet-5", "us.anthropic.claude-haiku-4-5-20251001-v1:0"],
    baseUrlExample: "https://bedrock-runtime.us-east-1.amazonaws.com",
    prices: "aws",
  }),
  createPreset("vertex", "Google Vertex AI", "", [], {
    wire: "google",
    host: "vertex",
    sharedKeyVariables: ["CLOUDSDK_AUTH_ACCESS_TOKEN"],
    hasModelList: false,
    models: ["gemini-3-pro-preview", "gemini-2.5-pro", "gemini-2.5-flash"],
    baseUrlExample: VERTEX_URL,
    prices: "google",
  }),
  createPreset("vertex-anthropic", "Claude on Vertex AI", "", [], {
    wire: "anthropic",
    host: "vertex",
    sharedKeyVariables: ["CLOUDSDK_AUTH_ACCESS_TOKEN"],
    hasModelList: false,
    models: ["claude-sonnet-5", "claude-haiku-4-5@20251001"],
    baseUrlExample: VERTEX_URL,
    prices: "google",
  }),
  createPreset("copilot", "GitHub Copilot", "https://api.githubcopilot.com", ["COPILOT_GITHUB_TOKEN"], {
    host: "copilot",
    prices: "",
    quirks: { cacheMarks: "copilot_cache_control" },
  }),
  createPreset("cloudflare", "Cloudflare Workers AI", "", [], {
    sharedKeyVariables: ["CLOUDFLARE_API_TOKEN"],
    baseUrlExample: "https://api.cloudflare.com/client/v4/accounts/ACCOUNT/ai/v1",
    prices: "",
    // Its default is 256 tokens. It counts the limit as part of the context window.
    quirks: { effort: "none", answerTokens: 4096 },
  }),
  createLocalPreset("ollama", "Ollama", "http://127.0.0.1:11434/v1"),
  createLocalPreset("lmstudio", "LM Studio", "http://127.0.0.1:1234/v1"),
  createLocalPreset("vllm", "vLLM", "http://127.0.0.1:8000/v1"),
  createLocalPreset("llamacpp", "llama.cpp", "http://127.0.0.1:8080/v1", { effort: "none" }),
  // LiteLLM forwards requests to paid providers.
  { ...createLocalPreset("litellm", "LiteLLM", "http://127.0.0.1:4000/v1"), isFree: false },
  createLocalPreset("jan", "Jan", "http://127.0.0.1:1337/v1", { effort: "none" }),
];

const PRESETS_BY_ID = new Map(PRESETS.map((entry) => [entry.id, entry]));
const PRESET_IDS_BY_ALIAS: Readonly<Record<string, string>> = {
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
  "amazon-bedrock": "bedrock",
  "google-vertex": "vertex",
  "google-vertex-anthropic": "vertex-anthropic",
  "github-copilot": "copilot",
};

export function findPreset(id: string): Preset | undefined {
  return PRESETS_BY_ID.get(id) ?? PRESETS_BY_ID.get(PRESET_IDS_BY_ALIAS[id] ?? "");
}

/**
 * The preset with this host, so that a provider configured by its URL gets the quirks of the preset. Undefined for
 * other hosts. Never a local preset, because local presets share a host.
 */
export function findPresetByHost(baseUrl: string): Preset | undefined {
  const host = hostOf(baseUrl);
  if (host === "") return undefined;
  if (host.endsWith(".openai.azure.com")) return PRESETS_BY_ID.get("azure");
  if (host === "api.cloudflare.com") return PRESETS_BY_ID.get("cloudflare");
  return PRESETS.find((entry) => !entry.isLocal && hostOf(entry.baseUrl) === host);
}

/** Host name without port; `""` for an invalid URL. */
function hostOf(url: string): string {
  try {
    return new URL(url).hostname;
  } catch {
    return "";
  }
}
