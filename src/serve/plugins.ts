import { isRecord } from "../base/json.js";
import { defineAdapter, type AdapterDefinition, type AdapterDescriptor, type AdapterKind } from "../plugin/adapter.js";
import { STRATEGIES } from "../compaction/names.js";
import { AdapterError } from "../ports/errors.js";
import { descriptorFault, importModule } from "./third-party.js";

type Load = () => Promise<{ default: unknown }>;

/** Built-in adapters by kind and config name. A module is imported when it is selected. */
const BUILT_IN: Readonly<Record<AdapterKind, Readonly<Record<string, Load>>>> = {
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
  hooks: {},
};

export const KINDS: readonly string[] = Object.keys(BUILT_IN);

/** Names of the built-in adapters of a kind. */
export function builtInNames(kind: AdapterKind): string[] {
  return kind === "compaction-strategy" ? [...STRATEGIES] : Object.keys(BUILT_IN[kind]);
}

/** Whether the name is a built-in adapter. */
export function isBuiltIn(kind: AdapterKind, name: string): boolean {
  return Object.hasOwn(BUILT_IN[kind], name);
}

/**
 * Loads the descriptor for a name in the config: a built-in name, a package, or a path relative to `folder`.
 *
 * Rejects with `AdapterError`: one line with `where`, the module and the reason.
 */
export async function loadAdapter<Kind extends AdapterKind>(
  kind: Kind,
  name: string,
  folder: string,
  where: string,
): Promise<AdapterDescriptor<Kind>> {
  const builtIn = Object.hasOwn(BUILT_IN[kind], name) ? BUILT_IN[kind][name] : undefined;
  const load = builtIn ?? (() => importModule(kind, name, folder, where, builtInNames(kind)));
  let loaded: { default?: unknown };
  try {
    loaded = await load();
  } catch (error) {
    if (error instanceof AdapterError) throw error;
    throw new AdapterError(`${where}: ${name} could not be loaded: ${message(error)}`, { cause: error });
  }
  const { default: exported } = loaded;
  const fault = isDescriptor(exported) && !builtIn ? descriptorFault(exported, KINDS) : undefined;
  if (fault !== undefined) throw new AdapterError(`${where}: ${name} is not a gantry adapter: ${fault}`);
  const descriptor = isDescriptor(exported) ? defineAdapter(exported) : await foreign(kind, loaded, name);
  if (descriptor === undefined) {
    const alternative = kind === "model-provider" ? ", or a provider of the AI SDK" : "";
    throw new AdapterError(
      `${where}: ${name} is not a gantry adapter: expected a default export made by defineAdapter${alternative}`,
    );
  }
  // A tool source can replace a tool.
  const fits = descriptor.kind === kind || (kind === "tool" && descriptor.kind === "tool-source");
  if (!fits) throw new AdapterError(`${where}: ${name} is a ${descriptor.kind}, expected a ${kind}`);
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
async function foreign(kind: AdapterKind, module: unknown, name: string): Promise<AdapterDescriptor | undefined> {
  if (kind !== "model-provider") return undefined;
  const { describeAiSdkModule } = await import("../../adapters/language-models/index.js");
  return describeAiSdkModule(module, name) as AdapterDescriptor | undefined;
}

/** Whether a value is marked as a descriptor. Plugins without dependencies set `gantry: 1` themselves. */
export function isDescriptor(value: unknown): value is AdapterDefinition<AdapterKind, unknown> {
  return isRecord(value) && value["gantry"] === 1;
}

function message(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).split("\n")[0] ?? "";
}

/** Reports a failed start to the ACP client on standard input and output. Never rejects. */
export async function refuseOverStdio(why: string): Promise<void> {
  try {
    const { refuseFirstRequest } = await import("../../adapters/acp-stdio/refuse-first.js");
    await refuseFirstRequest(why, process.stdin, process.stdout);
  } catch {
    // The error is also on standard error.
  }
}
