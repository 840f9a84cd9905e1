import { setMaxListeners } from "node:events";
import { onAbort } from "../base/abort.js";
import { newId } from "../base/ids.js";
import { loggerWith } from "../base/log.js";
import { Conversation } from "../conversation/conversation.js";
import { danglingCalls } from "../conversation/messages.js";
import { withState } from "../conversation/stored-state.js";
import { Recorder } from "../conversation/recorder.js";
import { nearestEffort } from "../models/efforts.js";
import type { ChosenModel, ModelPair } from "../models/models.js";
import { BudgetSpentError, SessionBusyError, SessionNotFoundError } from "../ports/errors.js";
import type { Logger } from "../ports/logger.js";
import type { ReasoningEffort } from "../ports/model-provider.js";
import type { RunInput, RunRecord } from "../ports/run.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { Session } from "../ports/session.js";
import { found } from "../sessions/require-session.js";
import { HeldLease } from "../sessions/lease.js";
import { checkFolder, newSession } from "../sessions/new-session.js";
import { isBefore, waitsInLine } from "../sessions/stored-run.js";
import { pricesOf, RunBudget } from "./budget/meter.js";
import { goingOn, headWith, messagesOf } from "./chain-head.js";
import { RunClock } from "./budget/time-limit.js";
import { EventBuffer } from "./context/event-buffer.js";
import { create, goOn, promptOf } from "./persist-prompt.js";
import { withFolders } from "./input/folders.js";
import { Inbox } from "./queue/inbox.js";
import { toolList, withServers } from "./input/run-input.js";
import { offeredTools } from "./tools/offered-tools.js";
import { attachedBytes, type RunPlace } from "./budget/concurrency.js";
import { isOfMoney, isSpending, purseOf } from "./budget/budget.js";
import type { Turn } from "./queue/queued-run.js";
import type { AgentParts, RunContext, Spawned } from "./context/run-context.js";
import { begun, ending } from "../sessions/run-record.js";
import { countIn, helpersSession } from "./calls/spawn.js";
import { surroundingsFor, worksOnFiles } from "./prompt/environment.js";
import { systemPrompt } from "./prompt/system-prompt.js";
import { notifierOf } from "../sessions/polling-notifier.js";

/**
 * A run that holds its session, with the user's message stored. Rejects, with nothing stored and nothing held, as
 * `Agent.run` says. `turn`: of one that waited in line.
 */
export async function startRun(
  agent: AgentParts,
  input: RunInput,
  turn?: Turn,
  spawned?: Spawned,
): Promise<RunContext> {
  const place = agent.places.take();
  const cancel = new AbortController();
  const others = [agent.closing, ...(input.signal ? [input.signal] : []), ...(turn ? [turn.signal] : [])];
  // Each tool of a run may listen, and many run at once.
  setMaxListeners(0, cancel.signal, ...others);
  // By hand: the composites of `AbortSignal.any` are dear, and wait for the garbage collector.
  const ties = others.map((signal) => onAbort(signal, () => cancel.abort(signal.reason)));
  const leave = (): void => {
    for (const untie of ties) untie();
    place.leave();
  };
  try {
    place.reserve(attachedBytes(input));
    return await begin(agent, input, place, cancel, leave, turn, spawned);
  } catch (error) {
    leave();
    throw ending(error, cancel.signal);
  }
}

