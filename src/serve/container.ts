import "reflect-metadata/lite";
import { join } from "node:path";
import { container, instanceCachingFactory, type DependencyContainer, type InjectionToken } from "tsyringe";
import { Agent } from "../agent/agent.js";
import { namedLogger } from "../base/log.js";
import { folderHistory } from "../history/folder-history.js";
import { FileCatalogueCache } from "../models/catalogue-cache.js";
import { HOME, HTTP_HOST, LOGGER } from "../plugin/adapter.js";
import { AdapterError, ConfigError } from "../ports/errors.js";
import type { Logger } from "../ports/logger.js";
import type { ModelProvider } from "../ports/model-provider.js";
import type { SessionDriver } from "../ports/session-driver.js";
import { isAway } from "../sessions/outage.js";
import type { FileToolOptions } from "../tools/files/files.js";
import { TOOL_NAMES } from "../tools/names.js";
import { resolveAdapter } from "./adapter-container.js";
import type { LoadedConfig } from "./config.js";
import { isBuiltIn } from "./plugins.js";
import { selectTools, warnAboutRules } from "./select-tools.js";
import { reasonOf, Selection } from "./selected-adapters.js";
import * as token from "./tokens.js";
import { configuredServers, programFiles } from "./mcp-servers.js";

/** Input of a composition. */
export interface Parts {
  loaded: LoadedConfig;
  /** Absolute path. */
  home: string;
  /** The folder to work on; absolute path. */
  projectDir: string;
  logger: Logger;
}

/**
 * The composition root. Each token is a factory whose result is kept. A factory runs when its token is first resolved, so
 * modules of parts that nothing resolves are not imported. Promises stand for parts whose modules are imported.
 */
export function createContainer({ loaded, home, projectDir, logger }: Parts): DependencyContainer {
  const root = container.createChildContainer();
  const provide = <T>(provided: InjectionToken<T>, create: (root: DependencyContainer) => T): void =>
    void root.register(provided, { useFactory: instanceCachingFactory(create) });
  root.registerInstance(token.CONFIG, loaded);
  root.registerInstance(HOME, home);
  root.registerInstance(token.PROJECT_DIR, projectDir);
  root.registerInstance(LOGGER, logger);
  provide(token.SELECTION, () => new Selection(loaded, home));
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
  provide(token.HOOKS, async () =>
    Promise.all(
      root
        .resolve(token.SELECTION)
        .hooks()
        .map((hooks) => resolveAdapter(root, hooks)),
    ),
  );
  // Without a server nothing of their module is called, so that the build does not load it.
  provide(token.MCP_SERVERS, () =>
    Object.keys(loaded.config.mcpServers).length > 0 ? configuredServers(loaded, home) : [],
  );
  provide(token.FILE_RULES, createFileRules);
  // The rules are read with the first change: commands that only look at sessions have no tools.
  provide(token.FILE_HISTORY, () =>
    folderHistory(() => Promise.resolve({ ...root.resolve(token.FILE_RULES), folder: join(home, "files"), logger })),
  );
  provide(token.AGENT, createAgent);
  return root;
}

async function createDriver(root: DependencyContainer): Promise<SessionDriver> {
  const selected = root.resolve(token.SELECTION).driver();
  const driver = await resolveAdapter(root, selected);
  if (isBuiltIn(selected.kind, selected.name)) return driver;
  const open = driver.open.bind(driver);
  const openNamed = async (): Promise<void> => {
    try {
      await open();
    } catch (error) {
      // An unreachable store is no mistake of the module: the caller waits for it.
      if (isAway(error)) throw error;
      const place = `${root.resolve(token.CONFIG).file}: ${selected.key}: ${selected.name}`;
      throw new AdapterError(`${place} could not be opened: ${reasonOf(error)}`, { cause: error });
    }
  };
  // A frozen driver keeps its own errors.
  Reflect.defineProperty(driver, "open", { configurable: true, writable: true, value: openNamed });
  return driver;
}

async function createProviders(root: DependencyContainer): Promise<readonly ModelProvider[]> {
  const selected = await root.resolve(token.SELECTION).providers();
  const providers = await Promise.all(selected.map((provider) => resolveAdapter(root, provider)));
  const names = providers.map(({ name }) => name);
  const twice = names.findIndex((name, i) => names.indexOf(name) !== i);
  if (twice === -1) return providers;
  throw new ConfigError(
    `${root.resolve(token.CONFIG).file}: providers[${twice}].name: expected a name of its own, got ${names[twice]} twice`,
  );
}

