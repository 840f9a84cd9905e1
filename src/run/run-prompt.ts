import type { AsyncScope } from "../base/async-scope.js";
import type { Bus } from "../base/bus.js";
import { nowNotBefore } from "../base/ids.js";
import {
  createMessage,
  createToolMessage,
  findDanglingCalls,
  INTERRUPTED_CALL_RESULT,
} from "../conversation/messages.js";
import { withState, type StateChanges } from "../conversation/conversation.js";
import type { PromptUse } from "../ports/agent-options.js";
import type { BusEvents } from "../ports/bus-events.js";
import type { Logger } from "../ports/logger.js";
import type { Message, ModelMessage } from "../ports/message.js";
import type { RunRecord } from "../ports/run.js";
import type { Skill } from "../ports/skill.js";
import type { Tool } from "../ports/tool.js";
import { toInterruptedRun, isQueued } from "../sessions/stored-run.js";
import type { AgentServices } from "./context/agent-services.js";
import { createToolList, withMcpServers } from "./input/input-checks.js";
import type { OpenedSession, ResolvedRequest } from "./open-session.js";
import type { ExpandedInput } from "./prompt/slash-commands.js";
import {
  buildSystemPrompt,
  createInstructionSections,
  loadEnvironment,
  type SystemPromptInput,
} from "./prompt/system-prompt.js";
import type { DeferredTools } from "./tools/deferred-tools.js";
import type { RunTools } from "./tools/tool-sources.js";

/** Maximum MCP tools whose schemas are in each request. If there are more, the model loads the tools that it needs. */
const MAX_SENT_MCP_TOOLS = 40;

/** The prompt of a run: all that its model receives first, besides the earlier messages. */
export interface RunPrompt {
  /** The run's input, with a command replaced by its prompt. */
  readonly input: ExpandedInput;
  /** The user's message. Not stored if the run compacts its session, or retries or continues its last run. */
  readonly message: ModelMessage;
  readonly systemPrompt: string;
  /** Sections of `systemPrompt` from instruction files and skills. */
  readonly instructionTexts: readonly string[];
  readonly extraPrompt: string;
  /** Sorted by name. */
  readonly tools: readonly Tool[];
  /** Set if the model loads tools by search. */
  readonly deferredTools: DeferredTools | undefined;
  readonly sourceInstructions: RunTools["instructions"];
  readonly skills: readonly Skill[];
}

/** Opens the tools of a run. `scope` then owns them. Rejects only with the signal's reason, or `InputError`. */
export async function openTools(
  agent: AgentServices,
  { id: runId, input, projectDir, logger, cancel: { signal } }: ResolvedRequest,
  { id: sessionId }: OpenedSession,
  scope: AsyncScope,
): Promise<RunTools> {
  const ownTools = input.tools === undefined ? agent.tools.agentTools.list : createToolList(input.tools);
  const toolRequest = { runId, sessionId, projectDir, logger, signal };
  return scope.use(await agent.tools.sources.open(withMcpServers(ownTools, agent.tools, input), toolRequest), (tools) =>
    tools.release(),
  );
}

/** Builds the prompt: expands a command, selects the tools that the model receives, and describes the project. */
export async function buildPrompt(
  agent: AgentServices,
  request: ResolvedRequest,
  session: OpenedSession,
  { tools, missingSources, prompts, instructions: ownSourceInstructions }: RunTools,
): Promise<RunPrompt> {
  const { parentCall, projectDir, slot, structuredOutput, logger, usesFiles } = request;
  // A subagent has tools of its parent's sources, which it does not open itself.
  const sourceInstructions = parentCall?.sourceInstructions ?? ownSourceInstructions;
  const isCommand = session.input.commands === true && session.input.message.trimStart().startsWith("/");
  const input = isCommand
    ? await (
        await import("./prompt/slash-commands.js")
      ).expandCommand(agent, session.input, { projectDir, prompts }, slot, request.cancel.signal)
    : session.input;
  const extraPrompt = input.systemPrompt ?? agent.defaults.prompt.text;
  const { newState, ...modelPrompt } = await buildModelPrompt(agent, {
    ...{ projectDir, usesFiles, tools, sourceInstructions, missingSources, extraPrompt, logger },
    chosenModel: request.chosenModel,
    state: session.state,
    environment: request.environment,
    instructions: request.instructions,
    // A subagent requests permission from its parent's clients, but it cannot ask users questions.
    canAskUser: () =>
      !parentCall &&
      (input.ask !== undefined || session.tail.isShown || agent.permissions.unattended.policy === "wait"),
    folders: input.folders ?? [],
    promptUse: input.promptUse ?? agent.defaults.prompt.use,
    answerInstructions: structuredOutput?.instructions ?? "",
  });
  const message = withState(toPromptMessage(input), newState);
  return { input, message, extraPrompt, sourceInstructions, ...modelPrompt };
}

