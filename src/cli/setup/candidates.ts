import { createDeadline } from "../../base/abort.js";
import { getEnvironmentVariable } from "../../serve/environment.js";
import type { loadPresets } from "../../serve/plugins.js";
import { listModels } from "./provider-check.js";

export type ProviderPreset = Awaited<ReturnType<typeof loadPresets>>["PRESETS"][number];

/** A provider that can be used at once. */
export interface Candidate {
  readonly id: string;
  /** Why it can be used, for the user. */
  readonly reason: string;
}

/** Time for a local server to list its models, in ms. */
const PROBE_TIMEOUT_MS = 1_000;

/** Returns the local servers that run, then the providers whose key is in the environment. */
export async function findCandidates(
  presets: readonly ProviderPreset[],
  home: string,
  signal: AbortSignal,
): Promise<Candidate[]> {
  const candidates = await Promise.all(
    presets.map(async ({ id, name, isLocal, keyVariables }): Promise<Candidate | undefined> => {
      if (isLocal) {
        const count = await countLocalModels(id, home, signal);
        return count === 0 ? undefined : { id, reason: `${name} on this machine, ${count} models` };
      }
      const variable = keyVariables.find((name) => (getEnvironmentVariable(name) ?? "") !== "");
      return variable === undefined ? undefined : { id, reason: `${name}, key in ${variable}` };
    }),
  );
  const isLocal = ({ id }: Candidate) => presets.some((preset) => preset.id === id && preset.isLocal);
  const available = candidates.filter((candidate) => candidate !== undefined);
  return [...available.filter(isLocal), ...available.filter((candidate) => !isLocal(candidate))];
}

/** Returns the number of models that a local server lists; 0 if no such server runs. */
async function countLocalModels(provider: string, home: string, signal: AbortSignal): Promise<number> {
  const deadline = createDeadline(PROBE_TIMEOUT_MS, signal);
  try {
    return (await listModels({ provider }, undefined, home, deadline.signal)).length;
  } catch {
    return 0;
  } finally {
    deadline.clear();
  }
}
