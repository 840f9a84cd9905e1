import "reflect-metadata/lite";
import { join } from "node:path";
import { container, instanceCachingFactory, type DependencyContainer, type InjectionToken } from "tsyringe";
import { Agent } from "../agent/agent.js";
import { createNamedLogger } from "../base/log.js";
import { folderHistory } from "../history/folder-history.js";
import { FileCatalogueCache } from "../models/catalogue-cache.js";
import { HOME, HTTP_HOST, LOGGER } from "../plugin/adapter.js";
import { AdapterError, ConfigError } from "../ports/errors.js";
import type { Logger } from "../ports/logger.js";
import type { ModelProvider } from "../ports/model-provider.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { Telemetry } from "../ports/telemetry.js";
import { isUnavailable } from "../sessions/outage.js";
import type { FileToolOptions } from "../tools/files/files.js";
import { TOOL_NAMES } from "../tools/names.js";
import { gitWorktrees } from "../worktrees/git-worktrees.js";
import { resolveAdapter } from "./adapter-container.js";
import type { LoadedConfig } from "./config.js";
import { createChildEnvironment } from "./environment.js";
import { isBuiltIn } from "./plugins.js";
import { selectTools, warnAboutRules } from "./select-tools.js";
import { reasonOf } from "./error-reason.js";
import { Selection } from "./selected-adapters.js";
import * as token from "./tokens.js";
import { getConfiguredServers, listProgramFiles } from "./mcp-servers.js";

/** Input of the composition root. */
export interface CompositionInput {
  loadedConfig: LoadedConfig;
  /** Absolute path of gantry's home folder. */
  home: string;
  /** Absolute path of the project folder. */
  projectDir: string;
  logger: Logger;
}

/**
 * Creates the composition root. Each token has a factory that runs on first use and whose result is cached. Modules of
 * unused parts are therefore not imported.
 *
 * A factory whose module is imported dynamically returns a promise.
 */
export function createContainer({ loadedConfig, home, projectDir, logger }: CompositionInput): DependencyContainer {
  const root = container.createChildContainer();
  const provide = <T>(injectionToken: InjectionToken<T>, create: (root: DependencyContainer) => T): void =>
    void root.register(injectionToken, { useFactory: instanceCachingFactory(create) });
  root.registerInstance(token.CONFIG, loadedConfig);
  root.registerInstance(HOME, home);
  root.registerInstance(token.PROJECT_DIR, projectDir);
  root.registerInstance(LOGGER, logger);
  provide(token.SELECTION, () => new Selection(loadedConfig, home));
  provide(token.SESSION_DRIVER, createDriver);
  provide(token.MODEL_PROVIDERS, createProviders);
  provide(token.TOOLS, selectTools);
  provide(token.TRANSPORTS, createTransports);
  provide(token.COMPACTION_STRATEGY, async () => {
    const strategy = root.resolve(token.SELECTION).strategy();
    return typeof strategy === "string" ? strategy : resolveAdapter(root, strategy);
  });
  provide(token.PERMISSION_POLICIES, async () =>
    Promise.all(
      root
        .resolve(token.SELECTION)
        .policies()
        .map((policy) => resolveAdapter(root, policy)),
    ),
  );
  provide(token.TELEMETRY, async () => {
    const telemetry = root.resolve(token.SELECTION).telemetry();
    return telemetry && ((await resolveAdapter(root, telemetry)) as Telemetry);
  });
  provide(token.HOOKS, async () => {
    const configuredHooks = root.resolve(token.SELECTION).hooks();
    const [telemetry, ...hooks] = await Promise.all([
      root.resolve(token.TELEMETRY),
      ...configuredHooks.map((selected) => resolveAdapter(root, selected)),
    ]);
    // Last: the log names the other hooks by their index in the config.
    return telemetry ? [...hooks, telemetry] : hooks;
  });
  // Without servers, do not call the module, so that the bundle does not load it.
  provide(token.MCP_SERVERS, () =>
    Object.keys(loadedConfig.config.mcpServers).length > 0 ? getConfiguredServers(loadedConfig, home) : [],
  );
  provide(token.FILE_RULES, createFileRules);
  // The rules are computed with the first change, because commands that only read sessions have no tools.
  provide(token.FILE_HISTORY, () =>
    folderHistory(() => Promise.resolve({ ...root.resolve(token.FILE_RULES), folder: join(home, "files"), logger })),
  );
  provide(token.WORKTREES, () =>
    gitWorktrees(root.resolve(token.SELECTION).worktreeFolder(), () => {
      const { deniedPaths, readOnlyPaths } = root.resolve(token.FILE_RULES);
      return Promise.resolve({ deniedPaths, readOnlyPaths, environment: createChildEnvironment([]), logger });
    }),
  );
  provide(token.AGENT, createAgent);
  return root;
}

