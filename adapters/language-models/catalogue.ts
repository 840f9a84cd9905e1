import type { Model } from "gantry/plugin";
import { readEntry } from "./catalogue-entry.js";
import { effortsOf } from "./efforts.js";
import type { FaultContext } from "./errors.js";
import type { Read } from "./network.js";
import type { JsonObject } from "./json.js";
import { removeUndefined } from "./remove-undefined.js";
import { loadEntries } from "./model-list.js";
import type { ConfiguredModel, Settings } from "./options.js";
import type { Preset } from "./presets.js";
import { listModelIds, loadModelLookup } from "./prices.js";

/**
 * Patterns of recommended model ids by preset, best pattern first. Without a configured model the default is the newest
 * match of the best matching pattern.
 */
const PREFERRED_MODELS: Readonly<Record<string, readonly RegExp[]>> = {
  anthropic: [/^claude-sonnet-\d/, /^claude-opus-\d/],
  openai: [/^gpt-\d+(\.\d+)?$/],
  google: [/^gemini-\d+(\.\d+)?-pro(-preview)?$/, /^gemini-\d+(\.\d+)?-flash$/],
  openrouter: [/^anthropic\/claude-sonnet-\d+(\.\d+)?$/],
  groq: [/gpt-oss-120b/, /kimi-k2/],
  mistral: [/^devstral-(medium-)?latest$/, /^mistral-(large|medium)-latest$/],
  deepseek: [/^deepseek-(chat|v\d)/],
  xai: [/^grok-code/, /^grok-\d+(-\d)?$/],
  cerebras: [/coder|glm|gpt-oss-120b/],
  moonshot: [/^kimi-k\d/],
  zhipu: [/^glm-\d+(\.\d+)?$/],
  ollama: [/coder|devstral|gpt-oss|qwen3/],
};

/** OpenAI's models that accept PDFs: https://developers.openai.com/api/docs/guides/file-inputs */
const OPENAI_PDF_PATTERN = /^(gpt-(4o|4\.1|4\.5|[5-9])|o[134])(?!.*(audio|realtime|search))/;

/** Whether OpenAI or Azure serves this model and accepts PDFs for it. Other hosts of the wire may reject them. */
export function acceptsOpenAiPdf(id: string, { id: presetId }: Pick<Preset, "id">): boolean {
  return (presetId === "openai" || presetId === "azure") && OPENAI_PDF_PATTERN.test(id);
}

/** Creates a pattern for ids with a family at the start or after `/`, `.` or `:`, like `openai/gpt-5`. */
const createFamilyPattern = (pattern: string): RegExp => new RegExp(`(^|[/.:])(${pattern})`, "i");

const REASONING_FAMILY_PATTERN = createFamilyPattern(
  [
    "o[134](-|$)",
    "gpt-[5-9](?!.*chat)",
    "gpt-oss",
    "codex",
    "claude-(3-7|3\\.7|(opus|sonnet|haiku|fable|mythos)-[4-9]|[4-9])",
    "gemini-(2\\.5|[3-9])",
    "deepseek-(r\\d|reasoner|v3\\.[1-9]|v[4-9])",
    "grok-(3-mini|[4-9])",
    // K2 does not reason, its successors do.
    "kimi-k(2([.p][5-9]|.*thinking)|[3-9])",
    "glm-(4[.p][5-9]|[5-9])",
    "magistral",
    "qwen3(?!-(coder|vl))",
    "minimax-m\\d",
  ].join("|"),
);
const VISION_FAMILY_PATTERN = createFamilyPattern(
  "o[134](-|$)(?!.*mini)|gpt-(4o|4\\.1|4-turbo|[5-9])(?!.*(audio|realtime|search))|claude-|gemini-|pixtral|llama-4|gemma-?3|llava|qwen[\\d.]*-vl|grok-[4-9]",
);

/** Lists the provider's models and completes them from configuration and price list. Preferred models come first. */
export async function listModels(
  settings: Settings,
  read: Read,
  context: FaultContext,
  signal: AbortSignal,
): Promise<Model[]> {
  const entries = await loadEntries(settings, read, context, signal);
  const findListedModel = await loadModelLookup(settings);
  const modelsById = new Map<string, Model>();
  for (const entry of entries) {
    const model = readEntry(entry, settings);
    if (model === undefined || modelsById.has(model.id)) continue;
    const listedModel = findListedModel(model.id);
    if (listedModel?.name !== undefined && model.name === model.id) model.name = listedModel.name;
    modelsById.set(
      model.id,
      addEfforts(
        {
          ...familyDefaultsOf(model.id, settings),
          ...removeUndefined({ contextWindow: listedModel?.contextWindow }),
          ...model,
        },
        settings,
      ),
    );
  }
  const configuredModels = settings.models.map((model) =>
    completeModel({ ...modelsById.get(model.id), ...model }, settings),
  );
  for (const { id } of configuredModels) modelsById.delete(id);
  return [...configuredModels, ...orderModels([...modelsById.values()], entries, settings)];
}

