import type { Model } from "gantry/plugin";
import { readEntry } from "./catalogue-entry.js";
import { effortsOf } from "./efforts.js";
import type { FaultContext } from "./errors.js";
import { familyDefaultsOf } from "./families.js";
import { PREFERRED_MODELS } from "./preferred-models.js";
import type { Read } from "./network.js";
import { removeUndefined, type JsonObject } from "./json.js";
import { loadEntries } from "./listing.js";
import type { ConfiguredModel, Settings } from "./options.js";
import { listModelIds, loadWindowLookup } from "./prices.js";

/** Lists the provider's models and completes them from configuration and price list. Preferred models come first. */
export async function listModels(
  settings: Settings,
  read: Read,
  context: FaultContext,
  signal: AbortSignal,
): Promise<Model[]> {
  const entries = await loadEntries(settings, read, context, signal);
  const findWindow = await loadWindowLookup(settings);
  const listedById = new Map<string, Model>();
  for (const entry of entries) {
    const model = readEntry(entry, settings);
    if (model === undefined || listedById.has(model.id)) continue;
    const listedWindow = findWindow(model.id);
    if (listedWindow?.name !== undefined && model.name === model.id) model.name = listedWindow.name;
    listedById.set(
      model.id,
      addEfforts(
        { ...familyDefaultsOf(model.id), ...removeUndefined({ contextWindow: listedWindow?.contextWindow }), ...model },
        settings,
      ),
    );
  }
  const configuredModels = settings.models.map((model) =>
    completeModel({ ...listedById.get(model.id), ...model }, settings),
  );
  for (const { id } of configuredModels) listedById.delete(id);
  return [...configuredModels, ...orderModels([...listedById.values()], entries, settings)];
}

/**
 * The models of the public price list that suit an agent, preferred ones first. Empty if the base URL is not the
 * preset's own.
 */
export async function assumedModels(settings: Settings): Promise<Model[]> {
  const { preset, baseUrl } = settings;
  if (preset === undefined || baseUrl !== preset.baseUrl) return [];
  const entries: JsonObject[] = (await listModelIds(settings)).map((id) => ({ id }));
  const findWindow = await loadWindowLookup(settings);
  const preferredPatterns = PREFERRED_MODELS[preset.id] ?? [];
  const models = entries.flatMap((entry) => {
    const entryModel = readEntry(entry, settings);
    const model = entryModel && addEfforts({ ...familyDefaultsOf(entryModel.id), ...entryModel }, settings);
    // The price list also contains discontinued models and models of other vendors.
    if (
      model === undefined ||
      !(model.reasoning === true || preferredPatterns.some((pattern) => pattern.test(model.id)))
    )
      return [];
    const { name = model.name, contextWindow } = findWindow(model.id) ?? {};
    return [{ ...model, name, ...removeUndefined({ contextWindow }) }];
  });
  return orderModels(models, entries, settings);
}

/** Adds name, owner and the defaults of the model's family. */
export function completeModel(model: ConfiguredModel, settings: Settings): Model {
  const { id, name = id, ownedBy = settings.name } = model;
  return addEfforts({ ...familyDefaultsOf(id), ...model, name, ownedBy }, settings);
}

/** Adds the effort levels of a reasoning model, if they are known. */
function addEfforts(model: Model, settings: Settings): Model {
  if (model.reasoning !== true || model.efforts !== undefined) return model;
  return { ...model, ...removeUndefined({ efforts: effortsOf(model, settings) }) };
}

/** Orders preferred models first, and newer versions first among them. The first model is the default of a new user. */
function orderModels(models: Model[], entries: readonly JsonObject[], { preset }: Settings): Model[] {
  const preferredPatterns = PREFERRED_MODELS[preset?.id ?? ""] ?? [];
  const createdById = new Map(
    entries.map((entry) => [entry.id, Number(entry.created ?? Date.parse(String(entry.created_at))) || 0]),
  );
  const rank = ({ id }: Model): number => {
    const index = preferredPatterns.findIndex((pattern) => pattern.test(id));
    return index < 0 ? preferredPatterns.length : index;
  };
  return models
    .map((model, index) => ({ model, index, rank: rank(model) }))
    .sort(
      (a, b) =>
        a.rank - b.rank ||
        (a.rank < preferredPatterns.length ? compareVersions(a.model.id, b.model.id) : 0) ||
        (createdById.get(b.model.id) ?? 0) - (createdById.get(a.model.id) ?? 0) ||
        a.index - b.index,
    )
    .map(({ model }) => model);
}

/** Compares ids; higher version numbers come first. */
function compareVersions(a: string, b: string): number {
  const numbers = (id: string): number[] => (id.replace(/-\d{8}$/, "").match(/\d+/g) ?? []).map(Number);
  const [aNumbers, bNumbers] = [numbers(a), numbers(b)];
  for (let i = 0; i < Math.max(aNumbers.length, bNumbers.length); i++) {
    const difference = (bNumbers[i] ?? -1) - (aNumbers[i] ?? -1);
    if (difference !== 0) return difference;
  }
  return 0;
}
