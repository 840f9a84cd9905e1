import { ConfigError, option, type Model } from "gantry/plugin";
import type { PriceSource } from "./price-updates.js";
import { findPreset, presetAt, PRESETS, WIRES, type Preset, type Quirks, type WireName } from "./presets.js";

/** A model as it is configured; what is left out is looked up where the provider or the price list knows it. */
export type ConfiguredModel = Pick<Model, "id"> & Partial<Omit<Model, "id">>;

/** What a provider is built from. All but `name` or `preset` has a default. */
export interface AiSdkProviderOptions {
  /** Identifier that clients use. Default: the preset's. */
  name?: string | undefined;
  /** Id of an entry of `PRESETS`. */
  preset?: string | undefined;
  /** Wire protocol. Default: the preset's, else `openai`. */
  driver?: WireName | undefined;
  /** Default: the preset's. */
  baseUrl?: string | undefined;
  apiKey?: string | undefined;
  /** Sent with every request, also with the listing. */
  headers?: Readonly<Record<string, string>> | undefined;
  /** Longest silence between two chunks, in seconds. Default 120; 1,800 for servers on this machine. */
  timeout?: number | undefined;
  /** How often the kernel asks again. Default 5. */
  maxRetries?: number | undefined;
  /** Longest wait that the provider may ask for, in seconds. Default 60. */
  maxWait?: number | undefined;
  /** Models beside those that the provider lists, or more about them. */
  models?: readonly ConfiguredModel[] | undefined;
  /** Whether each assistant message is sent with `reasoning_content`. Default: for models that need it. */
  echoReasoning?: boolean | undefined;
  /** Deviations from the preset. */
  quirks?: Quirks | undefined;
  /** Where newer prices are kept: after an answer they are fetched, once a day. Default: none are, and those of the package count. */
  prices?: PriceSource | undefined;
}

/** Options with nothing left open. */
export interface Settings {
  readonly name: string;
  readonly wire: WireName;
  /** Without a slash at its end. */
  readonly baseUrl: string;
  readonly apiKey: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly idleTimeoutMs: number;
  readonly maxRetries: number;
  readonly maxWaitMs: number;
  readonly models: readonly ConfiguredModel[];
  readonly local: boolean;
  /** Whether a model without a known price costs nothing. */
  readonly isFree: boolean;
  readonly preset: Preset | undefined;
  /** Name in the price list; `""`: no prices from there; undefined: by the model alone. */
  readonly priceProvider: string | undefined;
  readonly quirks: Quirks;
}

/** How long and how often a provider is asked where nothing else is said; times in seconds. */
export const PATIENCE = { timeout: 120, localTimeout: 1800, maxRetries: 5, maxWait: 60 };
const EXAMPLE = "http://127.0.0.1:8000/v1";
const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\]|host\.docker\.internal)$/;

/** Complete the options. Throws `ConfigError` where they contradict each other. */
export function settle(options: AiSdkProviderOptions): Settings {
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
    // As Anthropic's own documentation writes it.
    .replace(/^https:\/\/api\.anthropic\.com$/, "$&/v1");
  if (baseUrl === "") {
    throw new ConfigError(`base_url: expected the provider's URL, ${preset?.baseUrlExample ?? EXAMPLE} for instance`);
  }
  const located = preset ?? presetAt(baseUrl);
  const elsewhere = preset !== undefined && preset.baseUrl !== "" && baseUrl !== preset.baseUrl;
  // What stands in front of OpenAI speaks chat completions; the responses API is rare there.
  const wire =
    options.driver ?? (preset?.id === "openai" && elsewhere ? "openai" : (preset?.wire ?? located?.wire ?? "openai"));
  const local = preset?.local ?? LOOPBACK.test(new URL(baseUrl).hostname);
  return {
    name,
    wire,
    baseUrl,
    apiKey: options.apiKey,
    headers: options.headers ?? {},
    idleTimeoutMs: (options.timeout ?? (local ? PATIENCE.localTimeout : PATIENCE.timeout)) * 1000,
    maxRetries: options.maxRetries ?? PATIENCE.maxRetries,
    maxWaitMs: (options.maxWait ?? PATIENCE.maxWait) * 1000,
    models: options.models ?? [],
    local,
    isFree: preset?.isFree ?? false,
    preset: located,
    priceProvider: located === undefined ? (local ? "" : undefined) : (located.prices ?? located.id),
    quirks: {
      ...located?.quirks,
      ...options.quirks,
      ...(options.echoReasoning !== undefined && { echoReasoning: options.echoReasoning }),
    },
  };
}

