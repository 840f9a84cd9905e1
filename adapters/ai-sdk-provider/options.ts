import { ConfigError, type Model, type ModelPrices, type OptionsContext } from "gantry";
import { findPreset, presetAt, PRESETS, WIRES, type Preset, type Quirks, type WireName } from "./presets.js";

/** A model as it is configured; what is left out is looked up where the provider or the price list knows it. */
export type ConfiguredModel = Pick<Model, "id"> & Partial<Omit<Model, "id">>;

/** What a provider is built from. All but `name` or `preset` has a default. */
export interface AiSdkProviderOptions {
  /** Identifier that clients use. Default: the preset's. */
  name?: string;
  /** Id of an entry of `PRESETS`. */
  preset?: string;
  /** Wire protocol. Default: the preset's, else `openai`. */
  driver?: WireName;
  /** Default: the preset's. */
  baseUrl?: string;
  apiKey?: string;
  /** Sent with every request, also with the listing. */
  headers?: Readonly<Record<string, string>>;
  /** Longest silence between two chunks, in seconds. Default 120; 1,800 for servers on this machine. */
  timeout?: number;
  /** How often the kernel asks again. Default 5. */
  maxRetries?: number;
  /** Longest wait that the provider may ask for, in seconds. Default 60. */
  maxWait?: number;
  /** Models beside those that the provider lists, or more about them. */
  models?: readonly ConfiguredModel[];
  /** Deviations from the preset. */
  quirks?: Quirks;
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
  readonly preset: Preset | undefined;
  /** Name in the price list; `""`: no prices from there; undefined: by the model alone. */
  readonly priceProvider: string | undefined;
  readonly quirks: Quirks;
}

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
    throw new ConfigError(
      `base_url: expected the provider's URL, ${preset?.baseUrlExample ?? "http://127.0.0.1:8000/v1"} for instance`,
    );
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
    idleTimeoutMs: (options.timeout ?? (local ? 1800 : 120)) * 1000,
    maxRetries: options.maxRetries ?? 5,
    maxWaitMs: (options.maxWait ?? 60) * 1000,
    models: options.models ?? [],
    local,
    preset: located,
    priceProvider: located === undefined ? (local ? "" : undefined) : (located.prices ?? located.id),
    quirks: { ...located?.quirks, ...options.quirks },
  };
}

/** Check an object of config `providers[]`. Messages name the key and what was expected. */
export function parseOptions(raw: Readonly<Record<string, unknown>>, context: OptionsContext): AiSdkProviderOptions {
  const check = new Checker(context.where);
  check.keys("", raw, [
    "provider",
    "name",
    "driver",
    "base_url",
    "api_key",
    "headers",
    "timeout",
    "max_retries",
    "max_wait",
    "models",
  ]);
  const preset = check.text("provider", raw.provider);
  const found = preset === undefined ? undefined : findPreset(preset);
  if (preset !== undefined && found === undefined) {
    check.fail("provider", `one of ${PRESETS.map(({ id }) => id).join(", ")}`);
  }
  const name = check.text("name", raw.name);
  if (name === undefined && preset === undefined) {
    check.fail("provider", 'a provider\'s name, "openai" for instance, or "name" and "base_url" of your own');
  }
  if (name !== undefined && /[\s/]/.test(name)) check.fail("name", 'a name without "/" and white space');
  const driver = check.text("driver", raw.driver);
  if (driver !== undefined && !WIRES.includes(driver as WireName)) check.fail("driver", `one of ${WIRES.join(", ")}`);
  const baseUrl = check.text("base_url", raw.base_url);
  if (baseUrl !== undefined && !isHttpUrl(baseUrl))
    check.fail("base_url", "a URL with http or https and without credentials");
  if (baseUrl === undefined && (found === undefined || found.baseUrl === "")) {
    check.fail("base_url", `the provider's URL, ${found?.baseUrlExample ?? "http://127.0.0.1:8000/v1"} for instance`);
  }
  const apiKey = check.text("api_key", raw.api_key);
  if (apiKey === undefined && found !== undefined && !found.local && baseUrl === undefined) {
    check.fail(
      "api_key",
      `the key of ${found.name}, "\${${[...found.keyVariables, ...(found.sharedKeyVariables ?? [])][0] ?? "API_KEY"}}" for instance`,
    );
  }
  if (apiKey !== undefined && /[^\x21-\x7e]/.test(apiKey)) check.fail("api_key", "a key without white space");
  const options: AiSdkProviderOptions = {};
  if (preset !== undefined) options.preset = found?.id ?? preset;
  if (name !== undefined) options.name = name;
  if (driver !== undefined) options.driver = driver as WireName;
  if (baseUrl !== undefined) options.baseUrl = baseUrl;
  if (apiKey !== undefined) options.apiKey = apiKey;
  const headers = headersOf(check, raw.headers);
  if (headers !== undefined) options.headers = headers;
  const timeout = check.timeout(raw.timeout);
  if (timeout !== undefined) options.timeout = timeout;
  const retries = check.retries(raw.max_retries);
  if (retries !== undefined) options.maxRetries = retries;
  const wait = check.wait(raw.max_wait);
  if (wait !== undefined) options.maxWait = wait;
  if (raw.models !== undefined) options.models = modelsOf(check, raw.models);
  return options;
}

export function isHttpUrl(text: string): boolean {
  try {
    const url = new URL(text);
    return (url.protocol === "http:" || url.protocol === "https:") && url.username === "" && url.password === "";
  } catch {
    return false;
  }
}

