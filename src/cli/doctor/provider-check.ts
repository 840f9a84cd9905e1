import { createDeadline } from "../../base/abort.js";
import { silentLogger } from "../../base/log.js";
import { hasCode } from "../../ports/errors.js";
import { buildAdapter } from "../../serve/adapter-container.js";
import { createContainer } from "../../serve/container.js";
import { loadAdapter, loadPresets } from "../../serve/plugins.js";
import { Selection, type SelectedAdapter } from "../../serve/selected-adapters.js";
import { createCheckedFetch } from "../server-check.js";
import {
  createError,
  createOk,
  createWarning,
  toReason,
  type DoctorCheck,
  type DoctorContext,
  type Finding,
} from "./finding.js";

const LIST_TIMEOUT_MS = 8_000;
const SLOW_MS = 3_000;
/** Difference of the clocks above which signatures, tokens and caches can fail. */
const MAX_CLOCK_DIFFERENCE_MS = 60_000;

/** Whether each provider answers with its list of models, which costs nothing. */
export const providerCheck: DoctorCheck = {
  group: "Model providers",
  run: async (context) => {
    // Without updates of prices, a provider writes no file.
    const { loadedConfig } = context;
    const catalogue = { refresh: false } as const;
    const config = {
      ...loadedConfig,
      config: { ...loadedConfig.config, catalogue },
      rawConfig: { ...loadedConfig.rawConfig, catalogue },
    };
    const providers = await new Selection(config, context.home).providers();
    if (providers.every(({ name }) => name === "offline"))
      return [
        createWarning(
          "provider.none",
          "no model provider is configured; the offline guide answers",
          "",
          "gantry init connects a model",
        ),
      ];
    const root = createContainer({ ...context, loadedConfig: config, logger: silentLogger });
    const findings = await Promise.all(providers.map((selected) => checkProvider(selected, context, root)));
    return findings.flat();
  },
};

async function checkProvider(
  selected: SelectedAdapter<"model-provider">,
  { signal, loadedConfig }: DoctorContext,
  root: ReturnType<typeof createContainer>,
): Promise<Finding[]> {
  const { options, key } = selected;
  const label = toText(options["name"]) ?? toText(options["provider"]) ?? selected.name;
  if (selected.name === "language-models" && (await lacksKey(options)))
    return [
      createError(
        "provider.key",
        `${label} has no key`,
        `neither ${key}.api_key nor an environment variable of the provider is set`,
        `set ${key}.api_key, or run gantry init`,
      ),
    ];
  const deadline = createDeadline(LIST_TIMEOUT_MS, signal);
  try {
    const { kind, name } = selected;
    const descriptor = await loadAdapter(kind, name, loadedConfig.folder, `${loadedConfig.file}: ${key}`);
    const provider = await buildAdapter(root, selected, descriptor);
    const startMs = performance.now();
    try {
      const [models, clockFinding] = await Promise.all([
        provider.models(deadline.signal),
        checkClock(toText(options["base_url"]), label, deadline.signal),
      ]);
      return [describeModels(label, models.length, Math.round(performance.now() - startMs)), ...clockFinding];
    } finally {
      await provider.close();
    }
  } catch (error) {
    const reason = loadedConfig.redactMessage(toReason(error));
    return [
      deadline.hasExpired
        ? createUnreachable(label, `no answer within ${LIST_TIMEOUT_MS / 1000} s`)
        : toFailure(label, key, error, reason),
    ];
  } finally {
    deadline.clear();
  }
}

/** Whether the entry names a known provider that needs a key, and no key is set. */
async function lacksKey({ provider, api_key, base_url }: Readonly<Record<string, unknown>>): Promise<boolean> {
  if (typeof provider !== "string" || api_key !== undefined || base_url !== undefined) return false;
  const { findPreset } = await loadPresets();
  return (findPreset(provider)?.keyVariables.length ?? 0) > 0;
}

const toText = (value: unknown): string | undefined => (typeof value === "string" && value !== "" ? value : undefined);

function describeModels(label: string, count: number, durationMs: number): Finding {
  if (count === 0)
    return createError(
      "provider.models",
      `${label} offers no models`,
      `its list is empty (${durationMs} ms)`,
      "load a model in the server, or name one in providers[].models",
    );
  const text = `${label} answers: ${count} models, ${durationMs} ms`;
  return durationMs > SLOW_MS
    ? createWarning("provider.slow", `${label} answers slowly`, text, "check the network and the proxy to the provider")
    : createOk("provider.reached", text);
}

function toFailure(label: string, key: string, error: unknown, reason: string): Finding {
  const status = hasCode(error, "provider") ? error.status : undefined;
  if (status === 401 || status === 403 || /api.?key/i.test(reason))
    return createError(
      "provider.key",
      `${label} rejects the key, or has none`,
      reason,
      `set ${key}.api_key, or the environment variable of the provider; gantry init checks a key`,
    );
  if (hasCode(error, "provider")) return createUnreachable(label, reason);
  return createError("provider.config", `${label} cannot be used`, reason, `correct ${key} in the config`);
}

function createUnreachable(label: string, reason: string): Finding {
  return createError(
    "provider.unreachable",
    `${label} cannot be reached`,
    reason,
    "check base_url, the network and the proxy (HTTPS_PROXY); a local server must be running",
  );
}

/** Compares this machine's clock with the `Date` header of the provider. Sends no key. Never rejects. */
async function checkClock(baseUrl: string | undefined, label: string, signal: AbortSignal): Promise<Finding[]> {
  if (baseUrl === undefined) return [];
  const { fetch, close } = await createCheckedFetch(() => Promise.resolve());
  try {
    const { headers } = await fetch(baseUrl, { method: "HEAD", redirect: "manual", signal });
    const dateMs = Date.parse(headers.get("date") ?? "");
    const differenceMs = Math.abs(Date.now() - dateMs);
    if (Number.isNaN(dateMs) || differenceMs <= MAX_CLOCK_DIFFERENCE_MS) return [];
    return [
      createWarning(
        "machine.clock",
        "the clock of this machine differs from the provider's",
        `${Math.round(differenceMs / 1000)} s from the Date header of ${label}`,
        "set the clock, for example with NTP: timedatectl set-ntp true",
      ),
    ];
  } catch {
    return [];
  } finally {
    await close();
  }
}