async function begin(
  agent: AgentParts,
  input: RunInput,
  place: RunPlace,
  cancel: AbortController,
  leave: () => void,
  turn: Turn | undefined,
  spawned: Spawned | undefined,
): Promise<RunContext> {
  const { signal } = cancel;
  const store = await agent.store();
  const stored = input.sessionId === undefined ? undefined : await chainOf(store, input.sessionId);
  const projectDir = input.projectDir ?? stored?.projectDir ?? agent.projectDir;
  // While the folder is looked at and the store is asked; it never rejects.
  const words = agent.project.words(projectDir);
  const isOnFiles = worksOnFiles(input.tools ?? agent.tools.list.tools);
  const looking = stored || !isOnFiles ? undefined : agent.project.surroundings(projectDir);
  await checkFolder(projectDir);
  const chosen = await agent.models.resolve(
    { provider: input.provider ?? "", model: input.model ?? "" },
    { provider: stored?.provider ?? "", model: stored?.model ?? "" },
    () => recentPair(store, projectDir),
    signal,
    input.onWaiting,
  );
  const purse = purseOf(agent.limits, input);
  // Nobody who has a budget of money asks a model of which nobody knows what it takes.
  if (isOfMoney(purse)) await pricesOf(chosen.provider, chosen.model, 0, purse.unknownPrice);
  const { outputSchema } = input;
  const structure =
    outputSchema === undefined
      ? undefined
      : await (await import("./context/structured-output.js")).Structure.open(outputSchema, signal);
  const id = turn?.record.id ?? newId();
  const logger = loggerWith(agent.logger, { run: id });
  const original =
    stored ?? (spawned ? helpersSession(spawned, projectDir) : newSession({}, { projectDir, mode: agent.mode }));
  const sessionId = original.chain.root;
  // Told with the lease: until that was ours, another process may have gone on, compacted or deleted it.
  const wanted = stored && headWith(stored, agent.kept.fenceOf(sessionId));
  const lost = (reason: Error) => cancel.abort(reason);
  const [lease, head] = await HeldLease.takeWithHead(store, sessionId, wanted, logger, lost);
  let releaseTools = (): void => undefined;
  let releaseTail = (): void => undefined;
  let closeInbox = async (): Promise<void> => undefined;
  try {
    await turn?.held();
    const whole = await attached(input, place, signal);
    const effort = input.reasoningEffort ?? chosenEffort(stored) ?? agent.reasoningEffort;
    const set = {
      provider: chosen.provider.name,
      model: chosen.model.id,
      reasoningEffort: effort,
      ...(input.mode && { mode: input.mode }),
    };
    if (stored && !head) throw new SessionNotFoundError(sessionId);
    if (head?.unfinished.some((run) => isAhead(run, turn?.record))) throw new SessionBusyError();
    const session = { ...(head ? goingOn(head) : original), ...set };
    const kept = head && agent.kept.take(sessionId, lease.previous);
    const before = head && !kept ? await messagesOf(store, head, wanted, lease.previous) : [];
    const conversation = kept ?? new Conversation(session, before);
    conversation.session = session;
    const { key = "", fingerprint = "" } = input;
    const after = conversation.lastSeq;
    const record = begun({ id, sessionId, provider: set.provider, model: set.model, after, key, fingerprint });
    const list = withServers(input.tools === undefined ? agent.tools.list : toolList(input.tools), agent, input);
    const of = { runId: id, sessionId, projectDir, logger, signal };
    const { tools, missing, prompts, release } = await agent.sources.open(list, of);
    releaseTools = release;
    const isCommand = input.commands === true && input.message.trimStart().startsWith("/");
    const asked = isCommand
      ? await (await import("./prompt/agent-commands.js")).spoken(agent, whole, { projectDir, prompts }, place, signal)
      : whole;
    const inbox = new Inbox({ runId: id, sessionId, store, cancel, logger });
    closeInbox = () => inbox.close();
    const { tail, leave: leaveTail } = agent.live().open(sessionId, store);
    const hold = tail.hold((head?.original ?? original).cuts.length);
    // Before anything is asked: what only a person can do is offered where one is there.
    const unattend = input.attended ? tail.attended(input.attended) : () => undefined;
    // A helper asks those of its asker for leave, and what it wants to know of nobody.
    const someone = !spawned && (input.ask !== undefined || tail.isShown || agent.asking.unattended === "wait");
    releaseTail = () => {
      unattend();
      hold.end();
      leaveTail();
    };
    const state = await agent.states.of(conversation, store, kept !== undefined);
    const { surroundings, news } = await surroundingsFor(agent.project, projectDir, isOnFiles, state, looking);
    const told = await words;
    // Whoever has no tool to read them with is not told of them.
    const said = tools.some(({ needsSkills }) => needsSkills) ? told : { ...told, skills: [] };
    const offered = offeredTools(
      tools,
      { provider: set.provider, id: set.model },
      { person: someone, skills: said.skills.length > 0 },
      logger,
    );
    const recorder = new Recorder(
      store,
      session.id,
      lease.fence,
      record,
      (head?.original ?? original).usage,
      (error) => cancel.abort(error),
      (change) => {
        hold.stored(change);
        notifierOf(store).publish(sessionId);
        if (spawned && change.usage) countIn(spawned, id, change.usage);
      },
    );
    const asker = spawned?.asker.allowance;
    const spender = { ...chosen, recorder, signal, asker };
    const { seconds } = purse.run;
    const extraPrompt = input.systemPrompt ?? agent.prompt.text;
    const run: RunContext = {
      agent,
      id,
      sessionId,
      spawned,
      agentId: newId(),
      ...chosen,
      effort: effortOf(chosen, effort, logger),
      extraPrompt,
      system: systemPrompt({
        model: chosen.model,
        tools: offered,
        projectDir,
        surroundings,
        words: said,
        extra: withFolders(extraPrompt, input.folders),
        use: agent.prompt.use,
        missing,
        answer: structure?.instructions ?? "",
      }),
      tools: offered,
      skills: said.skills,
      hooks: agent.hooks,
      limits: spawned ? { ...agent.limits, iterations: spawned.maxIterations } : agent.limits,
      allowance: isSpending(purse) || asker ? new RunBudget(purse, spender) : undefined,
      clock: seconds === undefined ? undefined : new RunClock(seconds, () => cancel.abort(new BudgetSpentError())),
      unknownPrice: purse.unknownPrice,
      structure,
      outputSchema: structure?.schema,
      compacts: asked.compact ? asked.message : undefined,
      projectDir,
      folders: input.folders ?? [],
      conversation,
      state,
      store,
      lease,
      recorder,
      tail,
      inbox,
      bus: agent.bus,
      logger,
      events: new EventBuffer(input.overflow ?? "drop"),
      ask: input.ask,
      asksInAuto: input.asksInAuto ?? true,
      askedAt: input.askedAt ?? "sdk",
      asking: new Set(),
      cancel,
      signal,
      leave: () => {
        leave();
        release();
        releaseTail();
      },
    };
    const prompt = withState(promptOf(asked), news);
    // One that was kept was whole.
    const dangling = kept ? [] : danglingCalls(conversation.messages);
    await (head ? goOn(run, set, asked, prompt, dangling, head.unfinished) : create(run, prompt));
    inbox.listen();
    // While it waited in line it was told something, maybe.
    if (turn) void inbox.look();
    return run;
  } catch (error) {
    releaseTools();
    releaseTail();
    await closeInbox();
    await lease.giveBack(agent);
    throw error;
  }
}

