import { newId } from "../base/ids.js";
import { createLoggerWithFields } from "../base/log.js";
import type { ChosenModel, ModelPair } from "../models/models.js";
import type { Logger } from "../ports/logger.js";
import type { ReasoningEffort } from "../ports/model-provider.js";
import type { RunInput } from "../ports/run.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { Session } from "../ports/session.js";
import type { Environment } from "../project/environment.js";
import type { ProjectInstructions } from "../project/project.js";
import { checkFolder } from "../sessions/new-session.js";
import { requireSession } from "../sessions/require-session.js";
import { hasCostLimit, resolveBudget, type BudgetLimits } from "./budget/limits.js";
import { requirePrices } from "./budget/run-budget.js";
import type { RunSlot } from "./budget/run-limiter.js";
import type { AgentServices, SubagentCall } from "./context/agent-services.js";
import type { StructuredOutput } from "./context/structured-output.js";
import { worksOnFiles } from "./prompt/system-prompt.js";
import type { QueueHandover } from "./queue/queued-run.js";

/** A request for a run, as it arrives. */
export interface RunOrigin {
  readonly input: RunInput;
  /** Set for a run that was queued. */
  readonly handover: QueueHandover | undefined;
  /** Set for the run of a subagent. */
  readonly parentCall: SubagentCall | undefined;
  readonly slot: RunSlot;
  /** Ends the run, also while it starts. */
  readonly cancel: AbortController;
}

/** A request with its session, folder, model, effort and budget. */
export interface ResolvedRequest extends RunOrigin {
  /** Id of the run. */
  readonly id: string;
  /** Adds the run's id to each log line. */
  readonly logger: Logger;
  readonly store: SessionDriver;
  /** First session of the chain, as read before the lease is taken. Undefined: the run creates a session. */
  readonly storedSession: Session | undefined;
  readonly projectDir: string;
  readonly chosenModel: ChosenModel;
  readonly requestedEffort: ReasoningEffort;
  readonly budgetLimits: BudgetLimits;
  readonly structuredOutput: StructuredOutput | undefined;
  /** Whether the requested tools work on files. */
  readonly usesFiles: boolean;
  /** Read in parallel with the store. Never rejects. */
  readonly instructions: Promise<ProjectInstructions>;
  /** Like `instructions`. Undefined if the session exists, because the session then usually has an environment. */
  readonly environment: Promise<Environment> | undefined;
}

/** Resolves what a run works with. Stores nothing, takes no lease. Rejects like `Agent.run`. */
export async function resolveRequest(agent: AgentServices, origin: RunOrigin): Promise<ResolvedRequest> {
  const { input, handover, cancel } = origin;
  const { signal } = cancel;
  const store = await agent.store();
  const storedSession = input.sessionId === undefined ? undefined : await requireFirstSession(store, input.sessionId);
  const projectDir = input.projectDir ?? storedSession?.projectDir ?? agent.defaults.projectDir;
  const instructions = agent.project.instructions(projectDir);
  const usesFiles = worksOnFiles(input.tools ?? agent.tools.agentTools.list.tools);
  const environment = storedSession || !usesFiles ? undefined : agent.project.environment(projectDir);
  await checkFolder(projectDir);
  const chosenModel = await agent.models.resolve(
    { provider: input.provider ?? "", model: input.model ?? "" },
    { provider: storedSession?.provider ?? "", model: storedSession?.model ?? "" },
    () => findRecentModel(store, projectDir),
    signal,
    input.onWaiting,
  );
  const budgetLimits = resolveBudget(agent.budget.limits, input);
  // A run with a cost limit must not call a model with unknown prices.
  if (hasCostLimit(budgetLimits))
    await requirePrices(chosenModel.provider, chosenModel.model, 0, budgetLimits.unknownPrice);
  const { outputSchema } = input;
  const structuredOutput =
    outputSchema === undefined
      ? undefined
      : await (await import("./context/structured-output.js")).StructuredOutput.open(outputSchema, signal);
  const id = handover?.record.id ?? newId();
  return {
    ...origin,
    id,
    logger: createLoggerWithFields(agent.channels.logger, { run: id }),
    store,
    storedSession,
    projectDir,
    chosenModel,
    requestedEffort: input.reasoningEffort ?? findSessionEffort(storedSession) ?? agent.defaults.reasoningEffort,
    budgetLimits,
    structuredOutput,
    usesFiles,
    instructions,
    environment,
  };
}

/** Returns the effort with which a session continues; undefined for a session without runs that set no effort. */
function findSessionEffort(session: Session | undefined): ReasoningEffort | undefined {
  return session && (session.lastSeq > 0 || session.reasoningEffort !== "") ? session.reasoningEffort : undefined;
}

/** Returns the first session of a session's chain, which has the chain-wide fields. */
async function requireFirstSession(store: SessionDriver, id: string): Promise<Session> {
  const session = await requireSession(store, id);
  return session.chain.index === 0 ? session : requireSession(store, session.chain.root);
}

async function findRecentModel(store: SessionDriver, projectDir: string): Promise<ModelPair | undefined> {
  // The newest session usually has a model. Sessions that a client only opened have none.
  for (const limit of [1, 10]) {
    const { sessions } = await store.list({ projectDir, limit });
    const recentSession = sessions.find((session) => session.provider !== "" && session.model !== "");
    if (recentSession) return recentSession;
  }
  return undefined;
}
