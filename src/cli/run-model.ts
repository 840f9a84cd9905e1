import type { Agent } from "../agent/agent.js";
import type { ModelEntry } from "../models/models.js";
import { hasCode, ModelSelectionError } from "../ports/errors.js";
import type { RunInput } from "../ports/run.js";
import { findNearest } from "./nearest-name.js";
import { UsageError } from "./usage-error.js";

type RequestedModel = Pick<RunInput, "provider" | "model">;

/**
 * Resolves the model of `--model` without a fallback, because a job that names a model depends on the model's price.
 *
 * Rejects with `UsageError` for an unknown model, with `ModelSelectionError` if some provider did not list its models,
 * or with the signal's reason.
 */
export async function resolveModel(
  name: string,
  agent: Agent,
  providerNames: readonly string[],
  signal: AbortSignal,
): Promise<RequestedModel> {
  const requestedModel = parseModel(name, providerNames);
  if (requestedModel.model === "")
    throw new UsageError(`--model: expected [PROVIDER/]MODEL, got ${JSON.stringify(name)}`);
  // With a provider, the run asks only that provider.
  if (requestedModel.provider !== undefined) return requestedModel;
  const isRequested = ({ model }: ModelEntry): boolean => model.id === requestedModel.model;
  if ((await agent.models.listKnown()).models.some(isRequested)) return requestedModel;
  const listedModels = await agent.models.list(signal);
  if (listedModels.some(isRequested)) return requestedModel;
  const silentProviderNames = providerNames.filter(
    (provider) => !listedModels.some((entry) => entry.provider === provider),
  );
  if (silentProviderNames.length > 0)
    throw new ModelSelectionError(
      `no provider lists ${name}, and ${silentProviderNames.join(", ")} did not list any models`,
    );
  throw createUnknownModelError(name, agent);
}

/** Converts `ModelSelectionError` to a usage error if the provider has listed its models: the model's name is wrong. */
export function toModelUsageError(
  error: unknown,
  name: string,
  agent: Agent,
  providerNames: readonly string[],
): unknown {
  const { provider } = parseModel(name, providerNames);
  const hasModelList = agent.models.entries().some((entry) => entry.provider === provider);
  return hasModelList && hasCode(error, "model_selection") ? createUnknownModelError(name, agent) : error;
}

function createUnknownModelError(name: string, agent: Agent): UsageError {
  const names = agent.models.entries().flatMap(({ provider, model: { id } }) => [id, `${provider}/${id}`]);
  const suggestion = findNearest(name, names);
  return new UsageError(
    `--model ${name}: unknown model${suggestion === undefined ? "" : `; did you mean ${suggestion}?`} (see gantry models)`,
  );
}

/** Splits `[provider/]model`. Model names can contain slashes. */
function parseModel(name: string, providerNames: readonly string[]): RequestedModel {
  const [firstPart = "", ...modelParts] = name.split("/");
  return modelParts.length > 0 && providerNames.includes(firstPart)
    ? { provider: firstPart, model: modelParts.join("/") }
    : { model: name };
}