async function createDriver(root: DependencyContainer): Promise<SessionDriver> {
  const selectedDriver = root.resolve(token.SELECTION).driver();
  const driver = await resolveAdapter(root, selectedDriver);
  if (isBuiltIn(selectedDriver.kind, selectedDriver.name)) return driver;
  const open = driver.open.bind(driver);
  const openWithErrorPrefix = async (): Promise<void> => {
    try {
      await open();
    } catch (error) {
      // An unavailable store is not the module's fault. The caller retries.
      if (isUnavailable(error)) throw error;
      const errorPrefix = `${root.resolve(token.CONFIG).file}: ${selectedDriver.key}: ${selectedDriver.name}`;
      throw new AdapterError(`${errorPrefix} could not be opened: ${reasonOf(error)}`, { cause: error });
    }
  };
  // If the driver is frozen, this has no effect and errors have no prefix.
  Reflect.defineProperty(driver, "open", { configurable: true, writable: true, value: openWithErrorPrefix });
  return driver;
}

async function createProviders(root: DependencyContainer): Promise<readonly ModelProvider[]> {
  const selectedProviders = await root.resolve(token.SELECTION).providers();
  const providers = await Promise.all(selectedProviders.map((provider) => resolveAdapter(root, provider)));
  const names = providers.map(({ name }) => name);
  const duplicateIndex = names.findIndex((name, i) => names.indexOf(name) !== i);
  const loadedConfig = root.resolve(token.CONFIG);
  if (duplicateIndex !== -1)
    throw new ConfigError(
      `${loadedConfig.file}: providers[${duplicateIndex}].name: expected a unique name, got ${names[duplicateIndex]} twice`,
    );
  if (!["", ...names].includes(loadedConfig.config.model.provider)) {
    const { checkPreferredProvider } = await import("./preferred-provider.js");
    await checkPreferredProvider(loadedConfig, names);
  }
  return providers;
}

async function createTransports(root: DependencyContainer): Promise<readonly token.SelectedTransport[]> {
  const transports = root.resolve(token.SELECTION).transports();
  // For a client on standard input, Node's HTTP modules need not be loaded.
  if (transports.some(({ name }) => !["acp-stdio", "mcp-stdio"].includes(name))) await provideHttpHost(root);
  return Promise.all(
    transports.map(async (selected) => ({ transport: await resolveAdapter(root, selected), selected })),
  );
}

/** Registers the shared HTTP listener. It starts to listen at the first mount. */
export async function provideHttpHost(root: DependencyContainer): Promise<void> {
  const { openHttpHost } = await import("../http/http-host.js");
  const selection = root.resolve(token.SELECTION);
  const loadedConfig = root.resolve(token.CONFIG);
  const { config, secrets } = loadedConfig;
  const { server, limits } = config;
  const hasUsers = server.tokens !== "" || server.trustedUserHeader !== "";
  const userOptions = hasUsers
    ? (await import("./user-options.js")).getUserOptions(loadedConfig, root.resolve(HOME))
    : { trustedUserHeader: undefined };
  root.register(HTTP_HOST, {
    useFactory: instanceCachingFactory(() =>
      openHttpHost({
        ...server,
        ...limits,
        tokenFolder: root.resolve(HOME),
        ...userOptions,
        onToken: (value) => secrets.add(value),
        remedy: ({ prefix }) => createRemedy(prefix === "/" && selection.servesAcp() ? "acp" : "server"),
        logger: createNamedLogger(root.resolve(LOGGER), "http"),
      }),
    ),
  });
}

