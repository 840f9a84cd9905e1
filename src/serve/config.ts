import { readFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { configOptions, type Config } from "./config-options.js";
import { expandVariables, collectConfigSecrets } from "./config-values.js";
import { getEnvironmentVariable } from "./environment.js";
import { ConfigError } from "../ports/errors.js";
import { processSecrets } from "../base/process-secrets.js";
import { Redactor } from "../base/redact.js";
import * as option from "../plugin/options.js";
import { sharedOptions } from "../plugin/shared-options.js";
import { loadAdapter } from "./plugins.js";

/**
 * Returns gantry's home folder: `GANTRY_HOME`, otherwise `~/.gantry`. Throws `ConfigError` if the user's home folder is
 * unknown.
 */
export function getHomeFolder(): string {
  const configuredHome = getEnvironmentVariable("GANTRY_HOME");
  if (configuredHome !== undefined && configuredHome !== "") return resolve(configuredHome);
  try {
    return join(homedir(), ".gantry");
  } catch (error) {
    // The user id is not in the user database, which is common in containers.
    throw new ConfigError("the home folder is unknown: set HOME or GANTRY_HOME", { cause: error });
  }
}

/** Returns the folder for temporary files. */
export const getTemporaryFolder = tmpdir;

/** The validated config with its source and secrets. */
export interface LoadedConfig {
  config: Config;
  /** Content of the config file with variables expanded and flags applied. Adapters read their own keys from it. */
  rawConfig: Readonly<Record<string, unknown>>;
  /** Path of the config file, which may not exist. Prefix of error messages. */
  file: string;
  /** Base folder of relative paths in the config. */
  folder: string;
  /**
   * Values to redact: secret keys and variables, values that look like keys, and the HTTP listener's token after it was
   * created.
   */
  secrets: Set<string>;
  /** Removes secrets and all other values of environment variables, because a secret can be set for the wrong key. */
  redactMessage(message: string): string;
}

/** Values of flags by config key, such as `server.port`. They override the file. */
export type Overrides = Readonly<Record<string, unknown>>;

/**
 * Reads the config file, applies the flags and validates the result. `path` defaults to `<home>/config.json`, which may
 * be missing.
 *
 * Rejects with `ConfigError`: one line with the file, the key path and the expected value.
 */
export async function loadConfig(options: {
  path?: string;
  home: string;
  overrides?: Overrides;
}): Promise<LoadedConfig> {
  const file = options.path === undefined ? join(options.home, "config.json") : resolve(options.path);
  const secrets = new Set<string>();
  const nonSecretValues = new Set<string>();
  const redactor = new Redactor(() => [...secrets, ...nonSecretValues]);
  const redactMessage = (message: string) => redactor.redact(message);
  const parsedFile = await readConfigFile(file, options.path !== undefined);
  const expandedConfig = expandVariables(parsedFile, {
    file,
    secrets,
    nonSecretValues,
    readVariable: getEnvironmentVariable,
  });
  collectConfigSecrets(expandedConfig, secrets);
  for (const secret of processSecrets()) secrets.add(secret);
  try {
    // Validate the file without the flags too: a flag must not hide an error in the file.
    let config = await validateConfig(file, expandedConfig);
    let rawConfig = expandedConfig as Readonly<Record<string, unknown>>;
    const overrides = Object.entries(options.overrides ?? {}).filter(([, flagValue]) => flagValue !== undefined);
    if (overrides.length > 0) {
      rawConfig = applyOverrides(rawConfig, overrides);
      config = await validateConfig(file, rawConfig);
    }
    return { config, rawConfig, file, folder: dirname(file), secrets, redactMessage };
  } catch (error) {
    if (error instanceof ConfigError) error.message = redactMessage(error.message);
    throw error;
  }
}

async function readConfigFile(file: string, mustExist: boolean): Promise<unknown> {
  let content: string;
  try {
    // A start has nothing else to do, and asynchronous reading takes longer.
    content = readFileSync(file, "utf8");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // ENOTDIR: the home is a file. The check of the home folder reports this error.
    if ((code === "ENOENT" || code === "ENOTDIR") && !mustExist) return {};
    throw new ConfigError(`${file}: cannot be read (${code ?? "unknown"})`, { cause: error });
  }
  content = content.replace(/^\uFEFF/, "");
  if (content.trim() === "") return {};
  try {
    return JSON.parse(content) as unknown;
  } catch {
    // The larger parser is loaded only for files with comments or trailing commas.
    const { parseJsonc } = await import("./parse-jsonc.js");
    return parseJsonc(content, file);
  }
}

/** Returns a validated config with the values of flags. */
function applyOverrides(
  config: Readonly<Record<string, unknown>>,
  overrides: readonly [path: string, flagValue: unknown][],
) {
  const result: Record<string, unknown> = { ...config };
  for (const [path, flagValue] of overrides) {
    const [section = "", key = ""] = path.split(".");
    result[section] = { ...(result[section] as object | undefined), [key]: flagValue };
  }
  return result;
}

/** Built-in transports by the config section of which they define further keys. Loaded only if such a key is set. */
const SECTION_OWNERS = { server: "koa-http-api", acp: "acp-http-sse-ws" } as const;

async function validateConfig(file: string, value: unknown): Promise<Config> {
  const config = option.read(configOptions, value, `${file}: `);
  for (const section of ["server", "acp"] as const) {
    const sectionValue = (value as Partial<Record<typeof section, object>>)[section] ?? {};
    const { entries } = configOptions.entries[section];
    if (Object.keys(sectionValue).every((key) => Object.hasOwn(entries, key))) continue;
    option.read(await loadFullSection(section), sectionValue, `${file}: ${section}`);
  }
  return config;
}

/** Returns a section including the options of its transport. */
export async function loadFullSection(name: keyof typeof SECTION_OWNERS): Promise<option.Section> {
  const { entries } = configOptions.entries[name];
  const { schema } = await loadAdapter("transport", SECTION_OWNERS[name], "", "");
  const { limits: _limits, ...transportEntries } = (schema as option.Section).entries;
  // Shared options belong to sections that all transports read.
  for (const key of Object.keys(sharedOptions)) delete (transportEntries as Record<string, unknown>)[key];
  return option.section({ ...entries, ...transportEntries, ...entries });
}

/** Returns the option for an existing key such as `server.port`. */
export async function findOption(key: string): Promise<option.Entries[string]> {
  const [section = "", name = ""] = key.split(".");
  const { entries } = (configOptions.entries as option.Entries)[section] as option.Section;
  return entries[name] ?? (await loadFullSection(section as keyof typeof SECTION_OWNERS)).entries[name]!;
}
