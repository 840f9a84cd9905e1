import { isRecord } from "../base/json.js";
import { defineAdapter, type AdapterDefinition, type AdapterDescriptor, type AdapterKind } from "../plugin/adapter.js";
import { STRATEGIES } from "../compaction/names.js";
import { AdapterError } from "../ports/errors.js";
import { findDescriptorFault, importModule } from "./third-party.js";

type ModuleLoader = () => Promise<{ default: unknown }>;

/** Built-in adapters by kind and config name. A module is imported when it is selected. */
const BUILT_IN_LOADERS: Readonly<Record<AdapterKind, Readonly<Record<string, ModuleLoader>>>> = {
  transport: {
    "koa-http-api": () => import("../../adapters/koa-http-api/index.js"),
    "web-console": () => import("../../adapters/web-console/index.js"),
    "acp-stdio": () => import("../../adapters/acp-stdio/index.js"),
    "mcp-stdio": () => import("../../adapters/mcp-stdio/index.js"),
    "acp-http-sse-ws": () => import("../../adapters/acp-http-sse-ws/index.js"),
  },
  "session-driver": {
    sqlite: () => import("../../adapters/sqlite-driver/index.js"),
    json: () => import("../../adapters/lowdb-json-driver/index.js"),
    postgres: () => import("../../adapters/postgres-driver/index.js"),
  },
  "model-provider": {
    "language-models": () => import("../../adapters/language-models/index.js"),
    offline: () => import("../../adapters/offline-provider/index.js"),
  },
  tool: {},
  "tool-source": {},
  // Built-in compaction strategies are part of the core.
  "compaction-strategy": {},
  "permission-policy": {},
  hooks: {
    // Selected by its own section, and by `server.webhooks`.
    telemetry: () => import("../../adapters/telemetry/index.js"),
    webhooks: () => import("../../adapters/webhooks/index.js"),
  },
};

export const ADAPTER_KINDS: readonly string[] = Object.keys(BUILT_IN_LOADERS);

/** Names of the built-in adapters of a kind. */
export function listBuiltInNames(kind: AdapterKind): string[] {
  return kind === "compaction-strategy" ? [...STRATEGIES] : Object.keys(BUILT_IN_LOADERS[kind]);
}

/** Returns the built-in names for the error message of an unknown one: for a provider's driver also the wires. */
async function listExpectedNames(kind: AdapterKind): Promise<readonly string[]> {
  return [...(kind === "model-provider" ? (await loadPresets()).WIRES : []), ...listBuiltInNames(kind)];
}

/** Loads the presets and wires of the built-in model providers. */
export function loadPresets() {
  return import("../../adapters/language-models/presets.js");
}

/** Whether the name is a built-in adapter. */
export function isBuiltIn(kind: AdapterKind, name: string): boolean {
  return Object.hasOwn(BUILT_IN_LOADERS[kind], name);
}

/**
 * Loads the descriptor for a name in the config: a built-in name, a package, or a path relative to `folder`.
 *
 * Rejects with `AdapterError`: one line with `errorPrefix`, the module and the reason.
 */
export async function loadAdapter<Kind extends AdapterKind>(
  kind: Kind,
  name: string,
  folder: string,
  errorPrefix: string,
): Promise<AdapterDescriptor<Kind>> {
  const builtInLoader = Object.hasOwn(BUILT_IN_LOADERS[kind], name) ? BUILT_IN_LOADERS[kind][name] : undefined;
  const loadModule =
    builtInLoader ?? (() => importModule(kind, name, folder, errorPrefix, () => listExpectedNames(kind)));
  let loadedModule: { default?: unknown };
  try {
    loadedModule = await loadModule();
  } catch (error) {
    if (error instanceof AdapterError) throw error;
    throw new AdapterError(`${errorPrefix}: ${name} could not be loaded: ${toErrorMessage(error)}`, { cause: error });
  }
  const { default: defaultExport } = loadedModule;
  const fault =
    isDescriptor(defaultExport) && !builtInLoader ? findDescriptorFault(defaultExport, ADAPTER_KINDS) : undefined;
  if (fault !== undefined) throw new AdapterError(`${errorPrefix}: ${name} is not a gantry adapter: ${fault}`);
  const descriptor = isDescriptor(defaultExport)
    ? defineAdapter(defaultExport)
    : await describeSupportedModule(kind, loadedModule, name);
  if (descriptor === undefined) {
    const alternative = kind === "model-provider" ? ", or a provider of the AI SDK" : "";
    throw new AdapterError(
      `${errorPrefix}: ${name} is not a gantry adapter: expected a default export made by defineAdapter${alternative}`,
    );
  }
  // A tool source can replace a tool.
  const hasRequestedKind = descriptor.kind === kind || (kind === "tool" && descriptor.kind === "tool-source");
  if (!hasRequestedKind) throw new AdapterError(`${errorPrefix}: ${name} is a ${descriptor.kind}, expected a ${kind}`);
  return descriptor as AdapterDescriptor<Kind>;
}

/** Loads the implementation of MCP servers. */
export async function loadMcpServers(
  options: ConstructorParameters<(typeof import("../../adapters/mcp-tools/index.js"))["McpServers"]>[0],
) {
  const { McpServers } = await import("../../adapters/mcp-tools/index.js");
  return new McpServers(options);
}

/** Wraps a module that was not written for gantry but is supported, such as a provider of the AI SDK. */
async function describeSupportedModule(
  kind: AdapterKind,
  module: unknown,
  name: string,
): Promise<AdapterDescriptor | undefined> {
  if (kind !== "model-provider") return undefined;
  const { describeAiSdkModule } = await import("../../adapters/language-models/index.js");
  return describeAiSdkModule(module, name) as AdapterDescriptor | undefined;
}

/** Whether a value is marked as a descriptor. Plugins without dependencies set `gantry: 1` themselves. */
export function isDescriptor(value: unknown): value is AdapterDefinition<AdapterKind, unknown> {
  return isRecord(value) && value["gantry"] === 1;
}

function toErrorMessage(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).split("\n")[0] ?? "";
}

/** Reports a failed start to the ACP client on standard input and output. Never rejects. */
export async function refuseOverStdio(reason: string): Promise<void> {
  try {
    const { refuseFirstRequest } = await import("../../adapters/acp-stdio/first-request-refusal.js");
    await refuseFirstRequest(reason, process.stdin, process.stdout);
  } catch {
    // The error is also on standard error.
  }
}
