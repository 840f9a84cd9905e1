import { statSync } from "node:fs";
import { join, resolve } from "node:path";
import { attempt } from "../base/attempt.js";
import { Redactor } from "../base/redact.js";
import { headerSecrets } from "../base/secret-detection.js";
import { VERSION } from "../base/version.js";
import { InputError } from "../ports/errors.js";
import type { Logger } from "../ports/logger.js";
import type { PermissionRule } from "../ports/permission-policy.js";
import type { McpServerHttp, McpServer, McpServerFactory, McpServerManager } from "../ports/mcp-server.js";
import type { ToolSource } from "../ports/tool-source.js";
import { matchesTool } from "../run/permissions/rule-schema.js";
import { mcpServerOptions } from "../plugin/mcp-server-options.js";
import { checkServer } from "../run/input/server-check.js";
import type { Config } from "./config-options.js";
import type { LoadedConfig } from "./config.js";
import { loadMcpServers } from "./plugins.js";

/** Maximum number of cached tool sources for the servers of clients. */
const MAX_CACHED_SOURCES = 256;

/** A configured server and gantry's options for the server: what it offers and may do. `timeout` is in seconds. */
export interface ConfiguredServer {
  readonly server: McpServer;
  readonly usageOptions: {
    readonly tools: readonly string[];
    readonly timeout: number;
    readonly trusted: boolean;
    readonly sampling: boolean;
    /** Undefined for a program, and for an address whose configured headers authenticate gantry. */
    readonly loginFile?: string | undefined;
  };
}

interface FactoryOptions {
  readonly loadedConfig: LoadedConfig;
  readonly logger: Logger;
  /** Environment variables of all server processes. */
  readonly env: Readonly<Record<string, string>>;
  /** Reason to reject server programs that clients name. Undefined if they are allowed. */
  readonly programRejection: string | undefined;
}

/** Returns the enabled servers of the config. `home` is gantry's home folder. */
export function getConfiguredServers({ config, folder }: LoadedConfig, home: string): ConfiguredServer[] {
  return Object.entries(config.mcpServers)
    .filter(([, { enabled }]) => enabled)
    .map(([name, entry]) => {
      const { tools, timeout, trusted, sampling } = entry;
      const server = toMcpServer(name, entry, folder, home);
      const isLoginPossible =
        "url" in server && !Object.keys(server.headers).some((key) => /^authorization$/i.test(key));
      const login = isLoginPossible ? { loginFile: getLoginFile(home, name) } : {};
      return { server, usageOptions: { tools, timeout, trusted, sampling, ...login } };
    });
}

/** Path of the file with the login to a configured server, in gantry's home. */
export function getLoginFile(home: string, serverName: string): string {
  return join(home, "mcp-logins", `${serverName}.json`);
}

function toMcpServer(name: string, entry: Config["mcpServers"][string], folder: string, home: string): McpServer {
  const { command, args, env, cwd, url = "", headers, type } = entry;
  if (command === undefined) return { name, url, headers, ...(type !== undefined && type !== "stdio" && { type }) };
  // A command without a slash is looked up in the PATH.
  const file = command.includes("/") ? resolve(folder, command) : command;
  return {
    name,
    command: file,
    args,
    env: { ...env },
    ...mcpServerOptions.folderOf(cwd, { configDir: folder, home }),
  };
}

/**
 * Returns the files among the commands and arguments of the configured servers. Tools must not change them, because
 * gantry runs them.
 */
export function listProgramFiles(servers: readonly ConfiguredServer[], projectDir: string): string[] {
  return servers.flatMap(({ server }) => {
    if (!("command" in server)) return [];
    const { command, args, cwd = projectDir } = server;
    return [command, ...args].map((path) => resolve(cwd, path)).filter(isFile);
  });
}

/** Whether an argument is the path of a file. `statSync` throws if the argument is too long for a path. */
function isFile(path: string): boolean {
  return attempt(() => statSync(path).isFile(), false);
}

/**
 * Returns the reason to reject programs of clients, if commands are restricted: a program could do what commands may
 * not.
 */
