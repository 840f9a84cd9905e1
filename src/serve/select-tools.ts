import { join } from "node:path";
import type { DependencyContainer } from "tsyringe";
import { createNamedLogger } from "../base/log.js";
import { Redactor } from "../base/redact.js";
import { HOME, LOGGER } from "../plugin/adapter.js";
import { ConfigError } from "../ports/errors.js";
import type { Logger } from "../ports/logger.js";
import type { PermissionRule } from "../ports/permission-policy.js";
import type { Tool } from "../ports/tool.js";
import type { ToolSource } from "../ports/tool-source.js";
import { describeUselessRules } from "../run/permissions/rule-schema.js";
import { TOOL_NAMES } from "../tools/names.js";
import type { CommandLimits } from "../tools/shell/command-limits.js";
import type { SandboxOptions } from "../tools/shell/sandbox/sandbox.js";
import { resolveAdapter } from "./adapter-container.js";
import type { LoadedConfig } from "./config.js";
import { createChildEnvironment } from "./environment.js";
import { CONFIG, FILE_RULES, MCP_SERVERS, SELECTION, type SelectedTools } from "./tokens.js";
import { ConfigMcpServerFactory, findProgramRejection } from "./mcp-servers.js";

/** Selects the tools of the config. Third-party modules are loaded now, so that the start reports their errors. */
export async function selectTools(root: DependencyContainer): Promise<SelectedTools> {
  const loadedConfig = root.resolve(CONFIG);
  const { tools } = loadedConfig.config;
  await checkToolOptions(loadedConfig);
  const [home, logger] = [root.resolve(HOME), root.resolve(LOGGER)];
  const { toolsByName, sources } = await resolveTools(root);
  const fileRules = { ...root.resolve(FILE_RULES), env: createChildEnvironment(tools.env) };
  const servers = root.resolve(MCP_SERVERS);
  let mcpServerFactory: ConfigMcpServerFactory | undefined;
  // The factory is created with the first server, so that a start does not load MCP.
  const getMcpServerFactory = () =>
    (mcpServerFactory ??= new ConfigMcpServerFactory(servers, {
      loadedConfig,
      logger: createNamedLogger(logger, "mcp"),
      env: fileRules.env,
      programRejection: findProgramRejection(toolsByName.has("bash"), loadedConfig.config),
    }));
  const loadTools = async (): Promise<readonly (Tool | ToolSource)[]> => {
    const { builtinTools, redactToolSource, redactTools } = await import("../tools/builtin-tools.js");
    const builtInTools = builtinTools({
      ...fileRules,
      secrets: loadedConfig.secrets,
      bash: {
        ...tools.bash,
        logger: createNamedLogger(logger, "network"),
        scratchPath: join(home, "tmp"),
        outputsPath: join(home, "outputs"),
        keptPath: join(home, "kept"),
      },
      task: { maxIterations: tools.task.maxIterations },
      checks: { syntax: tools.checkEdits, commands: tools.checks },
      webfetch: { allowPrivate: tools.webfetch.allowPrivate },
      webSearch: tools.webSearch.provider && { ...tools.webSearch, provider: tools.webSearch.provider },
    });
    const redactor = new Redactor(() => loadedConfig.secrets);
    const selectedTools = [...toolsByName].flatMap(([name, tool]) =>
      tool ? redactTools(tool, redactor) : builtInTools.filter((candidate) => candidate.name === name),
    );
    const thirdPartySources = [...sources.values()].map((source) => redactToolSource(source, redactor));
    return [...selectedTools, ...thirdPartySources, ...(servers.length > 0 ? getMcpServerFactory().sources : [])];
  };
  let toolsPromise: ReturnType<typeof loadTools> | undefined;
  return {
    mcpServers: {
      source: (server) => getMcpServerFactory().source(server),
      manager: () => getMcpServerFactory().manager(),
    },
    list: () =>
      (toolsPromise ??= loadTools().catch((error: unknown) => {
        toolsPromise = undefined;
        throw error;
      })),
    logSandbox: async () => {
      if (toolsByName.has("bash")) await logSandbox({ ...fileRules, ...tools.bash }, logger);
    },
  };
}

