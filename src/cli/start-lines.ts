import { join, resolve } from "node:path";
import type { Logger } from "../ports/logger.js";
import type { Composition } from "../serve/compose.js";
import type { LoadedConfig } from "../serve/config.js";

/** Say, for people, what the server that was started works with, and at last where they can go on. */
export async function tellStart(
  loaded: LoadedConfig,
  home: string,
  composition: Composition,
  logger: Logger,
): Promise<void> {
  logger.info(`working in ${composition.agent.projectDir} with ${modelsOf(loaded, composition)}`);
  logger.info(`sessions in ${storeOf(loaded, home)}`);
  await composition.tell();
  const address = composition.listening.find(({ transport }) => transport === "web-console")?.address;
  if (address === undefined) return;
  // A browser has none of these headers before it is given them.
  const how = Object.keys(loaded.config.server.requiredHeaders).length > 0 ? " (gantry console opens it)" : "";
  logger.info(`console on ${address}${how}`);
}

/** The model that config names, else whose models there are: asking for their lists would take its time. */
function modelsOf({ config }: LoadedConfig, { providers }: Composition): string {
  const { provider, model } = config.model;
  if (model !== "") return `the model ${provider === "" ? "" : `${provider}/`}${model}`;
  return `models of ${provider === "" ? providers.join(", ") : provider}`;
}

/** Where sessions are. Of an address nothing is told: there may be a password in it. */
function storeOf({ config, folder, given }: LoadedConfig, home: string): string {
  const { driver } = config.session;
  const standard = { sqlite: "sessions.db", json: "sessions" }[driver];
  if (standard === undefined) return driver;
  const { path } = (given["session"] ?? {}) as { path?: string };
  return path ? resolve(folder, path) : join(home, standard);
}
