import { join } from "node:path";
import { namedLogger } from "../base/log.js";
import { Redactor } from "../base/redact.js";
import type { AdapterContext, AdapterDescriptor, AdapterKind, AdapterKinds } from "../plugin/adapter.js";
import type { Transport } from "../plugin/transport.js";
import type { CompactionStrategy } from "../ports/compaction-strategy.js";
import { AdapterError, ConfigError, hasCode } from "../ports/errors.js";
import type { openHttpHost as OpenHttpHost } from "../http/http-host.js";
import type { HttpHost } from "../ports/http-host.js";
import type { Logger } from "../ports/logger.js";
import type { ModelProvider } from "../ports/model-provider.js";
import type { PermissionPolicy, PermissionRule } from "../ports/permission-policy.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { Tool } from "../ports/tool.js";
import type { ToolServers } from "../ports/tool-server.js";
import type { ToolSource } from "../ports/tool-source.js";
import type { FileToolOptions } from "../tools/files.js";
import { TOOL_NAMES } from "../tools/names.js";
import type { SandboxOptions } from "../tools/sandbox.js";
import { folderHistory } from "../history/folder-history.js";
import type { FileHistory } from "../ports/file-history.js";
import { emptyRules } from "../run/rule-check.js";
import type { LoadedConfig } from "./config.js";
import { childEnvironment } from "./environment.js";
import { isBuiltIn, loadAdapter } from "./plugins.js";
import { missingMembers } from "./strangers.js";
import { optionsOf, reasonOf, Selection, type Selected } from "./selected-adapters.js";
import { ConfigToolServers, configuredServers, noPrograms, programFiles } from "./tool-servers.js";

/** What parts are made from. */
export interface Parts {
  loaded: LoadedConfig;
  /** Absolute path. */
  home: string;
  /** The folder to work on; absolute path. */
  projectDir: string;
  logger: Logger;
}

/** From config to parts; each adapter sees its own options and nothing else. */
export class Builder {
  readonly #options: Parts;
  readonly #selection: Selection;
  #tellSandbox: (() => Promise<void>) | undefined;
  #openHost: typeof OpenHttpHost | undefined;
  host: HttpHost | undefined;
  /** Made with the tools. */
  toolServers: ToolServers | undefined;

  constructor(options: Parts) {
    this.#options = options;
    this.#selection = new Selection(options.loaded, options.home);
  }

  /** What nobody may touch. */
  denied(): string[] {
    return this.#selection.denied();
  }

