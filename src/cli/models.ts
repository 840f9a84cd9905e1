import { resolve } from "node:path";
import { ConfigError } from "../ports/errors.js";
import type { ModelEntry } from "../models/models.js";
import { compose } from "../serve/compose.js";
import type { models } from "./descriptions/models.js";
import { loadConfigWithFlags, type CommandHandler } from "./command.js";
import { createCommandLogger } from "./log-writer.js";
import { SIGNAL_EXIT_CODES } from "./signal-exit-codes.js";
import { formatCount, formatTable } from "./table.js";
import { WaitingLine } from "./waiting-line.js";

/** `gantry models [TEXT]`: lists the models of all providers that the config selects. */
export const run: CommandHandler<typeof models.flags> = async ({ args, flags, output, handleInterrupts }) => {
  const [searchText = "", extraArgument] = args;
  if (extraArgument !== undefined)
    throw new ConfigError(`unexpected argument ${extraArgument}; see gantry models --help`);
  const { loadedConfig, home } = await loadConfigWithFlags(flags);
  const waitingLine = new WaitingLine(output);
  // Warnings name the providers that could not list their models.
  const report = (line: string) => waitingLine.report(line);
  const logger = await createCommandLogger(loadedConfig, { columns: output.columns, report });
  const signal = handleInterrupts();
  const { agent, providerNames, stop } = await compose({
    loadedConfig,
    home,
    projectDir: resolve("."),
    logger,
    isProcessLocal: true,
  });
  try {
    waitingLine.show(`requesting models of ${providerNames.join(", ")}`);
    const allModels = await agent.models.list(signal);
    waitingLine.clear();
    const matchingModels = allModels.filter((entry) => nameOf(entry).toLowerCase().includes(searchText.toLowerCase()));
    if (flags.json) await output.write(`${JSON.stringify(matchingModels, null, 2)}\n`);
    else if (matchingModels.length > 0)
      await output.write(formatModels(matchingModels, output.isStdoutTerminal ? output.columns : undefined));
    if (matchingModels.length > 0) return 0;
    output.report(
      allModels.length > 0
        ? `none of ${formatCount(allModels.length)} models has ${JSON.stringify(searchText)} in its name`
        : "no models",
    );
    return 1;
  } catch (error) {
    if (!signal.aborted) throw error;
    return SIGNAL_EXIT_CODES[String(signal.reason)] ?? 1;
  } finally {
    waitingLine.clear();
    await stop();
  }
};

function nameOf({ provider, model }: ModelEntry): string {
  return `${provider}/${model.id}`;
}

function formatModels(entries: readonly ModelEntry[], columns: number | undefined): string {
  const rows = entries.map((entry) => {
    const { contextWindow, maxOutput, prices, reasoning, isAssumed, input = [] } = entry.model;
    const otherInputKinds = input.filter((kind) => kind !== "text");
    return [
      nameOf(entry),
      contextWindow === undefined ? "" : formatCount(contextWindow),
      maxOutput === undefined ? "" : formatCount(maxOutput),
      prices === undefined ? "" : String(prices.input),
      prices === undefined ? "" : String(prices.output),
      [...(reasoning ? ["reasons"] : []), ...otherInputKinds, ...(isAssumed ? ["not listed yet"] : [])].join(", "),
    ];
  });
  return formatTable(["MODEL", "WINDOW", "OUTPUT", "$ IN", "$ OUT", "CAN"], rows, {
    columns,
    rightAlignedColumns: [1, 2, 3, 4],
  });
}