/** The values that determine the system prompt and the offered tools of a run. */
export interface ModelPromptInput extends Pick<ResolvedRequest, "projectDir" | "usesFiles" | "logger"> {
  readonly chosenModel: { readonly provider: { readonly name: string }; readonly model: SystemPromptInput["model"] };
  /** All tools of the run. */
  readonly tools: readonly Tool[];
  readonly sourceInstructions: RunTools["instructions"];
  readonly missingSources: RunTools["missingSources"];
  /** State that tools store for the session. An environment that is read is added. */
  readonly state: Map<string, unknown>;
  readonly environment: ResolvedRequest["environment"];
  readonly instructions: ResolvedRequest["instructions"];
  readonly canAskUser: () => boolean;
  readonly extraPrompt: string;
  readonly promptUse: PromptUse;
  readonly folders: readonly string[];
  readonly answerInstructions: string;
}

type ModelPrompt = Pick<RunPrompt, "systemPrompt" | "instructionTexts" | "tools" | "deferredTools" | "skills">;

/** Builds the part of a prompt before its messages. `newState`: state to store with the prompt. */
export async function buildModelPrompt(
  agent: Pick<AgentServices, "project">,
  input: ModelPromptInput,
): Promise<ModelPrompt & { readonly newState: StateChanges }> {
  const { projectDir, usesFiles, tools, state, sourceInstructions, logger } = input;
  const { provider, model } = input.chosenModel;
  const { environment, newState } = await loadEnvironment(
    agent.project,
    projectDir,
    usesFiles,
    state,
    input.environment,
  );
  const instructions = await input.instructions;
  // Without a tool that reads skills, the prompt lists none.
  const skills = tools.some(({ needsSkills }) => needsSkills) ? instructions.skills : [];
  const features = { canAskUser: input.canAskUser(), hasSkills: skills.length > 0 };
  const offeredTools = selectOfferedTools(tools, { provider: provider.name, id: model.id }, features, logger);
  const deferredTools = await deferMcpTools(offeredTools, state);
  const instructionTexts = createInstructionSections({ ...instructions, skills });
  const systemPrompt = buildSystemPrompt({
    model,
    tools: offeredTools,
    projectDir,
    environment,
    instructionTexts,
    extraText: input.extraPrompt,
    folders: input.folders,
    promptUse: input.promptUse,
    sourceSections: [
      sourceInstructions.length === 0
        ? ""
        : (await import("./prompt/source-instructions.js")).formatSourceInstructions(sourceInstructions),
      deferredTools?.section ?? "",
    ],
    missingSources: input.missingSources,
    answerInstructions: input.answerInstructions,
  });
  return { systemPrompt, instructionTexts, tools: offeredTools, deferredTools, skills, newState };
}

/**
 * Selects the tools that a run's model receives: those that suit the model, the user and the skills. Tools that another
 * selected tool replaces are left out.
 */
function selectOfferedTools(
  tools: readonly Tool[],
  model: { readonly provider: string; readonly id: string },
  features: { readonly canAskUser: boolean; readonly hasSkills: boolean },
  logger: Logger,
): Tool[] {
  const suitableTools = tools.filter(
    (tool) =>
      (features.canAskUser || tool.needsUser !== true) &&
      (features.hasSkills || tool.needsSkills !== true) &&
      supportsModel(tool, model, logger),
  );
  const replacedNames = new Set(suitableTools.flatMap(({ replaces }) => replaces ?? []));
  return suitableTools.filter(({ name }) => !replacedNames.has(name));
}

