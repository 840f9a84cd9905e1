import { isRecord } from "../base/json.js";
import type { AdapterDescriptor, AdapterKind, OptionsContext } from "../plugin/adapter.js";
import type { Section } from "../plugin/options.js";
import { ConfigError, hasCode } from "../ports/errors.js";
import { reasonOf } from "./error-reason.js";
import { isBuiltIn } from "./plugins.js";
import type { SelectedAdapter } from "./selected-adapters.js";

/** The config key that names the adapter, beside its options. */
const ADAPTER_KEYS: Partial<Readonly<Record<AdapterKind, string>>> = {
  "session-driver": "driver",
  transport: "transport",
  tool: "tool",
  "permission-policy": "policy",
  hooks: "hook",
};

/** Validates the configured options with the adapter's own check. Throws `ConfigError`. */
export function parseOptions<Options>(
  { kind, name, options, sharedOptions }: SelectedAdapter,
  descriptor: AdapterDescriptor<AdapterKind, Options>,
  context: OptionsContext,
): Options {
  const { schema } = descriptor;
  const raw =
    sharedOptions && schema && "entries" in schema
      ? addSharedOptions(schema as Section, sharedOptions, options)
      : options;
  try {
    return descriptor.parse(raw, context);
  } catch (error) {
    // Any other error of a built-in adapter is a bug and stays unchanged.
    if (isBuiltIn(kind, name) && !hasCode(error, "config")) throw error;
    // Built-in hooks have their own section, which names no adapter.
    const adapterKey = kind === "hooks" && isBuiltIn(kind, name) ? undefined : ADAPTER_KEYS[kind];
    const message = addAdapterKey(reasonOf(error), adapterKey, context.location);
    if (isBuiltIn(kind, name)) throw new ConfigError(message, { cause: error });
    // For third-party modules the message also names the adapter.
    const prefix = message.startsWith(context.location) ? "" : `${context.location}: `;
    throw new ConfigError(`${prefix}${message}${message.includes(name) ? "" : ` (an option of ${name})`}`, {
      cause: error,
    });
  }
}

/** Adds `adapterKey` to the expected keys in the message, because the unknown key may be a misspelt `adapterKey`. */
function addAdapterKey(message: string, adapterKey: string | undefined, location: string): string {
  const [key = "", expectedText] = message.slice(location.length + 1).split(": unknown key; ", 2);
  if (
    adapterKey === undefined ||
    expectedText === undefined ||
    !message.startsWith(`${location}.`) ||
    key.includes(".")
  )
    return message;
  const otherKeys = expectedText.startsWith("expected one of ") ? expectedText.slice("expected one of".length) : "";
  return `${location}.${key}: unknown key; expected one of ${adapterKey}${otherKeys && `,${otherKeys}`}`;
}

type RawOptions = Readonly<Record<string, unknown>>;

/** Returns the adapter's own options, with the missing keys of its schema from the shared options. */
function addSharedOptions({ entries }: Section, sharedOptions: RawOptions, ownOptions: RawOptions): RawOptions {
  const raw: Record<string, unknown> = { ...ownOptions };
  for (const [key, entry] of Object.entries(entries)) {
    const [value = {}, sharedValue = {}] = [raw[key], sharedOptions[key]];
    if ("entries" in entry && isRecord(value) && isRecord(sharedValue))
      raw[key] = addSharedOptions(entry as Section, sharedValue, value);
    else raw[key] ??= sharedOptions[key];
  }
  return raw;
}
