import { settlesWithin } from "../../base/abort.js";
import type { AdapterKind } from "../../plugin/adapter.js";
import { isModulePath } from "../../serve/module-name.js";
import { parseOptions } from "../../serve/parse-options.js";
import { isBuiltIn, loadAdapter } from "../../serve/plugins.js";
import { Selection, type SelectedAdapter } from "../../serve/selected-adapters.js";
import { TOOL_NAMES } from "../../tools/names.js";
import { AdapterBench, createChecks } from "../check-kits.js";
import {
  createError,
  createOk,
  createSkipped,
  toReason,
  type DoctorCheck,
  type DoctorContext,
  type Finding,
} from "./finding.js";

/** Kinds whose conformance checks reach no store, no port and no provider. */
const CHECKED_KINDS: ReadonlySet<AdapterKind> = new Set(["tool", "compaction-strategy", "hooks"]);
const CHECK_TIMEOUT_MS = 2_000;

/** Loads the modules that the config selects, and runs their conformance checks. */
export const pluginCheck: DoctorCheck = {
  group: "Plugins",
  run: async (context) => {
    const selection = new Selection(context.loadedConfig, context.home);
    const selectedModules = [
      selection.driver(),
      selection.strategy(),
      ...selection.transports(),
      ...(await selection.providers()),
      ...selection.tools(TOOL_NAMES),
      ...selection.policies(),
      ...selection.hooks(),
    ].filter((module): module is SelectedAdapter => typeof module !== "string" && !isBuiltIn(module.kind, module.name));
    if (selectedModules.length === 0) return [createSkipped("plugin.load", "no plugins are configured", "")];
    return Promise.all(selectedModules.map((module) => checkModule(module, context)));
  },
};

async function checkModule(selected: SelectedAdapter, context: DoctorContext): Promise<Finding> {
  const { loadedConfig, home, projectDir } = context;
  const { kind, name, key, section } = selected;
  try {
    const { file, folder } = loadedConfig;
    const descriptor = await loadAdapter(kind, name, folder, `${file}: ${key}`);
    const options = { location: `${file}: ${section}`, configDir: folder, home, projectDir };
    parseOptions(selected, descriptor, options);
    const faults = CHECKED_KINDS.has(descriptor.kind) ? await runKit(selected, descriptor) : [];
    if (faults.length === 0) return createOk("plugin.load", `${name} is loaded`);
    return createError(
      "plugin.check",
      `the plugin ${name} fails its checks`,
      faults.slice(0, 3).join("; "),
      `gantry check ${name} lists all checks; correct the plugin or update it`,
    );
  } catch (error) {
    const reason = loadedConfig.redactMessage(toReason(error));
    if (kind === "tool" && !isModulePath(name) && /^[a-z_]+$/.test(name))
      return createError(
        "tools.unknown",
        `there is no tool ${name}`,
        reason,
        `correct ${key}; gantry adapters lists the tools`,
      );
    return createError(
      "plugin.load",
      `the plugin ${name} cannot be used`,
      reason,
      `install or correct the module that ${key} names; gantry adapters shows the reason too`,
    );
  }
}

/** Returns the faults that the conformance checks find. Checks that need a fixture are left out. */
async function runKit(
  { name, key, options }: SelectedAdapter,
  descriptor: Awaited<ReturnType<typeof loadAdapter>>,
): Promise<string[]> {
  const tested = { descriptor, module: name, exportName: key, options };
  const bench = new AdapterBench(tested);
  const faults: string[] = [];
  try {
    for (const { name: checkName, run } of createChecks(descriptor.kind, bench, { timeoutMs: CHECK_TIMEOUT_MS }) ??
      []) {
      const check = run().catch((error: unknown) => {
        if (!/--fixture/.test(toReason(error))) faults.push(`${checkName}: ${toReason(error)}`);
      });
      if (!(await settlesWithin(check, CHECK_TIMEOUT_MS))) faults.push(`${checkName}: did not end`);
      await bench.clean();
    }
  } finally {
    await bench.clean();
  }
  return faults;
}
