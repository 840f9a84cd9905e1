import type { InjectionToken } from "tsyringe";
import type { Agent } from "../agent/agent.js";
import type { Transport } from "../plugin/transport.js";
import type { CompactionStrategy } from "../ports/compaction-strategy.js";
import type { FileHistory } from "../ports/file-history.js";
import type { HookSet } from "../ports/hooks.js";
import type { ModelProvider } from "../ports/model-provider.js";
import type { PermissionPolicy } from "../ports/permission-policy.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { Telemetry } from "../ports/telemetry.js";
import type { Tool } from "../ports/tool.js";
import type { McpServerFactory } from "../ports/mcp-server.js";
import type { ToolSource } from "../ports/tool-source.js";
import type { Worktrees } from "../ports/worktrees.js";
import type { FileToolOptions } from "../tools/files/files.js";
import type { LoadedConfig } from "./config.js";
import type { SelectedAdapter, Selection } from "./selected-adapters.js";
import type { ConfiguredServer } from "./mcp-servers.js";

/** A transport and its selection in the config. */
export interface SelectedTransport {
  readonly transport: Transport;
  readonly selected: SelectedAdapter<"transport">;
}

/** The tools that the config selects. Third-party modules are loaded, the built-in tools are not. */
export interface SelectedTools {
  /** Loads the built-in tools on the first call. After a failure the next call tries again. */
  list(): Promise<readonly (Tool | ToolSource)[]>;
  /** Opens configured MCP servers and MCP servers of clients. */
  readonly mcpServers: McpServerFactory;
  /** Logs the sandbox of commands. Never rejects. */
  logSandbox(): Promise<void>;
}

// Private symbols: an adapter's container inherits these registrations, but an adapter cannot name them.
/** Full config, for `src/serve` only. */
export const CONFIG: InjectionToken<LoadedConfig> = Symbol("config");
/** Absolute path of the project folder. */
export const PROJECT_DIR: InjectionToken<string> = Symbol("project folder");
export const SELECTION: InjectionToken<Selection> = Symbol("selection");
export const SESSION_DRIVER: InjectionToken<Promise<SessionDriver>> = Symbol("session driver");
/** Providers in order of preference. */
export const MODEL_PROVIDERS: InjectionToken<Promise<readonly ModelProvider[]>> = Symbol("model providers");
export const TOOLS: InjectionToken<Promise<SelectedTools>> = Symbol("tools");
/** Transports in the order of the config. */
export const TRANSPORTS: InjectionToken<Promise<readonly SelectedTransport[]>> = Symbol("transports");
/** The name of a built-in strategy, or a third-party strategy. */
export const COMPACTION_STRATEGY: InjectionToken<Promise<string | CompactionStrategy>> = Symbol("compaction strategy");
/** Policies in the order in which they decide. */
export const PERMISSION_POLICIES: InjectionToken<Promise<readonly PermissionPolicy[]>> = Symbol("permission policies");
/** Hooks in the order in which they are called. */
export const HOOKS: InjectionToken<Promise<readonly HookSet[]>> = Symbol("hooks");
/** Undefined without the section `telemetry`. */
export const TELEMETRY: InjectionToken<Promise<Telemetry | undefined>> = Symbol("telemetry");
/** The enabled MCP servers of the config. */
export const MCP_SERVERS: InjectionToken<readonly ConfiguredServer[]> = Symbol("MCP servers");
/** Path rules of the built-in file tools. */
export const FILE_RULES: InjectionToken<Omit<FileToolOptions, "outputsPath">> = Symbol("file rules");
export const FILE_HISTORY: InjectionToken<FileHistory> = Symbol("file history");
export const WORKTREES: InjectionToken<Worktrees> = Symbol("worktrees");
export const AGENT: InjectionToken<Promise<Agent>> = Symbol("agent");
