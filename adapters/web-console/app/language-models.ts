import type { ApiModel } from "gantry/client";

/** Name of the provider that answers by fixed rules while no model is connected. */
const OFFLINE_PROVIDER = "offline";

/** Whether the server has a language model. `models`: the models of the server. */
export function hasLanguageModel(models: readonly ApiModel[]): boolean {
  return models.some(({ provider }) => provider !== OFFLINE_PROVIDER);
}
