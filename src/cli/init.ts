import { join } from "node:path";
import { ConfigError, hasCode } from "../ports/errors.js";
import { createHome } from "../serve/compose.js";
import { getHomeFolder, loadConfig } from "../serve/config.js";
import { getEnvironmentVariable } from "../serve/environment.js";
import { loadPresets } from "../serve/plugins.js";
import type { FlagsOf } from "./command-description.js";
import type { CommandHandler, CommandOutput } from "./command.js";
import type { init } from "./descriptions/init.js";
import { findNearest } from "./nearest-name.js";
import { refuseArguments } from "./refuse-arguments.js";
import { findCandidates, type ProviderPreset } from "./setup/candidates.js";
import { listModels, type ProviderEntry } from "./setup/provider-check.js";
import type { Questions } from "./setup/questions.js";
import { writeProvider } from "./setup/write-config.js";
import { SIGNAL_EXIT_CODES } from "./signal-exit-codes.js";

type InitFlags = FlagsOf<typeof init.flags>;

/** Input of one setup. `questions` is undefined if nothing can be asked. */
interface Setup {
  readonly flags: InitFlags;
  readonly questions: Questions | undefined;
  readonly presets: readonly ProviderPreset[];
  readonly home: string;
  readonly signal: AbortSignal;
  readonly output: CommandOutput;
}

/** The provider's entry, and the key that it contains or names. */
interface Choice {
  readonly entry: ProviderEntry;
  readonly key?: string;
}

const MAX_ATTEMPTS = 3;
const MAX_SHOWN_MODELS = 8;

/** `gantry init`: connects a language model and writes the config in gantry's home folder, never in the project. */
export const run: CommandHandler<typeof init.flags> = async ({ args, flags, input, output, handleInterrupts }) => {
  refuseArguments(args);
  const home = getHomeFolder();
  createHome(home);
  // An invalid config must be repaired first, because its other keys are kept.
  const { file } = await loadConfig({ home });
  const interruptSignal = handleInterrupts();
  const canAsk = input.isTerminal && flags.yes !== true;
  if (!canAsk && flags.provider === undefined)
    throw new ConfigError("init asks at a terminal; in scripts use --provider NAME, with --key-env NAME for its key");
  const questions = canAsk ? (await import("./setup/questions.js")).openQuestions(interruptSignal) : undefined;
  const signal = questions?.signal ?? interruptSignal;
  try {
    const { PRESETS: presets } = await loadPresets();
    const { entry, models } = await chooseProvider({ flags, questions, presets, home, signal, output });
    const model = flags.model ?? (await askModel(models, questions));
    if (models.length > 0 && model !== "" && !models.includes(model)) throw createUnknownModelError(model, models);
    writeProvider(join(home, "config.json"), entry, model);
    await loadConfig({ home });
    output.report(`wrote ${file} (readable only by you); start with: gantry`);
    return 0;
  } catch (error) {
    if (!signal.aborted) throw error;
    output.report("gantry: nothing was written");
    return SIGNAL_EXIT_CODES[String(signal.reason)] ?? 1;
  } finally {
    questions?.close();
  }
};

/** Chooses a provider and its key, until the provider lists its models. */
async function chooseProvider(setup: Setup): Promise<{ entry: ProviderEntry; models: string[] }> {
  const { flags, questions, home, signal, output } = setup;
  const name = flags.provider ?? (await askProvider(setup));
  const preset = await findKnownPreset(name);
  for (let attempt = 1; ; attempt += 1) {
    const { entry, key } = await chooseKey(name, preset, setup, attempt);
    try {
      const models = await listModels(entry, key, home, signal);
      output.report(`${name} answers: ${models.length} models`);
      return { entry, models };
    } catch (error) {
      signal.throwIfAborted();
      if (!hasCode(error, "provider")) throw error;
      output.report(`gantry: ${error.message}`);
      const isRejected = error.kind === "authentication" || error.kind === "permission";
      if (!isRejected && (flags.yes === true || (await questions?.ask("Write the config anyway? [y/N] ")) === "y"))
        return { entry, models: [] };
      if (!isRejected || !questions || flags.keyEnv !== undefined || attempt === MAX_ATTEMPTS)
        throw new ConfigError(`${name} could not be checked; nothing was written`, { cause: error });
    }
  }
}