function createRemedy(section: "acp" | "server"): { authenticate: string; listen: string } {
  const authenticate = `server.tokens or ${section}.required_headers`;
  return { authenticate, listen: `set ${authenticate} in the config, or server.insecure: true (--insecure)` };
}

function createFileRules(root: DependencyContainer): Omit<FileToolOptions, "outputsPath"> {
  const selection = root.resolve(token.SELECTION);
  const servers = root.resolve(token.MCP_SERVERS);
  const programs = servers.length > 0 ? listProgramFiles(servers, root.resolve(token.PROJECT_DIR)) : [];
  return {
    allowPaths: selection.allowPaths(),
    deniedPaths: selection.deniedPaths(),
    readOnlyPaths: [...selection.readOnlyPaths(TOOL_NAMES), ...programs],
    protectedPaths: root.resolve(token.CONFIG).config.tools.protectedPaths,
  };
}

async function createAgent(root: DependencyContainer): Promise<Agent> {
  // Resolve concurrently: each part imports its own modules.
  const [driver, providers, tools, strategy, policies, hooks, telemetry] = await Promise.all([
    root.resolve(token.SESSION_DRIVER),
    root.resolve(token.MODEL_PROVIDERS),
    root.resolve(token.TOOLS),
    root.resolve(token.COMPACTION_STRATEGY),
    root.resolve(token.PERMISSION_POLICIES),
    root.resolve(token.HOOKS),
    root.resolve(token.TELEMETRY),
  ]);
  const loadedConfig = root.resolve(token.CONFIG);
  const { agent, catalogue, compaction, limits, model, permissions, session } = loadedConfig.config;
  const [home, logger] = [root.resolve(HOME), root.resolve(LOGGER)];
  const { rules, mode, unattended, timeout, clientGrace } = permissions;
  // Rules can only be checked against the loaded tools.
  if (rules.length > 0) warnAboutRules(await tools.list(), loadedConfig, logger);
  const hookSets = hooks.length > 0 ? await import("../plugin/hook-set.js") : undefined;
  const configuredAgent = new Agent({
    driver: telemetry?.measureDriver(driver) ?? driver,
    providers,
    projectDir: root.resolve(token.PROJECT_DIR),
    ...agent,
    tools: () => tools.list(),
    mcpServerFactory: tools.mcpServers,
    permissions: policies,
    ...(hookSets && { hooks: hookSets.combineHooks(hooks) }),
    // The rule checker's module is loaded only if there are rules.
    ...(rules.length > 0 && { rules }),
    mode,
    unattended,
    askTimeoutSeconds: timeout,
    clientGraceSeconds: clientGrace,
    deniedPaths: root.resolve(token.SELECTION).deniedPaths(),
    fileHistory: root.resolve(token.FILE_HISTORY),
    worktrees: root.resolve(token.WORKTREES),
    rewind: session.rewind,
    home,
    commandFolders: [join(home, "commands")],
    concurrentRuns: limits.concurrentRuns,
    attachmentBytes: limits.attachmentBytes,
    toolOutputBytes: limits.toolOutputBytes,
    budget: limits.budget,
    sessionBudget: limits.sessionBudget,
    ...(limits.unknownPrice && { unknownPrice: limits.unknownPrice }),
    compaction: { ...compaction, strategy },
    model,
    catalogueRefreshSeconds: catalogue.refresh === false ? 0 : catalogue.refresh,
    catalogue: new FileCatalogueCache(join(home, "models.json"), logger),
    logger,
  });
  for (const hookSet of hooks) hookSets?.addListeners(configuredAgent, hookSet);
  return configuredAgent;
}
