import type { AgentOptions } from "./options.js";
import { TaskSet } from "../base/task-set.js";
import { Compaction } from "../compaction/compaction.js";
import { Models, noCache } from "../models/models.js";
import { InputError } from "../ports/errors.js";
import { Project } from "../project/project.js";
import { AgentTools } from "../run/tools/agent-tools.js";
import { AGENT_DEFAULTS } from "../ports/agent-options.js";
import { ConversationCache } from "../run/context/conversation-cache.js";
import { RunLimiter } from "../run/budget/run-limiter.js";
import type { AgentServices } from "../run/context/run-context.js";
import { ToolSources } from "../run/tools/tool-sources.js";
import { ToolStateCache } from "../run/tools/tool-state.js";

/** Maximum wait of a run until its model is found, in ms. */
const DEFAULT_MODEL_TIMEOUT_MS = 30_000;

/** The agent's own members that its runs use. */
type AgentMembers = Pick<AgentServices, "name" | "store" | "bus" | "logger" | "liveSessions" | "spawn" | "closeSignal">;

/**
 * Creates the services that all runs of an agent share. Throws `InputError` if two tools or two providers have the same
 * name.
 */
export function createServices(options: AgentOptions, agentMembers: AgentMembers): AgentServices {
  const { bus, logger } = agentMembers;
  const { model, projectDir = process.cwd(), mode = "auto" } = options;
  const tools = new AgentTools(options.tools);
  const names = options.providers.map((provider) => provider.name);
  const duplicate = names.find((name, i) => names.indexOf(name) !== i);
  if (duplicate !== undefined) throw new InputError("providers", `distinct names, got ${duplicate} twice`);
  const project = new Project({ ...options, logger });
  return {
    ...agentMembers,
    models: new Models({
      providers: options.providers,
      preferredPair: { provider: model?.provider ?? "", model: model?.model ?? "" },
      cache: options.catalogue ?? noCache,
      logger,
      timeoutMs: options.modelTimeoutMs ?? DEFAULT_MODEL_TIMEOUT_MS,
      refreshMs: (options.catalogueRefreshSeconds ?? AGENT_DEFAULTS.catalogueRefreshSeconds) * 1000,
    }),
    tools,
    sources: new ToolSources([], bus, logger),
    mcpServerFactory: options.mcpServerFactory,
    fileHistory: options.fileHistory,
    commands: {
      agentCommands: options.commands ?? [],
      folders: options.commandFolders ?? [],
      usesProjectCommands: options.projectInstructions ?? true,
      deniedPaths: options.deniedPaths ?? [],
      onSkipped: project.logSkipped,
    },
    permissions: [options.permissions ?? []].flat(),
    rules: options.rules ?? [],
    mode,
    unattended: {
      policy: options.unattended ?? "reject",
      timeoutMs: (options.askTimeoutSeconds ?? AGENT_DEFAULTS.askTimeoutSeconds) * 1000,
    },
    hooks: options.hooks ?? {},
    compaction: new Compaction(options.compaction ?? {}),
    prompt: { text: options.systemPrompt ?? "", use: options.prompt ?? "extend" },
    project,
    limits: {
      iterations: options.maxIterations ?? AGENT_DEFAULTS.maxIterations,
      toolOutputBytes: options.toolOutputBytes ?? AGENT_DEFAULTS.toolOutputBytes,
      budget: options.budget ?? {},
      sessionBudget: options.sessionBudget ?? {},
      unknownPrice: options.unknownPrice,
    },
    projectDir,
    reasoningEffort: model?.reasoningEffort ?? "",
    limiter: new RunLimiter(
      options.concurrentRuns ?? AGENT_DEFAULTS.concurrentRuns,
      options.attachmentBytes ?? AGENT_DEFAULTS.attachmentBytes,
    ),
    toolStates: new ToolStateCache(),
    conversationCache: new ConversationCache(),
    sessionsBeingTitled: new Set(),
    tasks: new TaskSet(),
    unsettledTools: new TaskSet(),
  };
}
