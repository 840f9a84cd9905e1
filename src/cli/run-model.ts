import type { Agent } from "../agent/agent.js";
import type { ModelEntry } from "../models/models.js";
import { hasCode, ModelSelectionError } from "../ports/errors.js";
import type { RunInput } from "../ports/run.js";
import { nearest } from "./nearest.js";
import { UsageError } from "./usage-error.js";

type Wanted = Pick<RunInput, "provider" | "model">;

/**
 * Resolves the model of `--model` without a fallback: a job that names a model depends on its price.
 *
 * Rejects with `UsageError` for an unknown model, with `ModelSelectionError` if some provider did not list its models,
 * or with the signal's reason.
 */
export async function wantedModel(
  name: string,
  agent: Agent,
  providers: readonly string[],
  signal: AbortSignal,
): Promise<Wanted> {
  const wanted = modelOf(name, providers);
  if (wanted.model === "") throw new UsageError(`--model: expected [PROVIDER/]MODEL, got ${JSON.stringify(name)}`);
  // With a provider, the run asks only that provider.
  if (wanted.provider !== undefined) return wanted;
  const isWanted = ({ model }: ModelEntry): boolean => model.id === wanted.model;
  if ((await agent.models.atHand()).models.some(isWanted)) return wanted;
  const all = await agent.models.list(signal);
  if (all.some(isWanted)) return wanted;
  const silent = providers.filter((provider) => !all.some((entry) => entry.provider === provider));
  if (silent.length > 0)
    throw new ModelSelectionError(`nobody is known to have ${name}, and ${silent.join(", ")} told of no models`);
  throw unknownModel(name, agent);
}

/** Converts the error of a run to a usage error if the provider listed its models: then the model's name was wrong. */
export function asUsage(error: unknown, name: string, agent: Agent, providers: readonly string[]): unknown {
  const { provider } = modelOf(name, providers);
  const isHeard = agent.models.known().some((entry) => entry.provider === provider);
  return isHeard && hasCode(error, "model_selection") ? unknownModel(name, agent) : error;
}

function unknownModel(name: string, agent: Agent): UsageError {
  const names = agent.models.known().flatMap(({ provider, model: { id } }) => [id, `${provider}/${id}`]);
  const near = nearest(name, names);
  return new UsageError(
    `--model ${name}: there is no such model${near === undefined ? "" : `; did you mean ${near}?`} (see gantry models)`,
  );
}

/** Splits `[provider/]model`. Model names can contain slashes. */
function modelOf(name: string, providers: readonly string[]): Wanted {
  const [first = "", ...rest] = name.split("/");
  return rest.length > 0 && providers.includes(first) ? { provider: first, model: rest.join("/") } : { model: name };
}
