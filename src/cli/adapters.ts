import { resolve } from "node:path";
import type { AdapterKind } from "../plugin/adapter.js";
import { listBuiltInNames, isBuiltIn, loadAdapter } from "../serve/plugins.js";
import { parseOptions } from "../serve/parse-options.js";
import { Selection, type SelectedAdapter } from "../serve/selected-adapters.js";
import { builtinTools } from "../tools/builtin-tools.js";
import type { adapters } from "./descriptions/adapters.js";
import { loadConfigWithFlags, type CommandHandler } from "./command.js";
import { refuseArguments } from "./refuse-arguments.js";

/** An adapter in the output of `gantry adapters`. */
export interface AdapterEntry {
  kind: AdapterKind;
  /** Name as in the config. */
  name: string;
  builtIn: boolean;
  /** Config keys that select the adapter; empty if the config does not select the adapter. */
  selectedBy: string[];
  /** Reason why a selected adapter cannot be used; undefined if it can be used or is not selected. */
  error?: string;
}

const KIND_TITLES: Readonly<Record<AdapterKind, string>> = {
  transport: "Transports (server.transports, --transport)",
  "session-driver": "Session drivers (session.driver, --session-driver)",
  "model-provider": "Model providers (providers[])",
  tool: "Tools (agent.tools)",
  "tool-source": "Tool sources (agent.tools)",
  "permission-policy": "Permission policies (permissions.policies)",
  hooks: "Hooks (hooks)",
  "compaction-strategy": "Compaction strategies (compaction.strategy)",
};

/**
 * `gantry adapters`: lists the available adapters and the config's selection. Selected modules are loaded and their
 * options checked, but nothing is started.
 */
export const run: CommandHandler<typeof adapters.flags> = async ({ args, flags, output }) => {
  refuseArguments(args);
  const { loadedConfig, home } = await loadConfigWithFlags(flags);
  const entries = await listAdapters(new Selection(loadedConfig, home), async (selected) => {
    const errorPrefix = `${loadedConfig.file}: ${selected.key}`;
    const descriptor = await loadAdapter(selected.kind, selected.name, loadedConfig.folder, errorPrefix);
    parseOptions(selected, descriptor, {
      location: `${loadedConfig.file}: ${selected.section}`,
      configDir: loadedConfig.folder,
      home,
      projectDir: resolve("."),
    });
    return descriptor.kind;
  });
  await output.write(flags.json ? `${JSON.stringify(entries, null, 2)}\n` : formatEntries(entries));
  return entries.some(({ error }) => error !== undefined) ? 1 : 0;
};

/**
 * Returns all built-in adapters and all adapters that the config selects. `checkAdapter` resolves with the kind, or
 * rejects if the adapter cannot be used.
 */
async function listAdapters(
  selection: Selection,
  checkAdapter: (selected: SelectedAdapter) => Promise<AdapterKind>,
): Promise<AdapterEntry[]> {
  const toolNames = builtinTools().map(({ name }) => name);
  const entries: AdapterEntry[] = (Object.keys(KIND_TITLES) as AdapterKind[]).flatMap((kind) => {
    const names = kind === "tool" ? toolNames : listBuiltInNames(kind);
    return names.map((name) => ({ kind, name, builtIn: true, selectedBy: [] }));
  });
  const addSelection = (kind: AdapterKind, name: string, key: string, error?: string): void => {
    let entry = entries.find((candidate) => candidate.kind === kind && candidate.name === name);
    if (!entry) entries.push((entry = { kind, name, builtIn: isBuiltIn(kind, name), selectedBy: [] }));
    if (!entry.selectedBy.includes(key)) entry.selectedBy.push(key);
    if (error !== undefined) entry.error = error;
  };
  const selectedModules = [
    ...selection.transports(),
    selection.driver(),
    ...(await selection.providers()),
    ...selection.tools(toolNames),
    ...selection.policies(),
    ...selection.hooks(),
    ...[selection.telemetry() ?? []].flat(),
    selection.strategy(),
  ];
  for (const [i, module] of selectedModules.entries()) {
    if (typeof module === "string") {
      const isStrategy = i === selectedModules.length - 1;
      addSelection(
        isStrategy ? "compaction-strategy" : "tool",
        module,
        isStrategy ? "compaction.strategy" : "agent.tools",
      );
      continue;
    }
    try {
      addSelection(await checkAdapter(module), module.name, module.key);
    } catch (error) {
      addSelection(module.kind, module.name, module.key, error instanceof Error ? error.message : String(error));
    }
  }
  return entries;
}

function formatEntries(entries: readonly AdapterEntry[]): string {
  const width = Math.max(...entries.map(({ name }) => name.length));
  return (Object.keys(KIND_TITLES) as AdapterKind[])
    .filter((kind) => entries.some((entry) => entry.kind === kind))
    .map((kind) => {
      const rows = entries
        .filter((entry) => entry.kind === kind)
        .map(({ name, selectedBy, error }) => {
          const selectionText = selectedBy.length > 0 ? `selected by ${selectedBy.join(", ")}` : "";
          const errorText = error === undefined ? "" : `\n      cannot be used: ${error}`;
          return `  ${selectedBy.length > 0 ? "*" : " "} ${name.padEnd(width)}  ${selectionText}`.trimEnd() + errorText;
        });
      return `${KIND_TITLES[kind]}\n${rows.join("\n")}\n`;
    })
    .join("\n");
}
