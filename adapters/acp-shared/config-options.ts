import type { Agent, Logger, ReasoningEffort, Session } from "gantry";
import { nearestEffort, type Model } from "gantry/plugin";
import { invalidParams } from "./errors.js";
import { MODE_OPTION, modeOf, modeOption } from "./modes.js";
import type { SelectOption } from "./wire.js";

const MODEL = "model";
const EFFORT = "thought_level";
/** Maximum time for a new session to wait for models, in ms. After that it answers without them. */
const MODEL_LIST_TIMEOUT_MS = 1_000;

/** Some clients do not accept an empty value. */
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
  complete: boolean;
}

export interface OptionParts {
  agent: Agent;
  logger: Logger;
  /** Whether to offer modes to the client. */
  modes: boolean;
}

/**
 * The settings of a session's next run with all choices. Uses the known models; if there are none, waits up to a
 * second. `patient`: waits until every provider has answered.
 */
export async function configOptions(
  parts: OptionParts,
  session: Session,
  signal: AbortSignal,
  patient = false,
): Promise<ConfigOptions> {
  const { options, complete } = await modelOptions(parts, session, signal, patient);
  return { options: parts.modes ? [...options, modeOption(session.mode)] : options, complete };
}

async function modelOptions(
  { agent, logger }: OptionParts,
  session: Session,
  signal: AbortSignal,
  patient: boolean,
): Promise<ConfigOptions> {
  let { models, complete } = await agent.models.listKnown();
  if (patient || models.length === 0) {
    const limit = patient ? signal : AbortSignal.any([signal, AbortSignal.timeout(MODEL_LIST_TIMEOUT_MS)]);
    try {
      models = await agent.models.list(limit);
      complete = true;
    } catch {
      models = agent.models.entries();
      complete = false;
    }
  }
  if (models.length === 0) return { options: [], complete };
  const chosen = await resolveModel(
    agent,
    session,
    AbortSignal.any([signal, AbortSignal.timeout(MODEL_LIST_TIMEOUT_MS)]),
    logger,
  );
  if (!chosen) return { options: [], complete };
  const entries = models.map(({ provider, model }) => ({
    value: `${provider}/${model.id}`,
    name: model.name,
    description: provider,
  }));
  const currentValue = `${chosen.provider.name}/${chosen.model.id}`;
  if (!entries.some(({ value }) => value === currentValue)) {
    entries.unshift({ value: currentValue, name: chosen.model.name, description: chosen.provider.name });
  }
  const options: SelectOption[] = [
    { id: MODEL, name: "Model", category: "model", type: "select", currentValue, options: entries },
  ];
  const efforts = effortsOf(chosen.model);
  if (efforts.length > 0) {
    // An unsupported effort is shown as the nearest supported one.
    const currentEffort = nearestEffort(session.reasoningEffort, efforts);
    const current = EFFORTS.find(({ effort }) => effort === currentEffort);
    options.push({
      id: EFFORT,
      name: "Reasoning effort",
      category: "thought_level",
      type: "select",
      currentValue: current?.value ?? DEFAULT_EFFORT,
      options: EFFORTS.filter(({ effort }) => effort === "" || efforts.includes(effort)).map(({ value, name }) => ({
        value,
        name,
      })),
    });
  }
  return { options, complete };
}

/** Sets one option of a session. Throws `RpcError` for a value that is not offered. */
export async function setConfigOption(
  parts: OptionParts,
  session: Session,
  configId: string,
  value: string,
  signal: AbortSignal,
): Promise<Session> {
  const { agent } = parts;
  const isRequested = ({ id }: SelectOption) => id === configId;
  const { options, complete } = await configOptions(parts, session, signal);
  let option = options.find(isRequested);
  const isOffered = () => option?.options.some((optionValue) => optionValue.value === value) === true;
  // The value may belong to a provider that has not answered yet.
  if (!isOffered() && !complete) option = (await configOptions(parts, session, signal, true)).options.find(isRequested);
  // Accept only offered values: an effort set for a model without reasoning would be stored and used by the next model.
  if (!option) throw invalidParams("configId", "the id of one of the session's options");
  if (!isOffered()) throw invalidParams("value", "one of the option's values");
  if (configId === MODE_OPTION) return agent.sessions.update(session.id, { mode: modeOf(value) ?? session.mode });
  if (configId === EFFORT) {
    const effort = EFFORTS.find((effortEntry) => effortEntry.value === value)?.effort ?? "";
    return agent.sessions.update(session.id, { reasoningEffort: effort });
  }
  // Names of providers and models may contain a slash: search for the pair instead of splitting the value.
  const pairs = agent.models.entries().map(({ provider, model }) => ({ provider, model: model.id }));
  const pair = pairs.find(({ provider, model }) => `${provider}/${model}` === value);
  // An offered but unknown value is the current choice.
  return pair ? agent.sessions.update(session.id, pair) : session;
}

/**
 * Efforts of a model, lowest first. A reasoning model without a list gets the efforts that nearly all models accept.
 */
function effortsOf({ reasoning, efforts }: Model): readonly ReasoningEffort[] {
  if (reasoning !== true) return [];
  return efforts ?? ["minimal", "low", "medium", "high"];
}

/** The model of the session's next run; undefined if there is none. */
async function resolveModel(agent: Agent, session: Session, signal: AbortSignal, logger: Logger) {
  const recent = async () => {
    const { sessions } = await agent.sessions.list({ projectDir: session.projectDir, limit: 10 });
    return sessions.find(({ provider, model }) => provider !== "" && model !== "");
  };
  try {
    const stored = { provider: session.provider, model: session.model };
    return await agent.models.resolve({ provider: "", model: "" }, stored, recent, signal);
  } catch (error) {
    logger.debug("no model to show", { error });
    return undefined;
  }
}