async function createTransports(root: DependencyContainer): Promise<readonly token.SelectedTransport[]> {
  const transports = root.resolve(token.SELECTION).transports();
  // The port and Node's HTTP are not loaded for a client on standard input.
  if (transports.some(({ name }) => !["acp-stdio", "mcp-stdio"].includes(name))) await provideHttpHost(root);
  return Promise.all(
    transports.map(async (selected) => ({ transport: await resolveAdapter(root, selected), selected })),
  );
}

/** Register the shared HTTP port, which opens with the first mount. */
export async function provideHttpHost(root: DependencyContainer): Promise<void> {
  const { openHttpHost } = await import("../http/http-host.js");
  const selection = root.resolve(token.SELECTION);
  const { config, secrets } = root.resolve(token.CONFIG);
  const { server, limits } = config;
  root.register(HTTP_HOST, {
    useFactory: instanceCachingFactory(() =>
      openHttpHost({
        ...server,
        ...limits,
        tokenFolder: root.resolve(HOME),
        onToken: (value) => secrets.add(value),
        remedy: ({ prefix }) => remedy(prefix === "/" && selection.servesAcp() ? "acp" : "server"),
        logger: namedLogger(root.resolve(LOGGER), "http"),
      }),
    ),
  });
}

function remedy(section: "acp" | "server"): { authenticate: string; listen: string } {
  const authenticate = `${section}.required_headers`;
  return { authenticate, listen: `set ${authenticate} in the config, or server.insecure: true (--insecure)` };
}

function createFileRules(root: DependencyContainer): Omit<FileToolOptions, "outputsPath"> {
  const selection = root.resolve(token.SELECTION);
  const servers = root.resolve(token.MCP_SERVERS);
  const programs = servers.length > 0 ? programFiles(servers, root.resolve(token.PROJECT_DIR)) : [];
  return {
    allowPaths: selection.allowPaths(),
    deniedPaths: selection.denied(),
    readOnlyPaths: [...selection.readOnly(TOOL_NAMES), ...programs],
    protectedPaths: root.resolve(token.CONFIG).config.tools.protectedPaths,
  };
}

async function createAgent(root: DependencyContainer): Promise<Agent> {
  // At the same time: each waits for its own modules.
  const [driver, providers, tools, strategy, policies, hooks] = await Promise.all([
    root.resolve(token.SESSION_DRIVER),
    root.resolve(token.MODEL_PROVIDERS),
    root.resolve(token.TOOLS),
    root.resolve(token.COMPACTION_STRATEGY),
    root.resolve(token.PERMISSION_POLICIES),
    root.resolve(token.HOOKS),
  ]);
  const loaded = root.resolve(token.CONFIG);
  const { agent, catalogue, compaction, limits, model, permissions } = loaded.config;
  const [home, logger] = [root.resolve(HOME), root.resolve(LOGGER)];
  const { rules, mode, unattended, timeout, clientGrace } = permissions;
  // Only the tools themselves tell which rules match none of them.
  if (rules.length > 0) warnAboutRules(await tools.list(), loaded, logger);
  const hookSets = hooks.length > 0 ? await import("../plugin/hook-set.js") : undefined;
  const created = new Agent({
    driver,
    providers,
    projectDir: root.resolve(token.PROJECT_DIR),
    ...agent,
    tools: () => tools.list(),
    toolServers: tools.mcpServers,
    permissions: policies,
    ...(hookSets && { hooks: hookSets.combineHooks(hooks) }),
    // The module that checks rules is loaded with them.
    ...(rules.length > 0 && { rules }),
    mode,
    unattended,
    askTimeout: timeout,
    clientGrace,
    deniedPaths: root.resolve(token.SELECTION).denied(),
    fileHistory: root.resolve(token.FILE_HISTORY),
    home,
    commandFolders: [join(home, "commands")],
    concurrentRuns: limits.concurrentRuns,
    attachedBytes: limits.attachedBytes,
    toolOutputBytes: limits.toolOutputBytes,
    budget: limits.budget,
    sessionBudget: limits.sessionBudget,
    ...(limits.unknownPrice && { unknownPrice: limits.unknownPrice }),
    compaction: { ...compaction, strategy },
    model,
    catalogueRefresh: catalogue.refresh === false ? 0 : catalogue.refresh,
    catalogue: new FileCatalogueCache(join(home, "models.json"), logger),
    logger,
  });
  for (const set of hooks) hookSets?.listen(created, set);
  return created;
}
