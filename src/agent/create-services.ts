import type { AgentOptions } from "./options.js";
import { TaskSet } from "../base/task-set.js";
import { Compaction } from "../compaction/compaction.js";
import { Models, noCache } from "../models/models.js";
import { InputError } from "../ports/errors.js";
import { Project } from "../project/project.js";
import { AGENT_DEFAULTS } from "../ports/agent-options.js";
import { ConversationCache } from "../run/context/conversation-cache.js";
import { PromptReports } from "../run/context/prompt-reports.js";
import { RunLimiter } from "../run/budget/limits.js";
import type { AgentServices } from "../run/context/agent-services.js";
import { AgentTools, ToolSources } from "../run/tools/tool-sources.js";
import { ToolStateCache } from "../run/tools/tool-state.js";

/** Maximum wait of a run until its model is found, in ms. */
const DEFAULT_MODEL_TIMEOUT_MS = 30_000;

/** The agent's own members that its runs use. */
type AgentMembers = Pick<AgentServices, "name" | "store" | "channels" | "spawn"> & {
  readonly closeSignal: AbortSignal;
};

/**
 * Creates the services that all runs of an agent share. Throws `InputError` if two tools or two providers have the same
 * name.
 */
export function createServices(options: AgentOptions, { closeSignal, ...agentMembers }: AgentMembers): AgentServices {
  const { bus, logger } = agentMembers.channels;
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
    project,
    compaction: new Compaction(options.compaction ?? {}),
    commands: {
      agentCommands: options.commands ?? [],
      folders: options.commandFolders ?? [],
      usesProjectCommands: options.projectInstructions ?? true,
      deniedPaths: options.deniedPaths ?? [],
      onSkipped: project.logSkipped,
    },
    defaults: {
      projectDir,
      mode,
      reasoningEffort: model?.reasoningEffort ?? "",
      prompt: { text: options.systemPrompt ?? "", use: options.prompt ?? "extend" },
    },
    tools: {
      agentTools: tools,
      sources: new ToolSources([], bus, logger),
      mcpServerFactory: options.mcpServerFactory,
      hooks: options.hooks ?? {},
      fileHistory: options.fileHistory,
      worktrees: options.worktrees,
      unsettled: new TaskSet(),
    },
    permissions: {
      policies: [options.permissions ?? []].flat(),
      rules: options.rules ?? [],
      unattended: {
        policy: options.unattended ?? "reject",
        timeoutMs: (options.askTimeoutSeconds ?? AGENT_DEFAULTS.askTimeoutSeconds) * 1000,
      },
    },
    budget: createBudget(options),
    caches: {
      conversations: new ConversationCache(),
      lateSteering: new Set(),
      toolStates: new ToolStateCache(),
      promptReports: new PromptReports(),
    },
    background: { tasks: new TaskSet(), closeSignal, sessionsBeingTitled: new Set() },
  };
}

function createBudget(options: AgentOptions): AgentServices["budget"] {
  const { concurrentRuns, attachmentBytes, maxIterations, toolOutputBytes } = AGENT_DEFAULTS;
  return {
    limits: {
      iterations: options.maxIterations ?? maxIterations,
      toolOutputBytes: options.toolOutputBytes ?? toolOutputBytes,
      budget: options.budget ?? {},
      sessionBudget: options.sessionBudget ?? {},
      unknownPrice: options.unknownPrice,
    },
    limiter: new RunLimiter(options.concurrentRuns ?? concurrentRuns, options.attachmentBytes ?? attachmentBytes),
  };
}