/** Throws `ConfigError` for options that do not work together. */
async function checkToolOptions({ file, config: { tools } }: LoadedConfig): Promise<void> {
  const { bash, webSearch } = tools;
  const hosts = typeof bash.network === "object" ? bash.network : undefined;
  if (bash.sandbox === "off" && (hosts || bash.network === false))
    throw new ConfigError(
      hosts
        ? `${file}: tools.bash.network: a list needs a sandbox, got tools.bash.sandbox "off"`
        : `${file}: tools.bash.network: false needs a sandbox, got tools.bash.sandbox "off"`,
    );
  if (hosts) (await import("./network-hosts.js")).checkHosts(file, hosts);
  if (webSearch.provider === "searxng" && webSearch.baseUrl === undefined)
    throw new ConfigError(`${file}: tools.web_search.base_url: expected the URL of the SearXNG server`);
  if ((webSearch.provider === "brave" || webSearch.provider === "tavily") && webSearch.apiKey === undefined)
    throw new ConfigError(`${file}: tools.web_search.api_key: expected the key of ${webSearch.provider}`);
}

/** Returns tools and tool sources by name. A built-in tool has the value undefined. */
async function resolveTools(root: DependencyContainer) {
  const { file, config } = root.resolve(CONFIG);
  const toolsByName = new Map<string, Tool | undefined>();
  const sources = new Map<string, ToolSource>();
  const { bash, webSearch } = config.tools;
  const builtInNames = TOOL_NAMES.filter((name) =>
    name === "websearch" ? webSearch.provider !== undefined : bash.enabled || !/^bash(_|$)/.test(name),
  );
  for (const selected of root.resolve(SELECTION).tools(builtInNames)) {
    if (typeof selected === "string") {
      toolsByName.set(selected, undefined);
      continue;
    }
    const adapter = await resolveAdapter(root, selected);
    if ("run" in adapter) toolsByName.set(adapter.name, adapter);
    else if (!sources.has(adapter.name)) sources.set(adapter.name, adapter);
    else throw new ConfigError(`${file}: agent.tools: expected sources of distinct names, got ${adapter.name} twice`);
  }
  return { toolsByName, sources };
}

/**
 * Logs a warning for each rule that matches no tool. Skipped if there are tool sources: their tools are unknown until a
 * session opens them.
 */
export function warnAboutRules(
  tools: readonly (Tool | ToolSource)[],
  { file, config }: LoadedConfig,
  logger: Logger,
): void {
  const loadedTools = tools.filter((tool): tool is Tool => "run" in tool);
  if (loadedTools.length < tools.length) return;
  for (const uselessRule of describeUselessRules(config.permissions.rules as readonly PermissionRule[], loadedTools))
    logger.warn(`${file}: ${uselessRule}; the rule has no effect`);
}

async function logSandbox(
  { limits, ...options }: SandboxOptions & { limits: CommandLimits },
  logger: Logger,
): Promise<void> {
  try {
    if (Object.values(limits).some((limit) => limit !== undefined)) {
      const { describeLimits } = await import("../tools/shell/command-limits.js");
      const { text, isWeak } = await describeLimits(limits);
      logger[isWeak ? "warn" : "info"](text);
    }
    const { Sandbox } = await import("../tools/shell/sandbox/sandbox.js");
    const { text, isWeak } = await new Sandbox(options).describe(process.cwd());
    if (isWeak && options.sandbox !== "off") logger.warn(text);
    else logger.info(text);
  } catch (error) {
    // The server is already running. The first command reports the error to the model again.
    logger.warn("the command sandbox could not be determined", { error });
  }
}
