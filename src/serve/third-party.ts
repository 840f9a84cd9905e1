import { access } from "node:fs/promises";
import { resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import type { AdapterKind } from "../plugin/adapter.js";
import { AdapterError } from "../ports/errors.js";
import { shown } from "../plugin/read-options.js";
import { isPath } from "./module-name.js";

/** Optional fields of a descriptor, and what each must be. */
const FIELDS: Readonly<Record<string, { readonly expected: string; fits(value: unknown): boolean }>> = {
  schema: { expected: "a Standard Schema, as option.section, zod and valibot make", fits: isSchema },
  parse: { expected: "a function", fits: isFunction },
  create: { expected: "a function", fits: isFunction },
  use: { expected: "a class", fits: isFunction },
  needs: { expected: "a list of tokens", fits: Array.isArray },
};

/** The fault of a descriptor; undefined if it has none. */
export function descriptorFault(descriptor: object, kinds: readonly string[]): string | undefined {
  const fields = descriptor as Readonly<Record<string, unknown>>;
  const { kind, name, create, use } = fields;
  if (!kinds.includes(kind as string)) return `kind: expected one of ${kinds.join(", ")}, got ${shown(kind)}`;
  if (typeof name !== "string") return `name: expected a string, got ${shown(name)}`;
  if (create === undefined && use === undefined) return "expected create or use";
  for (const [field, { expected, fits }] of Object.entries(FIELDS))
    if (fields[field] !== undefined && !fits(fields[field]))
      return `${field}: expected ${expected}, got ${shown(fields[field])}`;
  return undefined;
}

function isFunction(value: unknown): boolean {
  return typeof value === "function";
}

function isSchema(value: unknown): boolean {
  const standard = (value as { "~standard"?: { validate?: unknown } } | null)?.["~standard"];
  return typeof standard?.validate === "function";
}

/** A stranger's module; `names`: the built-in ones of its kind. Rejects with `AdapterError`, or with what it throws itself. */
export async function importModule(
  kind: AdapterKind,
  name: string,
  folder: string,
  where: string,
  names: readonly string[],
): Promise<{ default?: unknown }> {
  return importLent(await locate(kind, name, folder, where, names));
}

/** Import a module of a third party, which finds this copy of gantry if it has none of its own. */
export async function importLent(url: string): Promise<Readonly<Record<string, unknown>>> {
  await lendOurselves();
  return (await import(url)) as Readonly<Record<string, unknown>>;
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

/** The built-in tools are the kernel's own; they are loaded only to be named. */
async function toolNames(): Promise<string[]> {
  const { builtinTools } = await import("../tools/all.js");
  return ["*", ...builtinTools().map(({ name }) => name)];
}
