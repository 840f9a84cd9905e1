import { statSync } from "node:fs";
import { resolve } from "node:path";
import { attempt } from "../base/attempt.js";
import { headerSecrets, Redactor } from "../base/redact.js";
import { VERSION } from "../base/version.js";
import { InputError } from "../ports/errors.js";
import type { Logger } from "../ports/logger.js";
import type { PermissionRule } from "../ports/permission-policy.js";
import type { ToolAddress, ToolServer, ToolServers } from "../ports/mcp-server.js";
import type { ToolSource } from "../ports/tool-source.js";
import { isFor } from "../run/permissions/rule-schema.js";
import { toolServerOptions } from "../plugin/mcp-server-options.js";
import { checkServer } from "../run/input/server-check.js";
import type { Config } from "./config-options.js";
import type { LoadedConfig } from "./config.js";
import { loadToolServers } from "./plugins.js";

/** Of servers that clients brought so many are known again. */
const KNOWN = 256;

/** A server that the config names, and how it is used. */
export interface ConfiguredServer {
  readonly server: ToolServer;
  readonly use: { readonly tools: readonly string[]; readonly timeout: number; readonly trusted: boolean };
}

interface Given {
  readonly loaded: LoadedConfig;
  readonly logger: Logger;
  /** The environment of programs. */
  readonly env: Readonly<Record<string, string>>;
  /** Why programs of clients are not started; undefined: they are. */
  readonly refusesPrograms: string | undefined;
}

/** The servers that the config names and that are not switched off. `home` is gantry's home folder. */
export function configuredServers({ config, folder }: LoadedConfig, home: string): ConfiguredServer[] {
  return Object.entries(config.mcpServers)
    .filter(([, { enabled }]) => enabled)
    .map(([name, entry]) => ({ server: serverOf(name, entry, folder, home), use: entry }))
    .map(({ server, use: { tools, timeout, trusted } }) => ({ server, use: { tools, timeout, trusted } }));
}

function serverOf(name: string, entry: Config["mcpServers"][string], folder: string, home: string): ToolServer {
  const { command, args, env, cwd, url = "", headers, type } = entry;
  if (command === undefined) return { name, url, headers, ...(type !== undefined && type !== "stdio" && { type }) };
  // What stands in the PATH has no slash.
  const file = command.includes("/") ? resolve(folder, command) : command;
  return {
    name,
    command: file,
    args,
    env: { ...env },
    ...toolServerOptions.folderOf(cwd, { configDir: folder, home }),
  };
}

/** The files that they are, as far as the config names them: what gantry starts no tool may change. */
export function programFiles(servers: readonly ConfiguredServer[], projectDir: string): string[] {
  return servers.flatMap(({ server }) => {
    if (!("command" in server)) return [];
    const { command, args, cwd = projectDir } = server;
    return [command, ...args].map((one) => resolve(cwd, one)).filter(isFile);
  });
}

/** An argument may be anything: a script, or a key of more characters than a file's name may have. */
function isFile(path: string): boolean {
  return attempt(() => statSync(path).isFile(), false);
}

/** Why a client's programs are not started: it could do more by them than by commands. */
export function noPrograms(
  hasCommands: boolean,
  { tools, permissions }: Pick<Config, "tools" | "permissions">,
): string | undefined {
  if (!hasCommands) return "commands are switched off, so no programs of clients are started";
  if (tools.bash.sandbox === "required") return "commands run in a sandbox alone, in which it would not be";
  // The first rule that is for every command decides, as it does for a command.
  const every = permissions.rules.find(
    (rule) => isFor(rule, { name: "bash" }) && rule.path === undefined && isForEveryCommand(rule),
  );
  return every?.action === "deny"
    ? "commands are forbidden by a rule, so no programs of clients are started"
    : undefined;
}

/** A `deny` also by the glob that stands for any words; an `allow` by it is for less, as for no command that writes to a file. */
function isForEveryCommand({ match, action }: PermissionRule): boolean {
  return match === undefined || (action === "deny" && /^\*+(\s+\*+)?$/.test(match.trim()));
}

/** What of an address is secret: in its headers, and in each part of its path and query. */
function addressSecrets({ url, headers }: ToolAddress): string[] {
  const own = headerSecrets(headers);
  if (!URL.canParse(url)) return own;
  const { username, password, pathname, searchParams } = new URL(url);
  const parts = [...headerSecrets({ ...pathname.split("/") }), ...headerSecrets(Object.fromEntries(searchParams))];
  return [...own, ...parts, username, password].filter((secret) => secret !== "");
}

/** Servers of tools: those of the config, and those that clients bring. Nothing is loaded before the first is opened. */
export class ConfigToolServers implements ToolServers {
  /** Those of the config. */
  readonly sources: readonly ToolSource[];
  readonly #given: Given;
  readonly #brought = new Map<string, ToolSource>();
  #opening: ReturnType<typeof loadToolServers> | undefined;

  constructor(servers: readonly ConfiguredServer[], given: Given) {
    this.#given = given;
    this.sources = servers.map(({ server, use }) => this.#sourceOf(server, use));
  }

  source(server: ToolServer): ToolSource {
    checkServer("", server);
    const { refusesPrograms: why } = this.#given;
    if ("command" in server && why !== undefined)
      throw new InputError("command", `a server at an address, because ${why}`);
    const id = JSON.stringify(server);
    const source = this.#brought.get(id) ?? this.#sourceOf(server, {});
    this.#brought.delete(id);
    this.#brought.set(id, source);
    for (const [oldest] of this.#brought) {
      if (this.#brought.size <= KNOWN) break;
      this.#brought.delete(oldest);
    }
    return source;
  }

  /** Opened by code that is loaded with the first; without secrets, those that came with it too. */
  #sourceOf(server: ToolServer, use: Partial<ConfiguredServer["use"]>): ToolSource {
    const { loaded, logger, env } = this.#given;
    const own = "command" in server ? headerSecrets(server.env) : addressSecrets(server);
    return {
      name: `mcp:${server.name}`,
      open: async (session, signal) => {
        this.#opening ??= loadToolServers({ env, version: VERSION, secrets: loaded.secrets, logger });
        const [servers, { sourceWithoutSecrets }] = await Promise.all([this.#opening, import("../tools/without-secrets.js")]);
        const redactor = new Redactor(() => [...loaded.secrets, ...own]);
        return sourceWithoutSecrets(servers.source(server, use), redactor).open(session, signal);
      },
    };
  }
}
