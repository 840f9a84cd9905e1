import type { Model } from "gantry/plugin";
import { readEntry } from "./catalogue-entry.js";
import { effortsOf } from "./efforts.js";
import type { FaultContext } from "./errors.js";
import { familyDefaults } from "./families.js";
import { PREFERRED_MODELS } from "./preferred-models.js";
import type { Read } from "./network.js";
import { present, type Bag } from "./json.js";
import { entriesOf } from "./listing.js";
import type { ConfiguredModel, Settings } from "./options.js";
import { listedModels, listedWindows } from "./prices.js";

/** The provider's models by plain fetch, completed from configuration and the price list, those worth a first try first. */
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
    const known = windows(model.id);
    if (known?.name !== undefined && model.name === model.id) model.name = known.name;
    listed.set(
      model.id,
      withEfforts(
        { ...familyDefaults(model.id), ...present({ contextWindow: known?.contextWindow }), ...model },
        settings,
      ),
    );
  }
  const configured = settings.models.map((model) => complete({ ...listed.get(model.id), ...model }, settings));
  for (const { id } of configured) listed.delete(id);
  return [...configured, ...ordered([...listed.values()], entries, settings)];
}

/** What the public price list has of a provider at its own address, of what an agent is good with; those worth a first try first. */
export async function assumedModels(settings: Settings): Promise<Model[]> {
  const { preset, baseUrl } = settings;
  if (preset === undefined || baseUrl !== preset.baseUrl) return [];
  const entries: Bag[] = (await listedModels(settings)).map((id) => ({ id }));
  const windows = await listedWindows(settings);
  const favourites = PREFERRED_MODELS[preset.id] ?? [];
  const models = entries.flatMap((entry) => {
    const read = readEntry(entry, settings);
    const model = read && withEfforts({ ...familyDefaults(read.id), ...read }, settings);
    // The list has what was ever sold, and what others sell at the same place.
    if (model === undefined || !(model.reasoning === true || favourites.some((one) => one.test(model.id)))) return [];
    const { name = model.name, contextWindow } = windows(model.id) ?? {};
    return [{ ...model, name, ...present({ contextWindow }) }];
  });
  return ordered(models, entries, settings);
}

/** A model with a name and an owner, and with what its family is known for. */
export function complete(model: ConfiguredModel, settings: Settings): Model {
  const { id, name = id, ownedBy = settings.name } = model;
  return withEfforts({ ...familyDefaults(id), ...model, name, ownedBy }, settings);
}

/** One that reasons, with what can be asked of it, where that is known. */
function withEfforts(model: Model, settings: Settings): Model {
  if (model.reasoning !== true || model.efforts !== undefined) return model;
  return { ...model, ...present({ efforts: effortsOf(model, settings) }) };
}

/** Good ones first, newest first among them, since the first is what a newcomer gets who names none. */
function ordered(models: Model[], entries: readonly Bag[], { preset }: Settings): Model[] {
  const favourites = PREFERRED_MODELS[preset?.id ?? ""] ?? [];
  const created = new Map(
    entries.map((entry) => [entry.id, Number(entry.created ?? Date.parse(String(entry.created_at))) || 0]),
  );
  const rank = ({ id }: Model): number => {
    const index = favourites.findIndex((pattern) => pattern.test(id));
    return index < 0 ? favourites.length : index;
  };
  return models
    .map((model, index) => ({ model, index, rank: rank(model) }))
    .sort(
      (a, b) =>
        a.rank - b.rank ||
        (a.rank < favourites.length ? byVersion(a.model.id, b.model.id) : 0) ||
        (created.get(b.model.id) ?? 0) - (created.get(a.model.id) ?? 0) ||
        a.index - b.index,
    )
    .map(({ model }) => model);
}

/** Higher version numbers first. */
function byVersion(a: string, b: string): number {
  const numbers = (id: string): number[] => (id.replace(/-\d{8}$/, "").match(/\d+/g) ?? []).map(Number);
  const [left, right] = [numbers(a), numbers(b)];
  for (let i = 0; i < Math.max(left.length, right.length); i++) {
    const difference = (right[i] ?? -1) - (left[i] ?? -1);
    if (difference !== 0) return difference;
  }
  return 0;
}
