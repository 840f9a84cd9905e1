import { loadAdapter } from "../../serve/plugins.js";
import { createTestedAdapter } from "../../serve/trial.js";

/** An entry of `providers` in the config. */
export interface ProviderEntry {
  readonly provider?: string;
  readonly name?: string;
  readonly base_url?: string;
  readonly api_key?: string;
}

/**
 * Requests the provider's list of models, which checks address and key and costs nothing. `key` is the value of
 * `entry.api_key`. Rejects with `ProviderError`, `ConfigError`, or the signal's reason.
 */
export async function listModels(
  entry: ProviderEntry,
  key: string | undefined,
  home: string,
  signal: AbortSignal,
): Promise<string[]> {
  const descriptor = await loadAdapter("model-provider", "language-models", "", "");
  const options = { ...entry, ...(key !== undefined && { api_key: key }) };
  const tested = { descriptor, module: "init", exportName: "providers", options };
  const { adapter, close } = await createTestedAdapter(tested, home);
  try {
    return (await adapter.models(signal)).map(({ id }) => id);
  } finally {
    await adapter.close();
    await close();
  }
}
