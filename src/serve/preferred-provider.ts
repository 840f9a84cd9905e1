import { ConfigError } from "../ports/errors.js";
import type { LoadedConfig } from "./config.js";
import { loadPresets } from "./plugins.js";

/**
 * Throws `ConfigError` if no provider can have the name in `model.provider`. A preset without a key is no error, because
 * its key may be set later.
 */
export async function checkPreferredProvider(
  { file, config }: LoadedConfig,
  providerNames: readonly string[],
): Promise<void> {
  const { provider } = config.model;
  const { PRESETS } = await loadPresets();
  const names = config.providers.length > 0 ? providerNames : [...PRESETS.map(({ id }) => id), ...providerNames];
  if (names.includes(provider)) return;
  throw new ConfigError(
    `${file}: model.provider: expected one of ${names.join(", ")}, got ${JSON.stringify(provider)}`,
  );
}
