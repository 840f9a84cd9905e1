import type { Agent } from "../agent/agent.js";
import type { ModelEntry } from "../models/models.js";
import { hasCode, ModelSelectionError } from "../ports/errors.js";
import type { RunInput } from "../ports/run.js";
import { nearest } from "./nearest.js";
import { UsageError } from "./usage-error.js";

type RequestedModel = Pick<RunInput, "provider" | "model">;

/**
 * Resolves the model of `--model` without a fallback: a job that names a model depends on its price.
 *
 * Rejects with `UsageError` for an unknown model, with `ModelSelectionError` if some provider did not list its models,
 * or with the signal's reason.
 */
export async function resolveModel(
  name: string,
  agent: Agent,
  providers: readonly string[],
  signal: AbortSignal,
): Promise<RequestedModel> {
  const requestedModel = parseModel(name, providers);
  if (requestedModel.model === "")
    throw new UsageError(`--model: expected [PROVIDER/]MODEL, got ${JSON.stringify(name)}`);
  // With a provider, the run asks only that provider.
  if (requestedModel.provider !== undefined) return requestedModel;
  const isWanted = ({ model }: ModelEntry): boolean => model.id === requestedModel.model;
  if ((await agent.models.listKnown()).models.some(isWanted)) return requestedModel;
  const all = await agent.models.list(signal);
  if (all.some(isWanted)) return requestedModel;
  const silent = providers.filter((provider) => !all.some((entry) => entry.provider === provider));
  if (silent.length > 0)
    throw new ModelSelectionError(`no provider lists ${name}, and ${silent.join(", ")} did not list any models`);
  throw unknownModel(name, agent);
}

/** Converts the error of a run to a usage error if the provider listed its models: then the model's name was wrong. */
export function asUsage(error: unknown, name: string, agent: Agent, providers: readonly string[]): unknown {
  const { provider } = parseModel(name, providers);
  const hasListed = agent.models.entries().some((entry) => entry.provider === provider);
  return hasListed && hasCode(error, "model_selection") ? unknownModel(name, agent) : error;
}

function unknownModel(name: string, agent: Agent): UsageError {
  const names = agent.models.entries().flatMap(({ provider, model: { id } }) => [id, `${provider}/${id}`]);
  const near = nearest(name, names);
  return new UsageError(
    `--model ${name}: unknown model${near === undefined ? "" : `; did you mean ${near}?`} (see gantry models)`,
  );
}

/** Splits `[provider/]model`. Model names can contain slashes. */
function parseModel(name: string, providers: readonly string[]): RequestedModel {
  const [first = "", ...modelParts] = name.split("/");
  return modelParts.length > 0 && providers.includes(first)
    ? { provider: first, model: modelParts.join("/") }
    : { model: name };
}
