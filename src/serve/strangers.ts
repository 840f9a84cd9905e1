import { access } from "node:fs/promises";
import { resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import type { AdapterDescriptor, AdapterKind, AdapterKinds } from "../plugin/adapter.js";
import { AdapterError } from "../ports/errors.js";
import { isPath } from "./module-name.js";

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

/** A stranger's module; `names`: the built-in ones of its kind. Rejects with `AdapterError`, or with what it throws itself. */
export async function importModule(
  kind: AdapterKind,
  name: string,
  folder: string,
  where: string,
  names: readonly string[],
): Promise<{ default?: unknown }> {
  const url = await locate(kind, name, folder, where, names);
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

/** The module's URL; from the config's folder, so that plugins are installed beside it. */
async function locate(
  kind: AdapterKind,
  name: string,
  folder: string,
  where: string,
  names: readonly string[],
): Promise<string> {
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
    const known = kind === "tool" ? await toolNames() : names;
    throw new AdapterError(
      `${where}: unknown ${kind} ${name}: expected ${known.map((one) => `${one}, `).join("")}a package installed beside the config file, or a path`,
      { cause: error },
    );
  }
}

/** Modules that were not made for gantry, but that one of its adapters knows how to use. */
export async function foreign(
  kind: AdapterKind,
  module: unknown,
  name: string,
): Promise<AdapterDescriptor | undefined> {
  if (kind !== "model-provider") return undefined;
  const { describeAiSdkModule } = await import("../../adapters/ai-sdk-provider/index.js");
  return describeAiSdkModule(module, name) as AdapterDescriptor | undefined;
}

/** The built-in tools are the kernel's own; they are loaded only to be named. */
async function toolNames(): Promise<string[]> {
  const { builtinTools } = await import("../tools/all.js");
  return ["*", ...builtinTools().map(({ name }) => name)];
}
