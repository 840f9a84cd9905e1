import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { createDeadline } from "../../base/abort.js";
import { silentLogger } from "../../base/log.js";
import type { ToolSource } from "../../ports/tool-source.js";
import { getTemporaryFolder } from "../../serve/config.js";
import { createChildEnvironment } from "../../serve/environment.js";
import { ConfigMcpServerFactory, getConfiguredServers, getLoginFile } from "../../serve/mcp-servers.js";
import { createError, createOk, createSkipped, toReason, type DoctorCheck, type Finding } from "./finding.js";

const OPEN_TIMEOUT_MS = 8_000;

/** Starts each configured MCP server, as `gantry mcp list` does. */
export const mcpCheck: DoctorCheck = {
  group: "MCP servers",
  run: async ({ loadedConfig, home, projectDir, signal }) => {
    if (Object.values(loadedConfig.config.mcpServers).every(({ enabled }) => !enabled))
      return [createSkipped("mcp.server", "no MCP servers are configured", "")];
    const folder = await mkdtemp(join(getTemporaryFolder(), "gantry-doctor-"));
    // The default working folder of the servers is in the home folder, and is created if it is missing.
    const baseFolder = existsSync(join(home, "mcp")) ? home : folder;
    const servers = getConfiguredServers(loadedConfig, baseFolder).map(({ server, usageOptions }) => ({
      server,
      usageOptions: {
        ...usageOptions,
        ...("loginFile" in usageOptions && { loginFile: getLoginFile(home, server.name) }),
      },
    }));
    const { sources } = new ConfigMcpServerFactory(servers, {
      loadedConfig,
      logger: silentLogger,
      env: createChildEnvironment(loadedConfig.config.tools.env),
      programRejection: undefined,
    });
    const redact = (text: string) => loadedConfig.redactMessage(text);
    try {
      return await Promise.all(sources.map((source) => checkServer(source, projectDir, redact, signal)));
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  },
};

async function checkServer(
  source: ToolSource,
  projectDir: string,
  redact: (text: string) => string,
  signal: AbortSignal,
): Promise<Finding> {
  const name = source.name.replace(/^mcp:/, "");
  const deadline = createDeadline(OPEN_TIMEOUT_MS, signal);
  try {
    const { tools, close } = await source.open({ sessionId: "", projectDir }, deadline.signal);
    await close();
    return createOk("mcp.server", `${name} answers: ${tools.length} tools`);
  } catch (error) {
    const reason = deadline.hasExpired ? `no answer within ${OPEN_TIMEOUT_MS / 1000} s` : redact(toReason(error));
    if (/ENOENT|not found|no such file/i.test(reason))
      return createError(
        "mcp.command",
        `the command of the MCP server ${name} does not exist`,
        reason,
        `install the program, or correct mcp_servers.${name}.command`,
      );
    return createError(
      "mcp.server",
      `the MCP server ${name} does not start`,
      reason,
      `run its command by hand, then gantry mcp list; mcp_servers.${name}.enabled false leaves it out`,
    );
  } finally {
    deadline.clear();
  }
}
