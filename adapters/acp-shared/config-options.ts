import type { Agent, Logger, ReasoningEffort, Session } from "gantry";
import { createDeadline, nearestEffort, type Model } from "gantry/plugin";
import { toParamsError } from "./errors.js";
import { MODE_OPTION, findMode, toModeOption } from "./modes.js";
import type { SelectOption } from "./wire.js";

const MODEL_OPTION = "model";
const EFFORT_OPTION = "thought_level";
/** Maximum time to wait for models, in ms. After this time the answer has only the models known so far. */
const MODEL_LIST_TIMEOUT_MS = 1_000;

/** Option value of the effort `""`: some clients do not accept an empty value. */
const DEFAULT_EFFORT = "default";
const EFFORTS: readonly { value: string; name: string; effort: ReasoningEffort }[] = [
  { value: DEFAULT_EFFORT, name: "Default", effort: "" },
  { value: "minimal", name: "Minimal", effort: "minimal" },
  { value: "low", name: "Low", effort: "low" },
  { value: "medium", name: "Medium", effort: "medium" },
  { value: "high", name: "High", effort: "high" },
  { value: "xhigh", name: "Extra high", effort: "xhigh" },
  { value: "max", name: "Max", effort: "max" },
];

export interface ConfigOptions {
  options: SelectOption[];
  /** Whether every provider has answered; otherwise more models may follow. */
  isComplete: boolean;
}

export interface OptionDependencies {
  agent: Agent;
  logger: Logger;
  /** Whether to offer modes to the client. */
  offersModes: boolean;
}

/**
 * The settings of a session's next run with all choices. Uses the cached models. Without cached models, waits up to
 * `MODEL_LIST_TIMEOUT_MS`. `waitsForAll`: waits until every provider has answered.
 */
export async function loadConfigOptions(
  dependencies: OptionDependencies,
  session: Session,
  signal: AbortSignal,
  waitsForAll = false,
): Promise<ConfigOptions> {
  const { options, isComplete } = await loadModelOptions(dependencies, session, signal, waitsForAll);
  return { options: dependencies.offersModes ? [...options, toModeOption(session.mode)] : options, isComplete };
}

async function loadModelOptions(
  { agent, logger }: OptionDependencies,
  session: Session,
  signal: AbortSignal,
  waitsForAll: boolean,
): Promise<ConfigOptions> {
  let { models, complete: isComplete } = await agent.models.listKnown();
  if (waitsForAll || models.length === 0) {
    const deadline = createDeadline(waitsForAll ? undefined : MODEL_LIST_TIMEOUT_MS, signal);
    try {
      models = await agent.models.list(deadline.signal);
      isComplete = true;
    } catch {
      models = agent.models.entries();
      isComplete = false;
    } finally {
      deadline.clear();
    }
  }
  if (models.length === 0) return { options: [], isComplete };
  const currentModel = await resolveModel(agent, session, signal, logger);
  if (!currentModel) return { options: [], isComplete };
  const entries = models.map(({ provider, model }) => ({
    value: `${provider}/${model.id}`,
    name: model.name,
    description: provider,
  }));
  const currentValue = `${currentModel.provider.name}/${currentModel.model.id}`;
  if (!entries.some(({ value }) => value === currentValue)) {
    entries.unshift({ value: currentValue, name: currentModel.model.name, description: currentModel.provider.name });
  }
  const options: SelectOption[] = [
    { id: MODEL_OPTION, name: "Model", category: "model", type: "select", currentValue, options: entries },
  ];
  const efforts = listEfforts(currentModel.model);
  if (efforts.length > 0) {
    // An unsupported effort is shown as the nearest supported one.
    const currentEffort = nearestEffort(session.reasoningEffort, efforts);
    const currentEntry = EFFORTS.find(({ effort }) => effort === currentEffort);
    options.push({
      id: EFFORT_OPTION,
      name: "Reasoning effort",
      category: "thought_level",
      type: "select",
      currentValue: currentEntry?.value ?? DEFAULT_EFFORT,
      options: EFFORTS.filter(({ effort }) => effort === "" || efforts.includes(effort)).map(({ value, name }) => ({
        value,
        name,
      })),
    });
  }
  return { options, isComplete };
}

/** Sets one option of a session and returns the session. Rejects with `RpcError` for a value that is not offered. */
export async function setConfigOption(
  dependencies: OptionDependencies,
  session: Session,
  configId: string,
  value: string,
  signal: AbortSignal,
): Promise<Session> {
  const { agent } = dependencies;
  const hasRequestedId = ({ id }: SelectOption) => id === configId;
  const { options, isComplete } = await loadConfigOptions(dependencies, session, signal);
  let option = options.find(hasRequestedId);
  const isOffered = () => option?.options.some((optionValue) => optionValue.value === value) === true;
  // The value may belong to a provider that has not answered yet.
  if (!isOffered() && !isComplete)
    option = (await loadConfigOptions(dependencies, session, signal, true)).options.find(hasRequestedId);
  // Accept only offered values: an effort set for a model without reasoning would be stored and used by the next model.
  if (!option) throw toParamsError("configId", "the id of one of the session's options");
  if (!isOffered()) throw toParamsError("value", "one of the option's values");
  if (configId === MODE_OPTION) return agent.sessions.update(session.id, { mode: findMode(value) ?? session.mode });
  if (configId === EFFORT_OPTION) {
    const effort = EFFORTS.find((effortEntry) => effortEntry.value === value)?.effort ?? "";
    return agent.sessions.update(session.id, { reasoningEffort: effort });
  }
  // Names of providers and models may contain a slash: search for the pair instead of splitting the value.
  const pairs = agent.models.entries().map(({ provider, model }) => ({ provider, model: model.id }));
  const pair = pairs.find(({ provider, model }) => `${provider}/${model}` === value);
  // A value that is offered but not listed is the current model: nothing changes.
  return pair ? agent.sessions.update(session.id, pair) : session;
}

/**
 * Efforts of a model, lowest first. A reasoning model without a list gets the efforts that nearly all models accept.
 */
function listEfforts({ reasoning, efforts }: Model): readonly ReasoningEffort[] {
  if (reasoning !== true) return [];
  return efforts ?? ["minimal", "low", "medium", "high"];
}

/** Maximum number of recent sessions that are searched for a model. */
const MAX_SEARCHED_SESSIONS = 10;

/** The model of the session's next run; undefined if no model is available before `signal` aborts. */
async function resolveModel(agent: Agent, session: Session, signal: AbortSignal, logger: Logger) {
  const findRecentSession = async () => {
    const { sessions } = await agent.sessions.list({ projectDir: session.projectDir, limit: MAX_SEARCHED_SESSIONS });
    return sessions.find(({ provider, model }) => provider !== "" && model !== "");
  };
  const deadline = createDeadline(MODEL_LIST_TIMEOUT_MS, signal);
  try {
    const storedModel = { provider: session.provider, model: session.model };
    return await agent.models.resolve({ provider: "", model: "" }, storedModel, findRecentSession, deadline.signal);
  } catch (error) {
    logger.debug("no model to show", { error });
    return undefined;
  } finally {
    deadline.clear();
  }
}