export function findProgramRejection(
  hasCommands: boolean,
  { tools, permissions }: Pick<Config, "tools" | "permissions">,
): string | undefined {
  if (!hasCommands) return "commands are disabled, and programs of clients with them";
  if (tools.bash.sandbox === "required") return "commands must run in the sandbox, and a server would run outside it";
  // The first rule that applies to all commands decides, as it does for a command.
  const universalRule = permissions.rules.find(
    (rule) => matchesTool(rule, { name: "bash" }) && rule.path === undefined && isForEveryCommand(rule),
  );
  return universalRule?.action === "deny" ? "a rule denies commands, and programs of clients with them" : undefined;
}

/**
 * Whether the rule matches every command. For `deny`, a glob for any words counts too. For `allow` it does not: such a
 * rule excludes commands that write to a file.
 */
function isForEveryCommand({ match, action }: PermissionRule): boolean {
  return match === undefined || (action === "deny" && /^\*+(\s+\*+)?$/.test(match.trim()));
}

/** Returns the secrets of an address: in its headers, path, query and user info. */
function addressSecrets({ url, headers }: McpServerHttp): string[] {
  const headerValues = headerSecrets(headers);
  if (!URL.canParse(url)) return headerValues;
  const { username, password, pathname, searchParams } = new URL(url);
  const urlSecrets = [...headerSecrets({ ...pathname.split("/") }), ...headerSecrets(Object.fromEntries(searchParams))];
  return [...headerValues, ...urlSecrets, username, password].filter((secret) => secret !== "");
}

/** Opens configured MCP servers and MCP servers of clients. The implementation is loaded with the first server. */
export class ConfigMcpServerFactory implements McpServerFactory {
  /** Sources of the configured servers. */
  readonly sources: readonly ToolSource[];
  readonly #options: FactoryOptions;
  readonly #clientSources = new Map<string, ToolSource>();
  readonly #servers: readonly ConfiguredServer[];
  #serversPromise: ReturnType<typeof loadMcpServers> | undefined;
  #manager: Promise<McpServerManager> | undefined;

  constructor(servers: readonly ConfiguredServer[], options: FactoryOptions) {
    this.#options = options;
    this.#servers = servers;
    this.sources = servers.map(({ server, usageOptions }) => this.#createSource(server, usageOptions));
  }

  source(server: McpServer): ToolSource {
    checkServer("", server);
    const { programRejection } = this.#options;
    if ("command" in server && programRejection !== undefined)
      throw new InputError("command", `a server with a url, because ${programRejection}`);
    const cacheKey = JSON.stringify(server);
    const source = this.#clientSources.get(cacheKey) ?? this.#createSource(server, {});
    this.#clientSources.delete(cacheKey);
    this.#clientSources.set(cacheKey, source);
    for (const [oldestKey] of this.#clientSources) {
      if (this.#clientSources.size <= MAX_CACHED_SOURCES) break;
      this.#clientSources.delete(oldestKey);
    }
    return source;
  }

  manager(): Promise<McpServerManager> {
    return (this.#manager ??= import("./mcp-manager.js").then(
      ({ ConfiguredMcpServers }) => new ConfiguredMcpServers(this.#servers, () => this.#loadServers()),
    ));
  }

  #loadServers(): ReturnType<typeof loadMcpServers> {
    const { loadedConfig, logger, env } = this.#options;
    const { secrets } = loadedConfig;
    const onSecret = (secret: string) => void secrets.add(secret);
    return (this.#serversPromise ??= loadMcpServers({ env, version: VERSION, secrets, onSecret, logger }));
  }

  /**
   * Creates a source that loads the implementation on first use and removes secrets from results, including the
   * server's own.
   */
  #createSource(server: McpServer, usageOptions: Partial<ConfiguredServer["usageOptions"]>): ToolSource {
    const { loadedConfig } = this.#options;
    const serverSecrets = "command" in server ? headerSecrets(server.env) : addressSecrets(server);
    return {
      name: `mcp:${server.name}`,
      open: async (session, signal) => {
        const [servers, { redactToolSource }] = await Promise.all([
          this.#loadServers(),
          import("../tools/redacted-tools.js"),
        ]);
        const redactor = new Redactor(() => [...loadedConfig.secrets, ...serverSecrets]);
        return redactToolSource(servers.source(server, usageOptions), redactor).open(session, signal);
      },
    };
  }
}
