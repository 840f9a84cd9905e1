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

/** gantry's home folder: `GANTRY_HOME`, else `~/.gantry`. Throws `ConfigError` where nobody knows the latter. */
export function homeFolder(): string {
  const set = environment("GANTRY_HOME");
  if (set !== undefined && set !== "") return resolve(set);
  try {
    return join(homedir(), ".gantry");
  } catch (error) {
    // A user that no list has, as containers may be told to use.
    throw new ConfigError("no home folder is known: set HOME or GANTRY_HOME", { cause: error });
  }
}

/** Folder for temporary files. */
export const temporaryFolder = tmpdir;

export interface LoadedConfig {
  config: Config;
  /** As it stands in the file, with flags and variables in their places: for what belongs to adapters, which read it themselves. */
  given: Readonly<Record<string, unknown>>;
  /** The file, or where it would be; the start of error messages about it. */
  file: string;
  /** Folder that relative paths in the config start from. */
  folder: string;
  /** Values to redact: those of keys and variables that hold secrets, those that look like a key, and the token of the port once it is open. */
  secrets: Set<string>;
  /** Takes out of a message about the config what came from the environment, secrets and all, because it may stand in the wrong place. */
  hide(message: string): string;
}

/** Values that flags put over the file's: keys as in the file, `server.port`. */
export type Overrides = Readonly<Record<string, unknown>>;

/**
 * Read the config file (`path`, else `<home>/config.json`; a missing default file means defaults), put the flags over
 * it and check it. Rejects with `ConfigError`: one line that names file, key path and what was expected.
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
    // As it stands, too: a flag must not hide that the file is wrong.
    let config = await check(file, value);
    let given = value as Readonly<Record<string, unknown>>;
    const overrides = Object.entries(options.overrides ?? {}).filter(([, flagged]) => flagged !== undefined);
    if (overrides.length > 0) {
      given = override(given, overrides);
      config = await check(file, given);
    }
    return { config, given, file, folder: dirname(file), secrets, hide };
  } catch (error) {
    if (error instanceof ConfigError) error.message = hide(error.message);
    throw error;
  }
}

async function read(file: string, mustExist: boolean): Promise<unknown> {
  let content: string;
  try {
    // At once: a start has nothing else to do, and turns of the loop would cost it more than the reading.
    content = readFileSync(file, "utf8");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // ENOTDIR: the home is a file, which the error about the home folder reports.
    if ((code === "ENOENT" || code === "ENOTDIR") && !mustExist) return {};
    throw new ConfigError(`${file}: cannot be read (${code ?? "unknown"})`, { cause: error });
  }
  content = content.replace(/^\uFEFF/, "");
  if (content.trim() === "") return {};
  try {
    return JSON.parse(content) as unknown;
  } catch {
    // Only a file with comments or trailing commas needs the larger parser.
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

/** Of a config that was checked. */
function override(value: Readonly<Record<string, unknown>>, overrides: readonly [path: string, flagged: unknown][]) {
  const result: Record<string, unknown> = { ...value };
  for (const [path, flagged] of overrides) {
    const [head = "", key = ""] = path.split(".");
    result[head] = { ...(result[head] as object | undefined), [key]: flagged };
  }
  return result;
}

/** Sections whose other keys a shipped transport owns, which is loaded only for these. */
const OWNERS = { server: "koa-http-api", acp: "acp-http-sse-ws" } as const;

async function check(file: string, value: unknown): Promise<Config> {
  const config = option.read(configOptions, value, `${file}: `);
  for (const section of ["server", "acp"] as const) {
    const given = (value as Partial<Record<typeof section, object>>)[section] ?? {};
    const { entries } = configOptions.entries[section];
    if (Object.keys(given).every((key) => Object.hasOwn(entries, key))) continue;
    option.read(await wholeSection(section), given, `${file}: ${section}`);
  }
  return config;
}

/** A section with what the transport that owns it adds. */
export async function wholeSection(name: keyof typeof OWNERS): Promise<option.Section> {
  const { entries } = configOptions.entries[name];
  const { schema } = await loadAdapter("transport", OWNERS[name], "", "");
  const { limits: _elsewhere, ...added } = (schema as option.Section).entries;
  // What several transports have stands where all of them look.
  for (const key of Object.keys(sharedOptions)) delete (added as Record<string, unknown>)[key];
  return option.section({ ...entries, ...added, ...entries });
}

/** The option that stands under a key, `server.port`; for values that come from elsewhere. */
export async function optionAt(key: string): Promise<option.Entries[string]> {
  const [head = "", name = ""] = key.split(".");
  const { entries } = (configOptions.entries as option.Entries)[head] as option.Section;
  return entries[name] ?? (await wholeSection(head as keyof typeof OWNERS)).entries[name]!;
}
