import { ConfigError, option, type Model } from "gantry/plugin";
import { findPreset, findPresetByHost, PRESETS, WIRES, type Preset, type Quirks, type WireName } from "./presets.js";
import { removeUndefined } from "./remove-undefined.js";

/** A configured model; missing fields are taken from the provider's list or the price list. */
export type ConfiguredModel = Pick<Model, "id"> & Partial<Omit<Model, "id">>;

/** Cache file and URL of newer prices. */
export interface PriceSource {
  /** Absolute path of the cache file; it is created by the first update. */
  readonly file: string;
  /** URL of the list. Default: the price package's own. */
  readonly url?: string;
}

/** Options of a provider. All options have a default, except that `name` or `preset` is required. */
export interface AiSdkProviderOptions {
  /** Name of the provider for clients. Default: the preset's. */
  name?: string | undefined;
  /** Id of an entry of `PRESETS`. */
  preset?: string | undefined;
  /** Wire protocol. Default: the preset's, else `openai`. */
  driver?: WireName | undefined;
  /** Default: the preset's. */
  baseUrl?: string | undefined;
  apiKey?: string | undefined;
  /** Sent with every request, including the model list. */
  headers?: Readonly<Record<string, string>> | undefined;
  /** Maximum silence between two chunks, in seconds. Default 120, or 1,800 for servers of this machine. */
  timeout?: number | undefined;
  /** Maximum number of retries. Default 5. */
  maxRetries?: number | undefined;
  /** Maximum delay that the provider may request before a retry, in seconds. Default 60. */
  maxWait?: number | undefined;
  /** Additional models, or more data of listed ones. */
  models?: readonly ConfiguredModel[] | undefined;
  /** Whether to send `reasoning_content` with each assistant message. Default: true for models that need the field. */
  echoReasoning?: boolean | undefined;
  /** Changes to the preset's quirks. */
  quirks?: Quirks | undefined;
  /** Cache of newer prices, which are fetched after an answer, once a day. Default: the prices of the package. */
  prices?: PriceSource | undefined;
}

/** Complete options of a provider. */
export interface Settings {
  readonly name: string;
  readonly wire: WireName;
  /** Without a trailing slash. */
  readonly baseUrl: string;
  readonly apiKey: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly idleTimeoutMs: number;
  readonly maxRetries: number;
  readonly maxWaitMs: number;
  readonly models: readonly ConfiguredModel[];
  /** Whether the server runs on this machine or its network. */
  readonly isLocal: boolean;
  /** Whether models without a known price are free. */
  readonly isFree: boolean;
  readonly preset: Preset | undefined;
  /** Provider id in the price list. `""`: the list is not used; undefined: search all providers by the model id. */
  readonly priceProvider: string | undefined;
  readonly quirks: Quirks;
}

/** Default timeouts in seconds, and default number of retries. */
export const DEFAULT_LIMITS = { timeout: 120, localTimeout: 1800, maxRetries: 5, maxWait: 60 };
const EXAMPLE_BASE_URL = "http://127.0.0.1:8000/v1";
const LOCAL_HOST_PATTERN = /^(localhost|127(\.\d+){3}|\[::1\]|host\.docker\.internal)$/;

/** Completes the options. Throws `ConfigError` if they contradict each other. */
export function resolveSettings(options: AiSdkProviderOptions): Settings {
  const preset = options.preset === undefined ? undefined : findPreset(options.preset);
  if (options.preset !== undefined && preset === undefined) {
    throw new ConfigError(
      `provider: expected one of ${PRESETS.map(({ id }) => id).join(", ")}, not "${options.preset}"`,
    );
  }
  const name = options.name ?? preset?.id;
  if (name === undefined) throw new ConfigError("name: expected a name for the provider");
  const baseUrl = (options.baseUrl ?? preset?.baseUrl ?? "")
    .replace(/\/+$/, "")
    // Anthropic's documentation writes the URL without the version.
    .replace(/^https:\/\/api\.anthropic\.com$/, "$&/v1");
  if (baseUrl === "") {
    throw new ConfigError(
      `base_url: expected the provider's URL, ${preset?.baseUrlExample ?? EXAMPLE_BASE_URL} for instance`,
    );
  }
  const effectivePreset = preset ?? findPresetByHost(baseUrl);
  const hasOtherUrl = preset !== undefined && preset.baseUrl !== "" && baseUrl !== preset.baseUrl;
  // Proxies for OpenAI support chat completions; few support the Responses API.
  const wire =
    options.driver ??
    (preset?.id === "openai" && hasOtherUrl ? "openai" : (preset?.wire ?? effectivePreset?.wire ?? "openai"));
  const isLocal = preset?.isLocal ?? LOCAL_HOST_PATTERN.test(new URL(baseUrl).hostname);
  return {
    name,
    wire,
    baseUrl,
    apiKey: options.apiKey,
    headers: options.headers ?? {},
    idleTimeoutMs: (options.timeout ?? (isLocal ? DEFAULT_LIMITS.localTimeout : DEFAULT_LIMITS.timeout)) * 1000,
    maxRetries: options.maxRetries ?? DEFAULT_LIMITS.maxRetries,
    maxWaitMs: (options.maxWait ?? DEFAULT_LIMITS.maxWait) * 1000,
    models: options.models ?? [],
    isLocal,
    isFree: preset?.isFree ?? false,
    preset: effectivePreset,
    priceProvider:
      effectivePreset === undefined ? (isLocal ? "" : undefined) : (effectivePreset.prices ?? effectivePreset.id),
    quirks: {
      ...effectivePreset?.quirks,
      ...options.quirks,
      ...(options.echoReasoning !== undefined && { echoReasoning: options.echoReasoning }),
    },
  };
}