async function askProvider({ questions, presets, home, output, signal }: Setup): Promise<string> {
  const candidates = await findCandidates(presets, home, signal);
  for (const [i, { id, reason }] of candidates.entries()) output.report(`  ${i + 1}  ${id.padEnd(12)}  ${reason}`);
  output.report(`Known providers: ${presets.map(({ id }) => id).join(", ")}`);
  const [first] = candidates;
  const answer = (await questions?.ask(first ? `Provider [${first.id}]: ` : "Provider: ")) ?? "";
  return candidates[Number(answer) - 1]?.id ?? (answer || (first?.id ?? ""));
}

async function findKnownPreset(name: string): Promise<ProviderPreset | undefined> {
  const { findPreset } = await loadPresets();
  return findPreset(name);
}

/** Returns the entry with a reference to the key's variable, or with the key that the user types. */
async function chooseKey(
  name: string,
  preset: ProviderPreset | undefined,
  setup: Setup,
  attempt: number,
): Promise<Choice> {
  const { flags, questions, presets } = setup;
  const { baseUrl, keyEnv } = flags;
  if (!preset && baseUrl === undefined) throw createUnknownProviderError(name, presets);
  const entry: ProviderEntry = {
    ...(preset ? { provider: preset.id } : { name }),
    ...(baseUrl !== undefined && { base_url: baseUrl }),
  };
  const variable = keyEnv ?? (attempt === 1 && baseUrl === undefined ? findKeyVariable(preset) : undefined);
  if (variable !== undefined) {
    const key = getEnvironmentVariable(variable) ?? "";
    if (key === "") throw new ConfigError(`--key-env: the environment variable ${variable} is not set`);
    return { entry: { ...entry, api_key: `\${${variable}}` }, key };
  }
  if (preset?.isLocal === true || (!questions && baseUrl !== undefined)) return { entry };
  if (!questions) {
    const example = preset?.keyVariables[0] ?? "NAME";
    throw new ConfigError(`${name} needs a key: set the environment variable ${example}, or use --key-env`);
  }
  const key = await questions.askSecret(`Key of ${preset?.name ?? name} (not shown): `);
  // In the config, `\${` would begin the name of a variable.
  return key === "" ? { entry } : { entry: { ...entry, api_key: key.replaceAll("${", () => "$${") }, key };
}

function findKeyVariable(preset: ProviderPreset | undefined): string | undefined {
  return preset?.keyVariables.find((variable) => (getEnvironmentVariable(variable) ?? "") !== "");
}

async function askModel(models: readonly string[], questions: Questions | undefined): Promise<string> {
  if (!questions || models.length === 0) return "";
  const examples = models.slice(0, MAX_SHOWN_MODELS).join(", ");
  return questions.ask(`Models: ${examples}${models.length > MAX_SHOWN_MODELS ? ", …" : ""}\nModel [any]: `);
}

function createUnknownProviderError(name: string, presets: readonly ProviderPreset[]): ConfigError {
  const ids = presets.map(({ id }) => id);
  const suggestion = findNearest(name, ids);
  const advice = suggestion === undefined ? "" : `; did you mean ${suggestion}?`;
  return new ConfigError(
    `--provider: unknown provider ${name}: expected ${ids.join(", ")}, or a name with --base-url${advice}`,
  );
}

function createUnknownModelError(model: string, models: readonly string[]): ConfigError {
  const suggestion = findNearest(model, models);
  const advice = suggestion === undefined ? "" : `; did you mean ${suggestion}?`;
  return new ConfigError(`--model: the provider does not list ${model}${advice}; nothing was written`);
}