const price = { unit: "USD per million tokens", min: 0 } as const;
const filled = { fits: (text: string) => text !== "", expected: "a text that is not empty", pattern: "." };

const model = option.textOr(
  "id",
  option.section(
    {
      id: option.text("The model's identifier at the provider.", { ...filled, required: true }),
      name: option.text("For people.", filled),
      context_window: option.integer("Tokens.", { min: 1 }),
      max_output: option.integer("Tokens of an answer.", { min: 1 }),
      reasoning: option.flag("Whether it reasons."),
      efforts: option.list(
        option.oneOf(["minimal", "low", "medium", "high", "xhigh", "max"], ""),
        "Efforts that can be asked of it; another becomes the nearest of these.",
      ),
      input: option.list(option.oneOf(["text", "image", "pdf"], ""), "What it takes."),
      cost: option.section(
        {
          input: option.number("Of a prompt.", { ...price, required: true }),
          output: option.number("Of an answer.", { ...price, required: true }),
          cache_read: option.number("Of what the provider had kept.", price),
          cache_write: option.number("Of what it keeps.", price),
        },
        { optional: true },
      ),
    },
    { expected: "a model's id, or an object with it" },
  ),
);

/** What every provider of the AI SDK has, wherever its code is. */
export const connectionEntries = {
  name: option.text("The name that clients use; each name once. Default: the preset.", {
    fits: (name) => /^[^\s/]+$/.test(name),
    expected: 'a name without "/" and white space',
    pattern: "^[^\\s/]+$",
  }),
  base_url: option.text("Where the provider is reached. Default: the preset's.", {
    fits: isHttpUrl,
    expected: "a URL with http or https and without credentials",
    pattern: "^https?://",
    secret: true,
  }),
  api_key: option.text("The key. Default: what the preset's variable has.", {
    fits: (key) => /^[\x21-\x7e]+$/.test(key),
    expected: "a key without white space",
    pattern: "^[!-~]+$",
    secret: true,
  }),
  headers: option.headers("Sent with every request.", { sent: true }),
  timeout: option.number(
    `Longest silence in an answer. Default: ${PATIENCE.timeout}; ${PATIENCE.localTimeout} for servers of this machine.`,
    {
      unit: "seconds",
      above: 0,
      max: 86_400,
    },
  ),
  max_retries: option.integer("How often a request is tried again after a fault that may pass.", {
    min: 0,
    max: 20,
    default: PATIENCE.maxRetries,
  }),
  max_wait: option.number(
    "Longest wait that the provider may ask for (`retry-after`); a longer one ends the run at once.",
    { unit: "seconds", min: 0, max: 86_400, default: PATIENCE.maxWait },
  ),
  models: option.list(model, "Models beside those that the provider lists, or more about them; see below.", {
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
      "Whether each assistant message is sent with its `reasoning_content`, on the wire `openai`. Default: for models that are known to need it. A refusal that asks for it, or refuses it, counts more.",
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
        return { key: "base_url", expected: `the provider's URL, ${preset?.baseUrlExample ?? EXAMPLE} for instance` };
      if (apiKey === undefined && preset !== undefined && !preset.local && baseUrl === undefined) {
        const [variable = "API_KEY"] = [...preset.keyVariables, ...(preset.sharedKeyVariables ?? [])];
        return { key: "api_key", expected: `the key of ${preset.name}, "\${${variable}}" for instance` };
      }
      return twiceIn(models);
    },
  },
);

/** A model's id that stands there twice. */
export function twiceIn(models: option.Value<typeof connectionEntries.models> = []): option.Fault | undefined {
  const ids = models.map(({ id }) => id);
  const i = ids.findIndex((id, at) => ids.indexOf(id) !== at);
  return i === -1 ? undefined : { key: `models[${i}].id`, expected: `an id that is not there yet ("${ids[i]}")` };
}

/** What the config says of models, in the words of the port. */
export function configured(models: option.Value<typeof connectionEntries.models> = []): ConfiguredModel[] {
  return models.map(({ cost, ...said }) => defined({ ...said, prices: cost && defined(cost) }));
}

/** Without what was left out: a key that is there says something to whoever spreads it over defaults. */
function defined<T extends object>(value: T): { [Key in keyof T]: Exclude<T[Key], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, one]) => one !== undefined)) as never;
}

function isHttpUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, username, password } = new URL(text);
  return /^https?:$/.test(protocol) && username === "" && password === "";
}
