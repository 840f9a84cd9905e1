import { join, resolve } from "node:path";
import type { Logger } from "../ports/logger.js";
import type { Composition } from "../serve/compose.js";
import type { LoadedConfig } from "../serve/config.js";

/** Logs what the started server works with, and the address of the console last. */
export async function logStart(
  loaded: LoadedConfig,
  home: string,
  composition: Composition,
  logger: Logger,
): Promise<void> {
  logger.info(`working in ${composition.agent.projectDir} with ${describeModels(loaded, composition)}`);
  logger.info(`sessions in ${describeStore(loaded, home)}`);
  await composition.logSandbox();
  const address = composition.listening.find(({ transport }) => transport === "web-console")?.address;
  if (address === undefined) return;
  // A browser does not have the required headers yet.
  const how = Object.keys(loaded.config.server.requiredHeaders).length > 0 ? " (gantry console opens it)" : "";
  logger.info(`console on ${address}${how}`);
}

/** Names the configured model, otherwise the providers. Listing their models would take time. */
function describeModels({ config }: LoadedConfig, { providers }: Composition): string {
  const { provider, model } = config.model;
  if (model !== "") return `the model ${provider === "" ? "" : `${provider}/`}${model}`;
  return `models of ${provider === "" ? providers.join(", ") : provider}`;
}

/** Location of the session store. Database addresses are not logged, because they can contain a password. */
function describeStore({ config, folder, rawConfig }: LoadedConfig, home: string): string {
  const { driver } = config.session;
  const standard = { sqlite: "sessions.db", json: "sessions" }[driver];
  if (standard === undefined) return driver;
  const { path } = (rawConfig["session"] ?? {}) as { path?: string };
  return path ? resolve(folder, path) : join(home, standard);
}