const priceOptions = { unit: "USD per million tokens", min: 0 } as const;
const nonEmptyText = { fits: (text: string) => text !== "", expected: "a text that is not empty", pattern: "." };

const modelOption = option.textOr(
  "id",
  option.section(
    {
      id: option.text("The model's identifier at the provider.", { ...nonEmptyText, required: true }),
      name: option.text("Name for users.", nonEmptyText),
      context_window: option.integer("Tokens.", { min: 1 }),
      max_output: option.integer("Tokens of an answer.", { min: 1 }),
      reasoning: option.flag("Whether the model reasons."),
      efforts: option.list(
        option.oneOf(["minimal", "low", "medium", "high", "xhigh", "max"], ""),
        "Supported efforts; another effort becomes the nearest of these.",
      ),
      input: option.list(option.oneOf(["text", "image", "pdf"], ""), "Accepted kinds of input."),
      cost: option.section(
        {
          input: option.number("Price of prompt tokens.", { ...priceOptions, required: true }),
          output: option.number("Price of answer tokens.", { ...priceOptions, required: true }),
          cache_read: option.number("Price of tokens read from the provider's cache.", priceOptions),
          cache_write: option.number("Price of tokens written to the provider's cache.", priceOptions),
        },
        { optional: true },
      ),
    },
    { expected: "a model's id, or an object with an id" },
  ),
);

/** Options of every AI SDK provider, built in or from a module. */
export const connectionEntries = {
  name: option.text("The name that clients use; each name once. Default: the preset.", {
    fits: (name) => /^[^\s/]+$/.test(name),
    expected: 'a name without "/" and white space',
    pattern: "^[^\\s/]+$",
  }),
  base_url: option.text("Base URL of the provider. Default: the preset's.", {
    fits: isHttpUrl,
    expected: "a URL with http or https and without credentials",
    pattern: "^https?://",
    secret: true,
  }),
  api_key: option.text("API key. Default: the value of the preset's variable.", {
    fits: (key) => /^[\x21-\x7e]+$/.test(key),
    expected: "a key without white space",
    pattern: "^[!-~]+$",
    secret: true,
  }),
  headers: option.headers("Sent with every request.", { sent: true }),
  timeout: option.number(
    `Longest silence in an answer. Default: ${DEFAULT_LIMITS.timeout}; ${DEFAULT_LIMITS.localTimeout} for servers of this machine.`,
    {
      unit: "seconds",
      above: 0,
      max: 86_400,
    },
  ),
  max_retries: option.integer("Maximum number of retries after a temporary error.", {
    min: 0,
    max: 20,
    default: DEFAULT_LIMITS.maxRetries,
  }),
  max_wait: option.number(
    "Maximum delay that the provider may request (`retry-after`); a longer one ends the run at once.",
    { unit: "seconds", min: 0, max: 86_400, default: DEFAULT_LIMITS.maxWait },
  ),
  models: option.list(modelOption, "Additional models, or more data of listed ones; see below.", {
    default: [],
  }),
};

export const providerOptions = option.section(
  {
    provider: option.text(
      "A preset with its base URL and key variable: `openai`, `anthropic`, `google`, `openrouter`, `groq`, `mistral`, `deepseek`, `ollama`, `lmstudio` and more.",
      {
        fits: (id) => findPreset(id) !== undefined,
        expected: `one of ${PRESETS.map(({ id }) => id).join(", ")}`,
      },
    ),
    driver: option.oneOf(
      WIRES,
      "Wire protocol: `openai` (chat completions), `openai-responses`, `anthropic`, `google`; or a module. Default: the preset's.",
    ),
    ...connectionEntries,
    echo_reasoning: option.flag(
      "Whether to send `reasoning_content` with each assistant message on the wire `openai`. Default: for models that are known to need it. A provider error that requires or rejects it has priority.",
    ),
  },
  {
    rule({ provider, name, baseUrl, apiKey, models }) {
      const preset = provider === undefined ? undefined : findPreset(provider);
      if (name === undefined && preset === undefined)
        return {
          key: "provider",
          expected: 'a provider\'s name, "openai" for instance, or "name" and "base_url" of your own',
        };
      if (baseUrl === undefined && (preset === undefined || preset.baseUrl === ""))
        return {
          key: "base_url",
          expected: `the provider's URL, ${preset?.baseUrlExample ?? EXAMPLE_BASE_URL} for instance`,
        };
      if (apiKey === undefined && preset !== undefined && !preset.isLocal && baseUrl === undefined) {
        const [variable = "API_KEY"] = [...preset.keyVariables, ...(preset.sharedKeyVariables ?? [])];
        return { key: "api_key", expected: `the key of ${preset.name}, "\${${variable}}" for instance` };
      }
      return findDuplicateId(models);
    },
  },
);

/** Returns a fault for the first model id that is listed twice; undefined if no id is listed twice. */
export function findDuplicateId(
  models: option.Value<typeof connectionEntries.models> = [],
): option.OptionFault | undefined {
  const ids = models.map(({ id }) => id);
  const i = ids.findIndex((id, index) => ids.indexOf(id) !== index);
  return i === -1 ? undefined : { key: `models[${i}].id`, expected: `a different id; "${ids[i]}" is listed twice` };
}

/** Converts models of the config to the field names of `Model`. */
export function toConfiguredModels(models: option.Value<typeof connectionEntries.models> = []): ConfiguredModel[] {
  return models.map(({ cost, ...modelFields }) =>
    removeUndefined({ ...modelFields, prices: cost && removeUndefined(cost) }),
  );
}

function isHttpUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, username, password } = new URL(text);
  return /^https?:$/.test(protocol) && username === "" && password === "";
}
