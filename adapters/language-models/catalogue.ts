import type { Model } from "gantry/plugin";
import { readEntry } from "./catalogue-entry.js";
import { effortsOf } from "./efforts.js";
import type { FaultContext } from "./errors.js";
import { familyDefaults } from "./families.js";
import { PREFERRED_MODELS } from "./preferred-models.js";
import type { Read } from "./network.js";
import { withoutUndefined, type JsonObject } from "./json.js";
import { entriesOf } from "./listing.js";
import type { ConfiguredModel, Settings } from "./options.js";
import { listedModels, listedWindows } from "./prices.js";

/** Lists the provider's models and completes them from configuration and price list. Preferred models come first. */
export async function listModels(
  settings: Settings,
  read: Read,
  context: FaultContext,
  signal: AbortSignal,
): Promise<Model[]> {
  const entries = await entriesOf(settings, read, context, signal);
  const windows = await listedWindows(settings);
  const listed = new Map<string, Model>();
  for (const entry of entries) {
    const model = readEntry(entry, settings);
    if (model === undefined || listed.has(model.id)) continue;
    const listedWindow = windows(model.id);
    if (listedWindow?.name !== undefined && model.name === model.id) model.name = listedWindow.name;
    listed.set(
      model.id,
      withEfforts(
        { ...familyDefaults(model.id), ...withoutUndefined({ contextWindow: listedWindow?.contextWindow }), ...model },
        settings,
      ),
    );
  }
  const configured = settings.models.map((model) => complete({ ...listed.get(model.id), ...model }, settings));
  for (const { id } of configured) listed.delete(id);
  return [...configured, ...orderModels([...listed.values()], entries, settings)];
}

/**
 * The models of the public price list that suit an agent, preferred ones first. Empty if the base URL is not the
 * preset's own.
 */
export async function assumedModels(settings: Settings): Promise<Model[]> {
  const { preset, baseUrl } = settings;
  if (preset === undefined || baseUrl !== preset.baseUrl) return [];
  const entries: JsonObject[] = (await listedModels(settings)).map((id) => ({ id }));
  const windows = await listedWindows(settings);
  const preferred = PREFERRED_MODELS[preset.id] ?? [];
  const models = entries.flatMap((entry) => {
    const read = readEntry(entry, settings);
    const model = read && withEfforts({ ...familyDefaults(read.id), ...read }, settings);
    // The price list also contains discontinued models and models of other vendors.
    if (model === undefined || !(model.reasoning === true || preferred.some((pattern) => pattern.test(model.id))))
      return [];
    const { name = model.name, contextWindow } = windows(model.id) ?? {};
    return [{ ...model, name, ...withoutUndefined({ contextWindow }) }];
  });
  return orderModels(models, entries, settings);
}

/** Adds name, owner and the defaults of the model's family. */
export function complete(model: ConfiguredModel, settings: Settings): Model {
  const { id, name = id, ownedBy = settings.name } = model;
  return withEfforts({ ...familyDefaults(id), ...model, name, ownedBy }, settings);
}

/** Adds the effort levels of a reasoning model, if they are known. */
function withEfforts(model: Model, settings: Settings): Model {
  if (model.reasoning !== true || model.efforts !== undefined) return model;
  return { ...model, ...withoutUndefined({ efforts: effortsOf(model, settings) }) };
}

/** Orders preferred models first, and newer versions first among them. The first model is the default of a new user. */
function orderModels(models: Model[], entries: readonly JsonObject[], { preset }: Settings): Model[] {
  const preferred = PREFERRED_MODELS[preset?.id ?? ""] ?? [];
  const created = new Map(
    entries.map((entry) => [entry.id, Number(entry.created ?? Date.parse(String(entry.created_at))) || 0]),
  );
  const rank = ({ id }: Model): number => {
    const index = preferred.findIndex((pattern) => pattern.test(id));
    return index < 0 ? preferred.length : index;
  };
  return models
    .map((model, index) => ({ model, index, rank: rank(model) }))
    .sort(
      (a, b) =>
        a.rank - b.rank ||
        (a.rank < preferred.length ? byVersion(a.model.id, b.model.id) : 0) ||
        (created.get(b.model.id) ?? 0) - (created.get(a.model.id) ?? 0) ||
        a.index - b.index,
    )
    .map(({ model }) => model);
}

/** Compares ids; higher version numbers come first. */
function byVersion(a: string, b: string): number {
  const numbers = (id: string): number[] => (id.replace(/-\d{8}$/, "").match(/\d+/g) ?? []).map(Number);
  const [aNumbers, right] = [numbers(a), numbers(b)];
  for (let i = 0; i < Math.max(aNumbers.length, right.length); i++) {
    const difference = (right[i] ?? -1) - (aNumbers[i] ?? -1);
    if (difference !== 0) return difference;
  }
  return 0;
}
