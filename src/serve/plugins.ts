import { access } from "node:fs/promises";
import { resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import {
  defineAdapter,
  type AdapterDefinition,
  type AdapterDescriptor,
  type AdapterKind,
  type AdapterKinds,
} from "../plugin/adapter.js";
import { STRATEGIES } from "../compaction/names.js";
import { AdapterError } from "../ports/errors.js";

type Load = () => Promise<{ default: unknown }>;

/** What ships with gantry, by kind and by the names that config knows. Nothing is imported before it is chosen. */
const BUILT_IN: Readonly<Record<AdapterKind, Readonly<Record<string, Load>>>> = {
  transport: {
    "koa-http-api": () => import("../../adapters/koa-http-api/index.js"),
    "acp-stdio": () => import("../../adapters/acp-stdio/index.js"),
    "acp-http-sse-ws": () => import("../../adapters/acp-http-sse-ws/index.js"),
  },
  "session-driver": {
    sqlite: () => import("../../adapters/sqlite-driver/index.js"),
    json: () => import("../../adapters/lowdb-json-driver/index.js"),
  },
  "model-provider": {
    "ai-sdk": () => import("../../adapters/ai-sdk-provider/index.js"),
    offline: () => import("../../adapters/offline-provider/index.js"),
  },
  tool: {},
  "tool-source": {},
  // The built-in ones are the kernel's own.
  "compaction-strategy": {},
  "permission-policy": {},
};

/** Names that config may use for a kind, without modules of strangers. */
export function builtInNames(kind: AdapterKind): string[] {
  return kind === "compaction-strategy" ? [...STRATEGIES] : Object.keys(BUILT_IN[kind]);
}

/** Whether a name means what ships with gantry, and no module of a stranger. */
export function isBuiltIn(kind: AdapterKind, name: string): boolean {
  return Object.hasOwn(BUILT_IN[kind], name);
}

/** The built-in tools are the kernel's own; they are loaded only to be named. */
async function toolNames(): Promise<string[]> {
  const { builtinTools } = await import("../tools/all.js");
  return ["*", ...builtinTools().map(({ name }) => name)];
}

/** Members that a port says are always there. */
type Needed<Port> = { [Name in keyof Port]-?: object extends Pick<Port, Name> ? never : Name }[keyof Port];

/** What each kind must have: fields by their type, so that plain JavaScript is checked too. */
const MEMBERS: {
  readonly [Kind in AdapterKind]: Readonly<
    Record<Needed<AdapterKinds[Kind]>, "string" | "number" | "boolean" | "function" | "object">
  >;
} = {
  transport: { name: "string", start: "function" },
  "session-driver": {
    name: "string",
    notifier: "object",
    open: "function",
    close: "function",
    create: "function",
    get: "function",
    newest: "function",
    list: "function",
    messages: "function",
    head: "function",
    snapshots: "function",
    runs: "function",
    run: "function",
    asks: "function",
    ask: "function",
    answer: "function",
    instruct: "function",
    instructions: "function",
    withdraw: "function",
    forgetKeys: "function",
    write: "function",
    delete: "function",
    lease: "function",
    release: "function",
    dump: "function",
    load: "function",
  },
  "model-provider": {
    name: "string",
    idleTimeoutMs: "number",
    maxRetries: "number",
    maxWaitMs: "number",
    known: "object",
    models: "function",
    stream: "function",
    close: "function",
  },
  tool: {
    name: "string",
    description: "string",
    inputSchema: "object",
    kind: "string",
    parallel: "boolean",
    needsPermission: "boolean",
    parse: "function",
    describe: "function",
    run: "function",
  },
  "tool-source": { name: "string", open: "function" },
  "compaction-strategy": { name: "string", compact: "function" },
  "permission-policy": { name: "string", judge: "function" },
};

/** Members of the kind's port that a part lacks, or has of another type. */
export function missingMembers(kind: AdapterKind, part: object): string[] {
  const members = part as Readonly<Record<string, unknown>>;
  return Object.entries<string>(MEMBERS[kind]).flatMap(([name, type]) => (typeof members[name] === type ? [] : [name]));
}

/**
 * The descriptor that a name in the config means: a built-in name, a package, or a path relative to `folder`.
 * Rejects with `AdapterError`: one line that begins with `where` and says what was wrong with which module.
 */
export async function loadAdapter<Kind extends AdapterKind>(
  kind: Kind,
  name: string,
  folder: string,
  where: string,
): Promise<AdapterDescriptor<Kind>> {
  const builtIn = Object.hasOwn(BUILT_IN[kind], name) ? BUILT_IN[kind][name] : undefined;
  const load = builtIn ?? (() => importModule(kind, name, folder, where));
  let loaded: { default?: unknown };
  try {
    loaded = await load();
  } catch (error) {
    if (error instanceof AdapterError) throw error;
    throw new AdapterError(`${where}: ${name} could not be loaded: ${message(error)}`, { cause: error });
  }
  const descriptor = isDescriptor(loaded.default) ? defineAdapter(loaded.default) : await foreign(kind, loaded, name);
  if (descriptor === undefined) {
    const others = kind === "model-provider" ? ", or a provider of the AI SDK" : "";
    throw new AdapterError(
      `${where}: ${name} is no gantry adapter: expected a default export made by defineAdapter${others}`,
    );
  }
  // Where a tool may stand, a source of tools may.
  const fits = descriptor.kind === kind || (kind === "tool" && descriptor.kind === "tool-source");
  if (!fits) throw new AdapterError(`${where}: ${name} is a ${descriptor.kind}, expected a ${kind}`);
  return descriptor as AdapterDescriptor<Kind>;
}

/** Modules that were not made for gantry, but that one of its adapters knows how to use. */
async function foreign(kind: AdapterKind, module: unknown, name: string): Promise<AdapterDescriptor | undefined> {
  if (kind !== "model-provider") return undefined;
  const { describeAiSdkModule } = await import("../../adapters/ai-sdk-provider/index.js");
  return describeAiSdkModule(module, name) as AdapterDescriptor | undefined;
}

async function importModule(
  kind: AdapterKind,
  name: string,
  folder: string,
  where: string,
): Promise<{ default?: unknown }> {
  const url = await locate(kind, name, folder, where);
  await lendOurselves();
  return (await import(url)) as { default?: unknown };
}

let lending: Promise<void> | undefined;

/**
 * A plugin of one file beside the config finds no package `gantry` there when gantry is installed globally: what its own
 * folders do not have is then taken from the copy that runs.
 */
function lendOurselves(): Promise<void> {
  return (lending ??= (async () => {
    const { register } = await import("node:module");
    // It runs in a thread of its own, which takes it as text.
    const hooks = `export async function resolve(specifier, context, next) {
      try {
        return await next(specifier, context);
      } catch (error) {
        if (!/^gantry(\\/|$)/.test(specifier) || error.code !== "ERR_MODULE_NOT_FOUND") throw error;
        return next(specifier, { ...context, parentURL: ${JSON.stringify(import.meta.url)} });
      }
    }`;
    register(`data:text/javascript,${encodeURIComponent(hooks)}`);
  })());
}

/** Whether a module's name is a path, and no package. */
export function isPath(name: string): boolean {
  return /^(\.{0,2}[\\/]|file:|[A-Za-z]:[\\/])/.test(name);
}

/** The module's URL; from the config's folder, so that plugins are installed beside it. */
async function locate(kind: AdapterKind, name: string, folder: string, where: string): Promise<string> {
  if (isPath(name)) {
    const path = name.startsWith("file:") ? fileURLToPath(name) : resolve(folder, name);
    if (
      await access(path).then(
        () => true,
        () => false,
      )
    )
      return pathToFileURL(path).href;
    throw new AdapterError(`${where}: there is no file ${path}`);
  }
  const { resolve: find } = await import("import-meta-resolve");
  try {
    return find(name, pathToFileURL(resolve(folder, "config.json")).href);
  } catch (error) {
    const names = kind === "tool" ? await toolNames() : builtInNames(kind);
    throw new AdapterError(
      `${where}: unknown ${kind} ${name}: expected ${names.map((one) => `${one}, `).join("")}a package installed beside the config file, or a path`,
      { cause: error },
    );
  }
}

/** Made by `defineAdapter` or not: a plugin without dependencies says `gantry: 1` itself. */
function isDescriptor(value: unknown): value is AdapterDefinition<AdapterKind, unknown> {
  if (typeof value !== "object" || value === null) return false;
  const { gantry, kind, name, create, use } = value as Record<string, unknown>;
  return (
    gantry === 1 &&
    typeof kind === "string" &&
    typeof name === "string" &&
    (typeof create === "function" || typeof use === "function")
  );
}

function message(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).split("\n")[0] ?? "";
}

/** Tell the client on standard input and output, in its protocol, why there is no server. Never rejects. */
export async function refuseOverStdio(why: string): Promise<void> {
  try {
    const { refuseFirst } = await import("../../adapters/acp-stdio/refuse-first.js");
    await refuseFirst(why, process.stdin, process.stdout);
  } catch {
    // Standard error has it as well.
  }
}