/** Replaces the MCP tools of a run with their names and a search, if there are many. */
async function deferMcpTools(tools: readonly Tool[], state: Map<string, unknown>): Promise<DeferredTools | undefined> {
  const isMcpTool = ({ origin }: Tool): boolean => origin?.startsWith("mcp:") === true;
  if (tools.filter(isMcpTool).length <= MAX_SENT_MCP_TOOLS) return undefined;
  const { deferTools } = await import("./tools/deferred-tools.js");
  return deferTools(tools, isMcpTool, state);
}

function supportsModel(tool: Tool, model: { readonly provider: string; readonly id: string }, logger: Logger): boolean {
  try {
    return tool.models === undefined || tool.models(model) === true;
  } catch (error) {
    logger.warn("model check of a tool failed; tool not offered", { tool: tool.name, error });
    return false;
  }
}

function toPromptMessage({ message: text, originalText, attachments = [] }: ExpandedInput): ModelMessage {
  const textPart = { type: "text" as const, text, ...(originalText !== undefined && { originalText }) };
  const hasText = text !== "" || originalText !== undefined;
  return createMessage("user", [...(hasText ? [textPart] : []), ...attachments]);
}

/** Stores the run with the user's message. Rejects like the driver's `create` or `write`. */
export async function persistPrompt(session: OpenedSession, prompt: RunPrompt, bus: Bus<BusEvents>): Promise<void> {
  const { id: rootId, head, conversation, recorder } = session;
  const runId = recorder.run.id;
  if (head) {
    await continueSession(session, head.unfinished, prompt);
    bus.emit("session.resume", { runId, sessionId: conversation.session.id, rootId });
    return;
  }
  // A new session and its first message are stored in one write.
  const message = conversation.compose(prompt.message);
  const { startedAt: updatedAt } = recorder.run;
  await recorder.createSession({ ...conversation.session, updatedAt, lastSeq: message.seq }, message);
  conversation.add(message);
  bus.emit("session.created", { session: conversation.session, runId });
}

/**
 * Stores the user's message, if any, and repairs the effects of a crash, in one write: calls without a result get an
 * error result. `unfinished`: open runs of the chain. Open runs that are not queued are dead, because this run has the
 * lease.
 */
async function continueSession(
  { store, fields, conversation, isCached, recorder, continuedRun, replacedRun, consumedInstructions }: OpenedSession,
  unfinished: readonly RunRecord[],
  prompt: RunPrompt,
): Promise<void> {
  // A cached conversation has no dangling calls.
  const danglingCalls = isCached ? [] : findDanglingCalls(conversation.messages);
  const repairResults = danglingCalls.map((call) =>
    conversation.compose(createToolMessage(call, INTERRUPTED_CALL_RESULT, true)),
  );
  const addsPrompt = !prompt.input.compact && !prompt.input.retry && !continuedRun;
  const messages: Message[] = [...repairResults, ...(addsPrompt ? [conversation.compose(prompt.message)] : [])];
  const writtenIds = [recorder.run.id, replacedRun?.id];
  const deadRuns = unfinished.filter((record) => !writtenIds.includes(record.id) && !isQueued(record, store));
  // The key is freed in the same change, so that no other run can take it in between.
  const runsWithoutKey = replacedRun ? [{ ...replacedRun, idempotencyKey: "", fingerprint: "" }] : [];
  const change = {
    sync: "later",
    set: { ...fields, updatedAt: nowNotBefore(recorder.run.startedAt, store) },
    add: messages,
    ...(consumedInstructions.length > 0 && { consumedInstructions }),
  } as const;
  await recorder.write({ ...change, runs: [...deadRuns.map(toInterruptedRun), ...runsWithoutKey, recorder.run] });
  for (const message of messages) conversation.add(message);
}
