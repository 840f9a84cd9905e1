import { readFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { configOptions, type Config } from "./config-options.js";
import { expand, gatherSecrets } from "./config-values.js";
import { environment } from "./environment.js";
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
export function homeFolder(): string {
  const set = environment("GANTRY_HOME");
  if (set !== undefined && set !== "") return resolve(set);
  try {
    return join(homedir(), ".gantry");
  } catch (error) {
    // The user id is not in the user database, which is common in containers.
    throw new ConfigError("the home folder is unknown: set HOME or GANTRY_HOME", { cause: error });
  }
}

/** Folder for temporary files. */
export const temporaryFolder = tmpdir;

export interface LoadedConfig {
  config: Config;
  /** The config file's content after expansion of variables and flags. Adapters read their own keys from it. */
  rawConfig: Readonly<Record<string, unknown>>;
  /** Path of the config file, which may not exist. Prefix of error messages. */
  file: string;
  /** Base folder of relative paths in the config. */
  folder: string;
  /**
   * Values to redact: secret keys and variables, values that look like keys, and the port's token once it is created.
   */
  secrets: Set<string>;
  /** Removes values of environment variables from a message: a secret can be in the wrong place. */
  hide(message: string): string;
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
  const expanded = new Set<string>();
  const redactor = new Redactor(() => [...secrets, ...expanded]);
  const hide = (message: string) => redactor.redact(message);
  const raw = await read(file, options.path !== undefined);
  const value = expand(raw, { file, secrets, expanded, environment });
  gatherSecrets(value, secrets);
  for (const secret of processSecrets()) secrets.add(secret);
  try {
    // Validate the file without the flags too: a flag must not hide an error in the file.
    let config = await check(file, value);
    let rawConfig = value as Readonly<Record<string, unknown>>;
    const overrides = Object.entries(options.overrides ?? {}).filter(([, flagged]) => flagged !== undefined);
    if (overrides.length > 0) {
      rawConfig = override(rawConfig, overrides);
      config = await check(file, rawConfig);
    }
    return { config, rawConfig, file, folder: dirname(file), secrets, hide };
  } catch (error) {
    if (error instanceof ConfigError) error.message = hide(error.message);
    throw error;
  }
}

async function read(file: string, mustExist: boolean): Promise<unknown> {
  let content: string;
  try {
    // Synchronous, because a start has nothing else to do and asynchronous reading takes longer.
    content = readFileSync(file, "utf8");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // ENOTDIR: the home is a file. The check of the home folder reports that.
    if ((code === "ENOENT" || code === "ENOTDIR") && !mustExist) return {};
    throw new ConfigError(`${file}: cannot be read (${code ?? "unknown"})`, { cause: error });
  }
  content = content.replace(/^\uFEFF/, "");
  if (content.trim() === "") return {};
  try {
    return JSON.parse(content) as unknown;
  } catch {
    // The larger parser is loaded only for files with comments or trailing commas.
    const { parse, printParseErrorCode } = await import("jsonc-parser");
    const errors: { error: number; offset: number; length: number }[] = [];
    const value: unknown = parse(content, errors, { allowTrailingComma: true, disallowComments: false });
    const first = errors[0];
    if (first === undefined) return value;
    const before = content.slice(0, first.offset).split("\n");
    const at = `${before.length}:${(before.at(-1)?.length ?? 0) + 1}`;
    throw new ConfigError(
      `${file}:${at}: expected JSON (comments and trailing commas allowed): ${printParseErrorCode(first.error)}`,
    );
  }
}

/** Sets the values of flags in a validated config. */
function override(value: Readonly<Record<string, unknown>>, overrides: readonly [path: string, flagged: unknown][]) {
  const result: Record<string, unknown> = { ...value };
  for (const [path, flagged] of overrides) {
    const [head = "", key = ""] = path.split(".");
    result[head] = { ...(result[head] as object | undefined), [key]: flagged };
  }
  return result;
}

/** Sections whose other keys belong to a built-in transport. It is loaded only for these keys. */
const SECTION_OWNERS = { server: "koa-http-api", acp: "acp-http-sse-ws" } as const;

async function check(file: string, value: unknown): Promise<Config> {
  const config = option.read(configOptions, value, `${file}: `);
  for (const section of ["server", "acp"] as const) {
    const sectionValue = (value as Partial<Record<typeof section, object>>)[section] ?? {};
    const { entries } = configOptions.entries[section];
    if (Object.keys(sectionValue).every((key) => Object.hasOwn(entries, key))) continue;
    option.read(await fullSection(section), sectionValue, `${file}: ${section}`);
  }
  return config;
}

/** Returns a section including the options of its transport. */
export async function fullSection(name: keyof typeof SECTION_OWNERS): Promise<option.Section> {
  const { entries } = configOptions.entries[name];
  const { schema } = await loadAdapter("transport", SECTION_OWNERS[name], "", "");
  const { limits: _elsewhere, ...added } = (schema as option.Section).entries;
  // Shared options are in sections that all transports read.
  for (const key of Object.keys(sharedOptions)) delete (added as Record<string, unknown>)[key];
  return option.section({ ...entries, ...added, ...entries });
}

/** Returns the option for a key such as `server.port`. */
export async function optionAt(key: string): Promise<option.Entries[string]> {
  const [head = "", name = ""] = key.split(".");
  const { entries } = (configOptions.entries as option.Entries)[head] as option.Section;
  return entries[name] ?? (await fullSection(head as keyof typeof SECTION_OWNERS)).entries[name]!;
}