export function headersOf(check: Checker, raw: unknown): Record<string, string> | undefined {
  if (raw === undefined) return undefined;
  const headers: Record<string, string> = {};
  for (const [key, value] of Object.entries(check.object("headers", raw))) {
    if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(key)) check.fail(`headers.${key}`, "the name of a header");
    if (typeof value !== "string" || /[^\t\x20-\x7e\x80-\xff]/.test(value))
      check.fail(`headers.${key}`, "text on one line");
    headers[key] = value as string;
  }
  return headers;
}

/** Check `models[]` of a provider; other model providers take the same. */
export function modelsOf(check: Checker, raw: unknown): ConfiguredModel[] {
  if (!Array.isArray(raw)) check.fail("models", "a list of models");
  const seen = new Set<string>();
  return (raw as unknown[]).map((entry, index) => {
    const at = `models[${index}]`;
    const source = typeof entry === "string" ? { id: entry } : check.object(at, entry);
    check.keys(`${at}.`, source, ["id", "name", "context_window", "max_output", "reasoning", "input", "cost"]);
    const id = check.text(`${at}.id`, source.id);
    if (id === undefined) return check.fail(`${at}.id`, "the model's id");
    if (seen.has(id)) check.fail(`${at}.id`, `an id that is not there yet ("${id}")`);
    seen.add(id);
    const model: { -readonly [Key in keyof ConfiguredModel]: ConfiguredModel[Key] } = { id };
    const name = check.text(`${at}.name`, source.name);
    if (name !== undefined) model.name = name;
    for (const [key, field] of [
      ["context_window", "contextWindow"],
      ["max_output", "maxOutput"],
    ] as const) {
      const value = check.number(
        `${at}.${key}`,
        source[key],
        "a positive integer",
        (n) => Number.isInteger(n) && n > 0,
      );
      if (value !== undefined) model[field] = value;
    }
    if (source.reasoning !== undefined) {
      if (typeof source.reasoning !== "boolean") check.fail(`${at}.reasoning`, "true or false");
      model.reasoning = source.reasoning as boolean;
    }
    if (source.input !== undefined) {
      const kinds = ["text", "image", "pdf"];
      if (!Array.isArray(source.input) || !source.input.every((kind) => kinds.includes(kind as string))) {
        check.fail(`${at}.input`, `a list of ${kinds.join(", ")}`);
      }
      model.input = source.input as ("text" | "image" | "pdf")[];
    }
    if (source.cost !== undefined) model.prices = pricesOf(check, `${at}.cost`, source.cost);
    return model;
  });
}

function pricesOf(check: Checker, at: string, raw: unknown): ModelPrices {
  const source = check.object(at, raw);
  check.keys(`${at}.`, source, ["input", "output", "cache_read", "cache_write"]);
  const price = (key: string): number | undefined =>
    check.number(`${at}.${key}`, source[key], "USD per million tokens, 0 or more", (n) => n >= 0);
  const input = price("input") ?? check.fail(`${at}.input`, "USD per million tokens");
  const output = price("output") ?? check.fail(`${at}.output`, "USD per million tokens");
  const prices: ModelPrices = { input, output };
  const read = price("cache_read");
  if (read !== undefined) prices.cacheRead = read;
  const write = price("cache_write");
  if (write !== undefined) prices.cacheWrite = write;
  return prices;
}

/** Checks of plain JSON whose errors say where and what was expected. */
export class Checker {
  readonly #where: string;
  constructor(where: string) {
    this.#where = where;
  }
  fail(key: string, expected: string): never {
    throw new ConfigError(`${this.#at(key)}: expected ${expected}`);
  }
  #at(key: string): string {
    // `file: providers[0]` + `api_key` reads `file: providers[0].api_key`.
    return this.#where === "" ? key : this.#where.endsWith("]") ? `${this.#where}.${key}` : `${this.#where}: ${key}`;
  }
  keys(prefix: string, value: Readonly<Record<string, unknown>>, known: readonly string[]): void {
    for (const key of Object.keys(value)) {
      if (!known.includes(key))
        throw new ConfigError(`${this.#at(prefix + key)}: unknown key; expected one of ${known.join(", ")}`);
    }
  }
  object(key: string, value: unknown): Record<string, unknown> {
    if (typeof value !== "object" || value === null || Array.isArray(value)) this.fail(key, "an object");
    return value as Record<string, unknown>;
  }
  /** Undefined when left out; a text is never empty. */
  text(key: string, value: unknown): string | undefined {
    if (value === undefined) return undefined;
    if (typeof value !== "string" || value === "") this.fail(key, "a text");
    return value as string;
  }
  number(key: string, value: unknown, expected: string, fits: (value: number) => boolean): number | undefined {
    if (value === undefined) return undefined;
    if (typeof value !== "number" || !Number.isFinite(value) || !fits(value)) this.fail(key, expected);
    return value as number;
  }
  timeout(value: unknown): number | undefined {
    return this.number("timeout", value, "seconds, more than 0 and at most 86400", (n) => n > 0 && n <= 86_400);
  }
  wait(value: unknown): number | undefined {
    return this.number("max_wait", value, "seconds, from 0 to 86400", (n) => n >= 0 && n <= 86_400);
  }
  retries(value: unknown): number | undefined {
    return this.number(
      "max_retries",
      value,
      "an integer from 0 to 20",
      (n) => Number.isInteger(n) && n >= 0 && n <= 20,
    );
  }
}
