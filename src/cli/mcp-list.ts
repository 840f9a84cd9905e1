import { resolve } from "node:path";
import { createLogger } from "../base/log.js";
import { childEnvironment } from "../serve/environment.js";
import { ConfigMcpServerFactory, configuredServers } from "../serve/mcp-servers.js";
import type { ToolSource } from "../ports/tool-source.js";
import type { mcpList } from "./about/mcp.js";
import { loadFor, type CommandHandler } from "./command.js";
import { refuseArguments } from "./refuse-arguments.js";
import { SIGNAL_EXIT_CODES } from "./exit-reason.js";
import { cell, table } from "./table.js";
import { WaitingLine } from "./wait-for-turn.js";

/** The listed state of one server. */
interface ListedServer {
  readonly name: string;
  /** `off`: disabled in the config. */
  readonly state: "ready" | "failed" | "off";
  readonly error?: string;
  readonly tools: readonly { readonly name: string; readonly rule: string; readonly description: string }[];
  readonly prompts: readonly { readonly name: string; readonly hint: string; readonly description: string }[];
}

/** Timeout of a start. It is longer than in a run, because the first start can download the server. */
const OPEN_TIMEOUT_MS = 120_000;

/** `gantry mcp list`: starts every configured server as a session in this folder would. */
export const run: CommandHandler<typeof mcpList.flags> = async ({ args, flags, output, interrupted }) => {
  refuseArguments(args);
  const { loaded, home } = await loadFor(flags);
  const { config, secrets } = loaded;
  const waiting = new WaitingLine(output);
  const logger = createLogger({
    level: config.log.level,
    write: (line) => waiting.report(line),
    secrets: () => secrets,
  });
  const signal = interrupted();
  const env = childEnvironment(config.tools.env);
  const { sources } = new ConfigMcpServerFactory(configuredServers(loaded, home), {
    loaded,
    logger,
    env,
    programRejection: undefined,
  });
  waiting.show(`starting ${sources.length} of ${Object.keys(config.mcpServers).length}`);
  const states = await Promise.all(sources.map((source) => openServer(source, resolve("."), signal)));
  waiting.clear();
  if (signal.aborted) return SIGNAL_EXIT_CODES[String(signal.reason)] ?? 1;
  const off = Object.entries(config.mcpServers).filter(([, { enabled }]) => !enabled);
  const all = [...states, ...off.map(([name]): ListedServer => ({ name, state: "off", tools: [], prompts: [] }))];
  all.sort((a, b) => (a.name < b.name ? -1 : 1));
  if (flags.json) await output.write(`${JSON.stringify(all, null, 2)}\n`);
  else if (all.length > 0) await output.write(tableOf(all, output.isShown ? output.columns : undefined));
  else output.report(`${loaded.file}: no mcp_servers configured`);
  for (const { name, error } of all) if (error !== undefined && !flags.json) output.report(cell(`${name}: ${error}`));
  return all.some(({ state }) => state === "failed") ? 1 : 0;
};

/** Never rejects. A failure gives the state `failed`. */
async function openServer(source: ToolSource, projectDir: string, interrupted: AbortSignal): Promise<ListedServer> {
  const name = source.name.replace(/^mcp:/, "");
  const late = AbortSignal.timeout(OPEN_TIMEOUT_MS);
  try {
    const signal = AbortSignal.any([late, interrupted]);
    const { tools, prompts = [], close } = await source.open({ sessionId: "", projectDir }, signal);
    const listed: ListedServer = {
      name,
      state: "ready",
      tools: tools.map(({ name: tool, origin = "", description }) => ({
        name: tool,
        rule: ruleOf(origin),
        description,
      })),
      prompts: prompts.map(({ name: prompt, hint, description }) => ({ name: prompt, hint, description })),
    };
    await close();
    return listed;
  } catch (error) {
    const why = late.aborted
      ? `the server did not start within ${OPEN_TIMEOUT_MS / 1000} s`
      : String((error as Error).message);
    return { name, state: "failed", error: why, tools: [], prompts: [] };
  }
}

/** Returns the rule that matches a tool of this origin. Invisible characters are replaced with the wildcard `?`. */
function ruleOf(origin: string): string {
  return origin.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, (hidden) => "?".repeat(hidden.length));
}

function tableOf(all: readonly ListedServer[], columns: number | undefined): string {
  const rows = all.map(({ name, state, tools, prompts }) => [
    name,
    state,
    state === "ready" ? String(tools.length) : "",
    state === "ready" ? String(prompts.length) : "",
    tools.map((tool) => tool.name).join(" "),
  ]);
  return table(["SERVER", "STATE", "TOOLS", "PROMPTS", "NAMES"], rows, { columns, right: [2, 3] });
}
