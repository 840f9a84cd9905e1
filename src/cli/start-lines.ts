import { join, resolve } from "node:path";
import type { Logger } from "../ports/logger.js";
import type { Composition } from "../serve/compose.js";
import type { LoadedConfig } from "../serve/config.js";

/** Logs the folder, models, session store and sandbox of the started server, and the address of the console. */
export async function logStart(
  loadedConfig: LoadedConfig,
  home: string,
  composition: Composition,
  logger: Logger,
): Promise<void> {
  logger.info(`working in ${composition.agent.projectDir} with ${describeModels(loadedConfig, composition)}`);
  if (composition.providerNames.every((name) => name === "offline"))
    logger.info("no language model configured; the offline guide answers (connect one with gantry init)");
  logger.info(`sessions in ${describeStore(loadedConfig, home)}`);
  await composition.logSandbox();
  const address = composition.startedTransports.find(({ transportName }) => transportName === "web-console")?.address;
  if (address === undefined) return;
  // A browser does not have the required headers yet.
  const hint = Object.keys(loadedConfig.config.server.requiredHeaders).length > 0 ? " (gantry console opens it)" : "";
  logger.info(`console on ${address}${hint}`);
}

/** Names the configured model, otherwise the providers. Listing the providers' models would delay the start. */
function describeModels({ config }: LoadedConfig, { providerNames }: Composition): string {
  const { provider, model } = config.model;
  if (model !== "") return `the model ${provider === "" ? "" : `${provider}/`}${model}`;
  return `models of ${provider === "" ? providerNames.join(", ") : provider}`;
}

/** Returns the location of the session store, without database addresses, because they can contain a password. */
function describeStore({ config, folder, rawConfig }: LoadedConfig, home: string): string {
  const { driver } = config.session;
  const defaultName = { sqlite: "sessions.db", json: "sessions" }[driver];
  if (defaultName === undefined) return driver;
  const { path } = (rawConfig["session"] ?? {}) as { path?: string };
  return path ? resolve(folder, path) : join(home, defaultName);
}
