import { createDeadline } from "../base/abort.js";
import type { WindowContext } from "../compaction/context-window.js";
import { measureParts, type PromptContent } from "../compaction/prompt-parts.js";
import { collectState } from "../conversation/conversation.js";
import { SessionNotFoundError } from "../ports/errors.js";
import type { Message } from "../ports/message.js";
import type { Model } from "../ports/model-provider.js";
import type { LeaseHead } from "../ports/session-driver.js";
import type { SessionContext } from "../ports/session-context.js";
import type { AgentServices } from "./context/agent-services.js";
import type { PromptReport } from "./context/prompt-reports.js";
import { worksOnFiles } from "./prompt/system-prompt.js";
import { buildModelPrompt } from "./run-prompt.js";

/** Maximum wait for the model of a session, in ms. Without the model, the default window is assumed. */
const MODEL_TIMEOUT_MS = 2_000;

/** A prompt with the model that would receive it. */
interface MeasuredPrompt extends PromptContent {
  readonly provider: string;
  readonly model: Pick<Model, "id" | "contextWindow" | "maxOutput">;
  /** The newest session of the chain. */
  readonly sessionId: string;
}

/**
 * Measures what the next model call of a session would contain. Starts no run, no MCP server and no model call.
 * `findCaller`: the active run of a chain in this process.
 *
 * Rejects with `SessionNotFoundError`, `StoreError` or the signal's reason.
 */
export async function measureContext(
  agent: AgentServices,
  id: string,
  findCaller: (rootId: string) => WindowContext | undefined,
  signal?: AbortSignal,
): Promise<SessionContext> {
  const store = await agent.store();
  const chainHead = await store.head(id, { messages: false });
  if (!chainHead) throw new SessionNotFoundError(id);
  const rootId = chainHead.root.id;
  const prompt = findActivePrompt(findCaller(rootId)) ?? (await buildIdlePrompt(agent, rootId, signal));
  const report = agent.caches.promptReports.get(rootId);
  return measureParts(agent.compaction, prompt.model, prompt, report && findCountedTokens(report, prompt));
}

function findActivePrompt(caller: WindowContext | undefined): MeasuredPrompt | undefined {
  if (!caller) return undefined;
  const { provider, model, systemPrompt, instructionTexts, tools, conversation } = caller;
  const { messages, session } = conversation;
  return {
    ...{ systemPrompt, instructionTexts, tools, messages },
    provider: provider.name,
    model,
    sessionId: session.id,
  };
}

/** Returns the provider's count if the prompt still has the messages that were counted. */
function findCountedTokens(report: PromptReport, { provider, model, sessionId, messages }: MeasuredPrompt) {
  if (report.provider !== provider || report.model !== model.id || report.sessionId !== sessionId) return undefined;
  const lastIndex = messages.findLastIndex(({ id }: Message) => id === report.messageId);
  return lastIndex === -1 ? undefined : { tokens: report.tokens, count: lastIndex + 1 };
}

/** Builds the prompt of a run that would start now, with the agent's own options. */
async function buildIdlePrompt(
  agent: AgentServices,
  rootId: string,
  signal: AbortSignal | undefined,
): Promise<MeasuredPrompt> {
  const head = await (await agent.store()).head(rootId);
  if (!head) throw new SessionNotFoundError(rootId);
  const { projectDir } = head.root;
  const { tools: ownTools } = await agent.tools.agentTools.load();
  const usesFiles = worksOnFiles(ownTools);
  const { provider, model } = await findModel(agent, head, signal);
  const { prompt } = agent.defaults;
  const { systemPrompt, instructionTexts, tools, deferredTools } = await buildModelPrompt(agent, {
    ...{ projectDir, usesFiles },
    chosenModel: { provider: { name: provider }, model },
    tools: agent.tools.sources.listOpenTools({ sessionId: rootId, projectDir }) ?? ownTools,
    sourceInstructions: [],
    missingSources: [],
    state: collectState(head.messages),
    environment: undefined,
    instructions: agent.project.instructions(projectDir),
    // The caller shows the result to a person.
    canAskUser: () => true,
    extraPrompt: prompt.text,
    promptUse: prompt.use,
    folders: [],
    answerInstructions: "",
    logger: agent.channels.logger,
  });
  return {
    ...{ systemPrompt, instructionTexts, provider, model },
    tools: deferredTools?.offered() ?? tools,
    messages: head.messages,
    sessionId: head.newest.id,
  };
}

/** Finds the model of the next run. If none is available in time, its window is unknown. */
async function findModel(
  agent: AgentServices,
  { root: { provider, model } }: Pick<LeaseHead, "root">,
  signal?: AbortSignal,
): Promise<Pick<MeasuredPrompt, "provider" | "model">> {
  const timeLimit = createDeadline(MODEL_TIMEOUT_MS, ...(signal ? [signal] : []));
  try {
    const noPair = { provider: "", model: "" };
    const chosenModel = await agent.models.resolve(
      noPair,
      { provider, model },
      () => Promise.resolve(undefined),
      timeLimit.signal,
    );
    return { provider: chosenModel.provider.name, model: chosenModel.model };
  } catch {
    signal?.throwIfAborted();
    return { provider, model: { id: model } };
  } finally {
    timeLimit.clear();
  }
}