/**
 * The preferred models and the reasoning models of the public price list, preferred models first. Empty if the base URL
 * is not the preset's own.
 */
export async function listAssumedModels(settings: Settings): Promise<Model[]> {
  const { preset, baseUrl } = settings;
  if (preset === undefined || baseUrl !== preset.baseUrl) return [];
  const entries: JsonObject[] = (await listModelIds(settings)).map((id) => ({ id }));
  const findListedModel = await loadModelLookup(settings);
  const preferredPatterns = PREFERRED_MODELS[preset.id] ?? [];
  const models = entries.flatMap((entry) => {
    const entryModel = readEntry(entry, settings);
    const model = entryModel && addEfforts({ ...familyDefaultsOf(entryModel.id, settings), ...entryModel }, settings);
    // The price list also contains discontinued models and models of other vendors.
    if (
      model === undefined ||
      !(model.reasoning === true || preferredPatterns.some((pattern) => pattern.test(model.id)))
    )
      return [];
    const { name = model.name, contextWindow } = findListedModel(model.id) ?? {};
    return [{ ...model, name, ...removeUndefined({ contextWindow }) }];
  });
  return orderModels(models, entries, settings);
}

/** Adds name, owner and the defaults of the model's family. */
export function completeModel(model: ConfiguredModel, settings: Settings): Model {
  const { id, name = id, ownedBy = settings.name } = model;
  return addEfforts({ ...familyDefaultsOf(id, settings), ...model, name, ownedBy }, settings);
}

/** Adds the known effort levels to a reasoning model without effort levels. */
function addEfforts(model: Model, settings: Settings): Model {
  if (model.reasoning !== true || model.efforts !== undefined) return model;
  return { ...model, ...removeUndefined({ efforts: effortsOf(model, settings) }) };
}

/**
 * Sorts preferred models by preference, then by version. Sorts other models by creation time. Newer models come first.
 * The first model is the default of a new user.
 */
function orderModels(models: Model[], entries: readonly JsonObject[], { preset }: Settings): Model[] {
  const preferredPatterns = PREFERRED_MODELS[preset?.id ?? ""] ?? [];
  // Seconds or ms: all entries of one list have the same unit.
  const creationTimesById = new Map(
    entries.map((entry) => [entry.id, Number(entry.created ?? Date.parse(String(entry.created_at))) || 0]),
  );
  const getRank = ({ id }: Model): number => {
    const index = preferredPatterns.findIndex((pattern) => pattern.test(id));
    return index < 0 ? preferredPatterns.length : index;
  };
  return models
    .map((model, index) => ({ model, index, rank: getRank(model) }))
    .sort(
      (a, b) =>
        a.rank - b.rank ||
        (a.rank < preferredPatterns.length ? compareVersions(a.model.id, b.model.id) : 0) ||
        (creationTimesById.get(b.model.id) ?? 0) - (creationTimesById.get(a.model.id) ?? 0) ||
        a.index - b.index,
    )
    .map(({ model }) => model);
}

/** Compares ids for sorting: higher version numbers come first. A date at the end is no version number. */
function compareVersions(a: string, b: string): number {
  const readNumbers = (id: string): number[] => (id.replace(/-\d{8}$/, "").match(/\d+/g) ?? []).map(Number);
  const [aNumbers, bNumbers] = [readNumbers(a), readNumbers(b)];
  for (let i = 0; i < Math.max(aNumbers.length, bNumbers.length); i++) {
    const difference = (bNumbers[i] ?? -1) - (aNumbers[i] ?? -1);
    if (difference !== 0) return difference;
  }
  return 0;
}

/** Defaults of a model's family, for fields that neither the list nor the configuration has. */
function familyDefaultsOf(id: string, settings: Settings): Pick<Model, "reasoning" | "input"> {
  const { preset } = settings;
  const acceptsPdf = /claude-|gemini-/i.test(id) || (preset !== undefined && acceptsOpenAiPdf(id, preset));
  const input: Model["input"] = acceptsPdf ? ["text", "image", "pdf"] : ["text", "image"];
  return removeUndefined({
    reasoning: REASONING_FAMILY_PATTERN.test(id) || undefined,
    input: VISION_FAMILY_PATTERN.test(id) ? input : undefined,
  });
}
