import { resolve } from "node:path";
import { createLogger } from "../base/log.js";
import { ConfigError } from "../ports/errors.js";
import type { ModelEntry } from "../models/models.js";
import { compose } from "../serve/compose.js";
import type { models } from "./about/models.js";
import { loadFor, type CommandHandler } from "./command.js";
import { SIGNAL_EXIT_CODES } from "./exit-reason.js";
import { formatCount, table } from "./table.js";
import { WaitingLine } from "./wait-for-turn.js";

/** `gantry models [TEXT]`: lists the models of all providers that the config selects. */
export const run: CommandHandler<typeof models.flags> = async ({ args, flags, output, interrupted }) => {
  const [text = "", another] = args;
  if (another !== undefined) throw new ConfigError(`unexpected argument ${another}; see gantry models --help`);
  const { loaded, home } = await loadFor(flags);
  const { config, secrets } = loaded;
  const waiting = new WaitingLine(output);
  const logger = createLogger({
    // Warnings are shown: they name the providers whose list failed.
    level: config.log.level,
    write: (line) => waiting.report(line),
    secrets: () => secrets,
  });
  const signal = interrupted();
  const { agent, providers, stop } = await compose({ loaded, home, projectDir: resolve("."), logger, alone: true });
  try {
    waiting.show(`asking ${providers.join(", ")}`);
    const all = await agent.models.list(signal);
    waiting.clear();
    const matches = all.filter((entry) => nameOf(entry).toLowerCase().includes(text.toLowerCase()));
    if (flags.json) await output.write(`${JSON.stringify(matches, null, 2)}\n`);
    else if (matches.length > 0) await output.write(tableOf(matches, output.isShown ? output.columns : undefined));
    if (matches.length > 0) return 0;
    output.report(
      all.length > 0
        ? `none of ${formatCount(all.length)} models has ${JSON.stringify(text)} in its name`
        : "no models",
    );
    return 1;
  } catch (error) {
    if (!signal.aborted) throw error;
    return SIGNAL_EXIT_CODES[String(signal.reason)] ?? 1;
  } finally {
    waiting.clear();
    await stop();
  }
};

function nameOf({ provider, model }: ModelEntry): string {
  return `${provider}/${model.id}`;
}

function tableOf(entries: readonly ModelEntry[], columns: number | undefined): string {
  const rows = entries.map((entry) => {
    const { contextWindow, maxOutput, prices, reasoning, isAssumed, input = [] } = entry.model;
    const takes = input.filter((kind) => kind !== "text");
    return [
      nameOf(entry),
      contextWindow === undefined ? "" : formatCount(contextWindow),
      maxOutput === undefined ? "" : formatCount(maxOutput),
      prices === undefined ? "" : String(prices.input),
      prices === undefined ? "" : String(prices.output),
      [...(reasoning ? ["reasons"] : []), ...takes, ...(isAssumed ? ["not listed yet"] : [])].join(", "),
    ];
  });
  return table(["MODEL", "WINDOW", "OUTPUT", "$ IN", "$ OUT", "CAN"], rows, { columns, right: [1, 2, 3, 4] });
}