  /** What undoes the changes of the built-in tools, by the rules that they keep. */
  fileHistory(): FileHistory {
    const { home, logger } = this.#options;
    // Asked with the first change: who looks at sessions has no tools.
    return folderHistory(async () => {
      return { ...this.#fileRules(), folder: join(home, "files"), logger };
    });
  }

  async driver(): Promise<SessionDriver> {
    return this.#make(this.#selection.driver());
  }

  async providers(): Promise<ModelProvider[]> {
    const selected = await this.#selection.providers();
    const providers = await Promise.all(selected.map((one) => this.#make(one)));
    const names = providers.map((provider) => provider.name);
    const twice = names.findIndex((name, i) => names.indexOf(name) !== i);
    if (twice !== -1)
      throw new ConfigError(
        `${this.#options.loaded.file}: providers[${twice}].name: expected a name of its own, got ${names[twice]} twice`,
      );
    return providers;
  }

  /**
   * What makes the tools. The built-in ones are loaded with the first run; modules of strangers are made now, so that a
   * start tells what is wrong with them.
   */
  async tools(): Promise<() => Promise<readonly (Tool | ToolSource)[]>> {
    const { loaded, home, logger } = this.#options;
    const { tools } = loaded.config;
    if (tools.bash.sandbox === "off" && tools.bash.network === false)
      throw new ConfigError(
        `${loaded.file}: tools.bash.network: expected a sandbox, which alone can close it, got tools.bash.sandbox "off"`,
      );
    // Most have none, and need nothing of theirs.
    const servers = Object.keys(loaded.config.mcpServers).length > 0 ? configuredServers(loaded, home) : [];
    const rules = { ...this.#fileRules(servers), env: childEnvironment(tools.env) };
    /** By name; undefined: the built-in one. */
    const chosen = new Map<string, Tool | undefined>();
    const sources = new Map<string, ToolSource>();
    const builtIn = TOOL_NAMES.filter((name) => tools.bash.enabled || !/^bash(_|$)/.test(name));
    for (const selected of this.#selection.tools(builtIn)) {
      if (typeof selected === "string") {
        chosen.set(selected, undefined);
        continue;
      }
      const part = await this.#make(selected);
      if ("run" in part) chosen.set(part.name, part);
      else if (!sources.has(part.name)) sources.set(part.name, part);
      else
        throw new ConfigError(
          `${loaded.file}: agent.tools: expected sources of distinct names, got ${part.name} twice`,
        );
    }
    if (chosen.has("bash")) this.#tellSandbox = () => tellSandbox({ ...rules, ...tools.bash }, logger);
    let opened: ConfigToolServers | undefined;
    // Not before a first server is: nothing of theirs is loaded by a start.
    const toolServers = () =>
      (opened ??= new ConfigToolServers(servers, {
        loaded,
        logger: namedLogger(logger, "mcp"),
        env: rules.env,
        refusesPrograms: noPrograms(chosen.has("bash"), loaded.config),
      }));
    this.toolServers = { source: (server) => toolServers().source(server) };
    let made: Promise<readonly (Tool | ToolSource)[]> | undefined;
    const make = async () => [
      ...(await this.#chosen(chosen, [...sources.values()], rules)),
      ...(servers.length > 0 ? toolServers().sources : []),
    ];
    return () =>
      (made ??= make().catch((error: unknown) => {
        made = undefined;
        throw error;
      }));
  }

  /** The tools of these names, built in where there is no other, and the sources of strangers. */
  async #chosen(
    named: ReadonlyMap<string, Tool | undefined>,
    sources: readonly ToolSource[],
    rules: Omit<FileToolOptions, "outputsPath"> & { env: Readonly<Record<string, string>> },
  ): Promise<(Tool | ToolSource)[]> {
    const { loaded, home } = this.#options;
    const { tools } = loaded.config;
    const { builtinTools, sourceWithoutSecrets, withoutSecrets } = await import("../tools/all.js");
    const builtIn = builtinTools({
      ...rules,
      secrets: loaded.secrets,
      bash: {
        ...tools.bash,
        scratchPath: join(home, "tmp"),
        outputsPath: join(home, "outputs"),
        keptPath: join(home, "kept"),
      },
      task: { maxIterations: tools.task.maxIterations },
      checks: { syntax: tools.checkEdits, commands: tools.checks },
      webfetch: { allowPrivate: tools.webfetch.allowPrivate },
    });
    const redactor = new Redactor(() => loaded.secrets);
    const chosen = [...named].flatMap(([name, stranger]) =>
      stranger ? withoutSecrets(stranger, redactor) : builtIn.filter((tool) => tool.name === name),
    );
    return [...chosen, ...sources.map((source) => sourceWithoutSecrets(source, redactor))];
  }

  /** Say what commands run in; never rejects. */
  async tellSandbox(): Promise<void> {
    try {
      await this.#tellSandbox?.();
    } catch (error) {
      // Clients are served already; the first command says so again, to the model.
      this.#options.logger.warn("it could not be found out what commands run in", { error });
    }
  }

  /** In the order in which they are asked. */
  async policies(): Promise<PermissionPolicy[]> {
    return Promise.all(this.#selection.policies().map((selected) => this.#make(selected)));
  }

  /** Say which rules mean nothing. What tools there are in a source is not known before a session opens it. */
  tellRules(tools: readonly (Tool | ToolSource)[]): void {
    const { loaded, logger } = this.#options;
    const { rules } = loaded.config.permissions;
    const known = tools.filter((one): one is Tool => "run" in one);
    if (rules.length === 0 || known.length < tools.length) return;
    for (const empty of emptyRules(rules as readonly PermissionRule[], known))
      logger.warn(`${loaded.file}: ${empty}, so the rule is for nothing`);
  }

  async strategy(): Promise<string | CompactionStrategy> {
    const strategy = this.#selection.strategy();
    return typeof strategy === "string" ? strategy : this.#make(strategy);
  }

  async transports(): Promise<{ transport: Transport; selected: Selected }[]> {
    const selection = this.#selection.transports();
    // A port and Node's HTTP: not for a client on standard input.
    if (selection.some(({ name }) => !["acp-stdio", "mcp-stdio"].includes(name)))
      ({ openHttpHost: this.#openHost } = await import("../http/http-host.js"));
    return Promise.all(selection.map(async (selected) => ({ transport: await this.#make(selected), selected })));
  }

  /** Where tools may go, and an undo of what they did. */
  #fileRules(
    servers = configuredServers(this.#options.loaded, this.#options.home),
  ): Omit<FileToolOptions, "outputsPath"> {
    const { loaded, projectDir } = this.#options;
    return {
      allowPaths: this.#selection.allowPaths(),
      deniedPaths: this.#selection.denied(),
      readOnlyPaths: [
        ...this.#selection.readOnly(TOOL_NAMES),
        ...(servers.length > 0 ? programFiles(servers, projectDir) : []),
      ],
      protectedPaths: loaded.config.tools.protectedPaths,
    };
  }

  #httpHost(): HttpHost | undefined {
    const { config, secrets } = this.#options.loaded;
    const { server, limits } = config;
    return (this.host ??= this.#openHost?.({
      ...server,
      ...limits,
      tokenFolder: this.#options.home,
      onToken: (token) => secrets.add(token),
      remedy: ({ prefix }) => remedy(prefix === "/" && this.#selection.servesAcp() ? "acp" : "server"),
      logger: namedLogger(this.#options.logger, "http"),
    }));
  }

  async #make<Kind extends AdapterKind>(selected: Selected<Kind>): Promise<AdapterKinds[Kind]> {
    const { loaded, home, projectDir, logger } = this.#options;
    const where = `${loaded.file}: ${selected.key}`;
    const descriptor = await loadAdapter(selected.kind, selected.name, loaded.folder, where);
    const own = { where: `${loaded.file}: ${selected.section}`, configDir: loaded.folder, home, projectDir };
    const options = optionsOf(selected, descriptor, own);
    // Only who asks for the port makes one.
    const host = () => (selected.kind === "transport" ? this.#httpHost() : undefined);
    const part = await construct(descriptor, where, options, {
      ...own,
      allowPaths: this.#selection.allowPaths(),
      deniedPaths: this.#selection.denied(),
      refreshes: loaded.config.catalogue.refresh !== false,
      logger: namedLogger(logger, descriptor.name),
      get http() {
        return host() as AdapterContext<Kind>["http"];
      },
    });
    const missing = isBuiltIn(selected.kind, selected.name) ? [] : missingMembers(descriptor.kind, part);
    if (missing.length === 0) return part;
    throw new AdapterError(`${where}: ${selected.name} is no ${descriptor.kind}: ${missing.join(", ")} is missing`);
  }
}

function remedy(section: "acp" | "server"): { authenticate: string; listen: string } {
  const authenticate = `${section}.required_headers`;
  return { authenticate, listen: `set ${authenticate} in the config, or server.insecure: true (--insecure)` };
}

async function tellSandbox(options: SandboxOptions, logger: Logger): Promise<void> {
  const { Sandbox } = await import("../tools/sandbox.js");
  const { text, weak } = await new Sandbox(options).describe(process.cwd());
  if (weak && options.sandbox !== "off") logger.warn(text);
  else logger.info(text);
}

async function construct<Kind extends AdapterKind>(
  descriptor: AdapterDescriptor<Kind>,
  where: string,
  options: unknown,
  context: AdapterContext<Kind>,
): Promise<AdapterKinds[Kind]> {
  try {
    if (descriptor.create) return await descriptor.create(options, context);
    const { resolvePart } = await import("./container.js");
    return resolvePart(descriptor, options, context, where);
  } catch (error) {
    if (hasCode(error, "config") || hasCode(error, "adapter")) throw error;
    const message = reasonOf(error);
    const { use, name } = descriptor;
    const why =
      use && message.startsWith("TypeInfo not known")
        ? `the class ${use.name} needs @injectable() of the gantry that runs, not of a copy beside it; or say create in place of use`
        : message;
    throw new AdapterError(`${where}: ${name} could not be built: ${why}`, { cause: error });
  }
}