/** The input with what it attaches, read when it is this run's turn. */
async function attached(input: RunInput, place: RunPlace, signal: AbortSignal): Promise<RunInput> {
  const { attach, attachments = [] } = input;
  signal.throwIfAborted();
  if (!attach) return input;
  const more = await place.read(() => {
    signal.throwIfAborted();
    return attach((bytes) => place.reserve(bytes));
  });
  signal.throwIfAborted();
  return { ...input, attachments: [...attachments, ...more] };
}

/** Whether a run waits in line before another; before one that does not wait there are all of them. */
function isAhead(run: RunRecord, own: RunRecord | undefined): boolean {
  return waitsInLine(run) && run.id !== own?.id && (!own || isBefore(run, own));
}

/** The effort of a run: what was asked for, or what comes nearest to it of this model's. */
function effortOf({ provider, model }: ChosenModel, asked: ReasoningEffort, logger: Logger): ReasoningEffort {
  const effort = nearestEffort(asked, model.efforts);
  if (effort !== asked) {
    const names = { provider: provider.name, model: model.id };
    logger.info("the model has no such effort; the nearest is asked for", { ...names, asked, effort });
  }
  return effort;
}

/** The effort that a session goes on with; undefined for one that was made without a run and chose none. */
function chosenEffort(session: Session | undefined): ReasoningEffort | undefined {
  return session && (session.lastSeq > 0 || session.reasoningEffort !== "") ? session.reasoningEffort : undefined;
}

/** A session with the fields of its chain. */
async function chainOf(store: SessionDriver, id: string): Promise<Session> {
  const session = await found(store, id);
  return session.chain.index === 0 ? session : found(store, session.chain.root);
}

async function recentPair(store: SessionDriver, projectDir: string): Promise<ModelPair | undefined> {
  // The newest has one, as a rule; those that a client only opened have none.
  for (const limit of [1, 10]) {
    const { sessions } = await store.list({ projectDir, limit });
    const last = sessions.find((session) => session.provider !== "" && session.model !== "");
    if (last) return last;
  }
  return undefined;
}
