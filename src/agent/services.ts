import type { AgentOptions } from "./options.js";
import { TaskSet } from "../base/task-set.js";
import { Compaction } from "../compaction/compaction.js";
import { Models, noCache } from "../models/models.js";
import { InputError } from "../ports/errors.js";
import { Project } from "../project/project.js";
import { AgentTools } from "../run/tools/agent-tools.js";
import { AGENT_DEFAULTS } from "../ports/defaults.js";
import { KeptConversations } from "../run/context/conversation-cache.js";
import { RunPlaces } from "../run/budget/concurrency.js";
import type { AgentParts } from "../run/context/run-context.js";
import { ToolSources } from "../run/tools/sources.js";
import { ToolStates } from "../run/tools/tool-state.js";

/** What its runs have of the agent itself. */
type Own = Pick<AgentParts, "name" | "store" | "bus" | "logger" | "live" | "spawn" | "closing">;

/** What all runs of an agent share, as its options say. Throws `InputError` for two tools or providers of one name. */
export function partsOf(options: AgentOptions, own: Own): AgentParts {
  const { bus, logger } = own;
  const { model, projectDir = process.cwd(), mode = "auto" } = options;
  const tools = new AgentTools(options.tools);
  const names = options.providers.map((provider) => provider.name);
  const doubled = names.find((name, i) => names.indexOf(name) !== i);
  if (doubled !== undefined) throw new InputError("providers", `distinct names, got ${doubled} twice`);
  const project = new Project({ ...options, logger });
  return {
    ...own,
    models: new Models({
      providers: options.providers,
      preferred: { provider: model?.provider ?? "", model: model?.model ?? "" },
      cache: options.catalogue ?? noCache,
      logger,
      timeoutMs: options.modelTimeoutMs ?? 30_000,
      refreshMs: (options.catalogueRefresh ?? AGENT_DEFAULTS.catalogueRefresh) * 1000,
    }),
    tools,
    sources: new ToolSources([], bus, logger),
    toolServers: options.toolServers,
    fileHistory: options.fileHistory,
    commands: {
      own: options.commands ?? [],
      folders: options.commandFolders ?? [],
      ofProjects: options.projectInstructions ?? true,
      denied: options.deniedPaths ?? [],
      leftOut: project.leftOut,
    },
    permissions: [options.permissions ?? []].flat(),
    rules: options.rules ?? [],
    mode,
    asking: {
      unattended: options.unattended ?? "reject",
      timeoutMs: (options.askTimeout ?? AGENT_DEFAULTS.askTimeout) * 1000,
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
    places: new RunPlaces(
      options.concurrentRuns ?? AGENT_DEFAULTS.concurrentRuns,
      options.attachedBytes ?? AGENT_DEFAULTS.attachedBytes,
    ),
    states: new ToolStates(),
    kept: new KeptConversations(),
    naming: new Set(),
    tasks: new TaskSet(),
    stragglers: new TaskSet(),
  };
}
