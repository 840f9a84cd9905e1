import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { ProviderError } from "gantry";

/**
 * Imports a package that only some presets need. The package is installed beside gantry or in `configDir`, the folder
 * of the config file. Rejects with `ProviderError`, whose message names the command that installs the package.
 */
export async function importOptionalPackage<Module>(
  specifier: string,
  installName: string,
  provider: string,
  configDir: string | undefined,
): Promise<Module> {
  const { resolve } = await import("import-meta-resolve");
  const bases = [import.meta.url, ...(configDir === undefined ? [] : [pathToFileURL(join(configDir, "x")).href])];
  for (const base of bases) {
    let url: string;
    try {
      url = resolve(specifier, base);
    } catch {
      continue;
    }
    return (await import(url)) as Module;
  }
  const folder = configDir ?? "the folder of gantry";
  throw new ProviderError(
    provider,
    "protocol",
    `this provider needs a package: run "npm install ${installName}" in ${folder}`,
  );
}
