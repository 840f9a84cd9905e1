import { access } from "node:fs/promises";
import { resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import type { AdapterKind } from "../plugin/adapter.js";
import { AdapterError } from "../ports/errors.js";
import { formatValue } from "../plugin/read-options.js";
import { isModulePath } from "./module-name.js";

/** Optional fields of a descriptor, with their types. */
const OPTIONAL_FIELDS: Readonly<Record<string, { readonly expected: string; fits(value: unknown): boolean }>> = {
  schema: { expected: "a Standard Schema, as option.section, zod and valibot make", fits: isSchema },
  parse: { expected: "a function", fits: isFunction },
  create: { expected: "a function", fits: isFunction },
  useClass: { expected: "a class", fits: isFunction },
  inject: { expected: "a list of tokens", fits: Array.isArray },
};

/** Returns why a descriptor is invalid, or undefined if it is valid. */
export function findDescriptorFault(descriptor: object, kinds: readonly string[]): string | undefined {
  const fields = descriptor as Readonly<Record<string, unknown>>;
  const { kind, name, create, useClass } = fields;
  if (!kinds.includes(kind as string)) return `kind: expected one of ${kinds.join(", ")}, got ${formatValue(kind)}`;
  if (typeof name !== "string") return `name: expected a string, got ${formatValue(name)}`;
  if (create === undefined && useClass === undefined) return "expected create or useClass";
  for (const [field, { expected, fits }] of Object.entries(OPTIONAL_FIELDS))
    if (fields[field] !== undefined && !fits(fields[field]))
      return `${field}: expected ${expected}, got ${formatValue(fields[field])}`;
  return undefined;
}

function isFunction(value: unknown): boolean {
  return typeof value === "function";
}

function isSchema(value: unknown): boolean {
  const standard = (value as { "~standard"?: { validate?: unknown } } | null)?.["~standard"];
  return typeof standard?.validate === "function";
}

/**
 * Imports a third-party module. `builtInNames` are listed in the error. Rejects with `AdapterError` if the module is
 * not found, or with the module's own error.
 */
export async function importModule(
  kind: AdapterKind,
  name: string,
  folder: string,
  errorPrefix: string,
  listNames: () => Promise<readonly string[]>,
): Promise<{ default?: unknown }> {
  return importWithGantry(await resolveModuleUrl(kind, name, folder, errorPrefix, listNames));
}

/** Imports a third-party module. If the module finds no installed package `gantry`, this copy is used. */
export async function importWithGantry(url: string): Promise<Readonly<Record<string, unknown>>> {
  await registerGantryResolution();
  return (await import(url)) as Readonly<Record<string, unknown>>;
}

let registrationPromise: Promise<void> | undefined;

/**
 * Resolves `gantry` to this copy where a plugin's own folders do not contain it. With a global installation, a
 * single-file plugin has no `gantry` package.
 */
function registerGantryResolution(): Promise<void> {
  return (registrationPromise ??= (async () => {
    const { register } = await import("node:module");
    // Module hooks run in a separate thread and are passed as source text.
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

/** Returns the module's URL. The base is the config's folder, because plugins are installed there. */
async function resolveModuleUrl(
  kind: AdapterKind,
  name: string,
  folder: string,
  errorPrefix: string,
  listNames: () => Promise<readonly string[]>,
): Promise<string> {
  if (isModulePath(name)) {
    const path = name.startsWith("file:") ? fileURLToPath(name) : resolve(folder, name);
    if (
      await access(path).then(
        () => true,
        () => false,
      )
    )
      return pathToFileURL(path).href;
    throw new AdapterError(`${errorPrefix}: file not found: ${path}`);
  }
  const { resolve: resolveSpecifier } = await import("import-meta-resolve");
  try {
    return resolveSpecifier(name, pathToFileURL(resolve(folder, "config.json")).href);
  } catch (error) {
    const expectedNames = kind === "tool" ? await listToolNames() : await listNames();
    throw new AdapterError(
      `${errorPrefix}: unknown ${kind} ${name}: expected ${expectedNames.map((candidate) => `${candidate}, `).join("")}a package installed in the config file's folder, or a path`,
      { cause: error },
    );
  }
}

/** Returns the names of the built-in tools. Their modules are loaded only for this error message. */
async function listToolNames(): Promise<string[]> {
  const { builtinTools } = await import("../tools/builtin-tools.js");
  return ["*", ...builtinTools().map(({ name }) => name)];
}
