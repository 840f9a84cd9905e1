import { resolve } from "node:path";
import { createDeadline } from "../base/abort.js";
import { createChildEnvironment } from "../serve/environment.js";
import { ConfigMcpServerFactory, getConfiguredServers } from "../serve/mcp-servers.js";
import type { ToolSource } from "../ports/tool-source.js";
import type { mcpList } from "./descriptions/mcp.js";
import { loadConfigWithFlags, type CommandHandler } from "./command.js";
import { createCommandLogger } from "./log-writer.js";
import { refuseArguments } from "./refuse-arguments.js";
import { SIGNAL_EXIT_CODES } from "./signal-exit-codes.js";
import { formatCell, formatTable } from "./table.js";
import { WaitingLine } from "./waiting-line.js";

/** A server in the output of `gantry mcp list`. */
interface ListedServer {
  readonly name: string;
  /** `off`: disabled in the config. */
  readonly state: "ready" | "failed" | "off";
  readonly error?: string;
  readonly tools: readonly { readonly name: string; readonly rule: string; readonly description: string }[];
  readonly prompts: readonly { readonly name: string; readonly hint: string; readonly description: string }[];
}

/** Start timeout. Longer than in a run, because the first start may download the server. */
const OPEN_TIMEOUT_MS = 120_000;

/** `gantry mcp list`: starts every configured server as a session in this folder would. */
export const run: CommandHandler<typeof mcpList.flags> = async ({ args, flags, output, handleInterrupts }) => {
  refuseArguments(args);
  const { loadedConfig, home } = await loadConfigWithFlags(flags);
  const { config } = loadedConfig;
  const waitingLine = new WaitingLine(output);
  const report = (line: string) => waitingLine.report(line);
  const logger = await createCommandLogger(loadedConfig, { columns: output.columns, report });
  const signal = handleInterrupts();
  const env = createChildEnvironment(config.tools.env);
  const { sources } = new ConfigMcpServerFactory(getConfiguredServers(loadedConfig, home), {
    loadedConfig,
    logger,
    env,
    programRejection: undefined,
  });
  waitingLine.show(`starting ${sources.length} of ${Object.keys(config.mcpServers).length}`);
  const openedServers = await Promise.all(sources.map((source) => openServer(source, resolve("."), signal)));
  waitingLine.clear();
  if (signal.aborted) return SIGNAL_EXIT_CODES[String(signal.reason)] ?? 1;
  const disabledServers = Object.entries(config.mcpServers).filter(([, { enabled }]) => !enabled);
  const servers = [
    ...openedServers,
    ...disabledServers.map(([name]): ListedServer => ({ name, state: "off", tools: [], prompts: [] })),
  ];
  servers.sort((a, b) => (a.name < b.name ? -1 : 1));
  if (flags.json) await output.write(`${JSON.stringify(servers, null, 2)}\n`);
  else if (servers.length > 0)
    await output.write(formatServers(servers, output.isStdoutTerminal ? output.columns : undefined));
  else output.report(`${loadedConfig.file}: no mcp_servers configured`);
  for (const { name, error } of servers)
    if (error !== undefined && !flags.json) output.report(formatCell(`${name}: ${error}`));
  return servers.some(({ state }) => state === "failed") ? 1 : 0;
};

/** Starts a server and lists its tools. Never rejects: a failure gives the state `failed`. */
async function openServer(source: ToolSource, projectDir: string, interruptSignal: AbortSignal): Promise<ListedServer> {
  const name = source.name.replace(/^mcp:/, "");
  const deadline = createDeadline(OPEN_TIMEOUT_MS, interruptSignal);
  try {
    const { tools, prompts = [], close } = await source.open({ sessionId: "", projectDir }, deadline.signal);
    const listedServer: ListedServer = {
      name,
      state: "ready",
      tools: tools.map(({ name: tool, origin = "", description }) => ({
        name: tool,
        rule: toRule(origin),
        description,
      })),
      prompts: prompts.map(({ name: prompt, hint, description }) => ({ name: prompt, hint, description })),
    };
    await close();
    return listedServer;
  } catch (error) {
    const reason = deadline.hasExpired
      ? `the server did not start within ${OPEN_TIMEOUT_MS / 1000} s`
      : String((error as Error).message);
    return { name, state: "failed", error: reason, tools: [], prompts: [] };
  } finally {
    deadline.clear();
  }
}

/** Returns the rule that matches a tool of this origin. Invisible characters are replaced with the wildcard `?`. */
function toRule(origin: string): string {
  return origin.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, (invisibleText) => "?".repeat(invisibleText.length));
}

function formatServers(servers: readonly ListedServer[], columns: number | undefined): string {
  const rows = servers.map(({ name, state, tools, prompts }) => [
    name,
    state,
    state === "ready" ? String(tools.length) : "",
    state === "ready" ? String(prompts.length) : "",
    tools.map((tool) => tool.name).join(" "),
  ]);
  return formatTable(["SERVER", "STATE", "TOOLS", "PROMPTS", "NAMES"], rows, { columns, rightAlignedColumns: [2, 3] });
}
