import { setMaxListeners } from "node:events";
import { onAbort } from "../base/abort.js";
import { newId, now } from "../base/ids.js";
import { loggerWith } from "../base/log.js";
import { Conversation } from "../conversation/conversation.js";
import { type DanglingCall, danglingCalls, INTERRUPTED, toolMessage } from "../conversation/messages.js";
import { withState } from "../conversation/stored-state.js";
import { Recorder } from "../conversation/recorder.js";
import { nearestEffort } from "../models/efforts.js";
import type { ChosenModel, ModelPair } from "../models/models.js";
import { BudgetSpentError, hasCode, SessionBusyError, SessionNotFoundError } from "../ports/errors.js";
import type { Message, ModelMessage } from "../ports/message.js";
import type { Logger } from "../ports/logger.js";
import type { ReasoningEffort } from "../ports/model-provider.js";
import type { RunInput, RunRecord } from "../ports/run.js";
import type { ChainHead, SessionDriver, SessionFields } from "../ports/session-driver.js";
import type { Session } from "../ports/session.js";
import { HeldLease } from "../sessions/lease.js";
import { checkFolder, found, newSession } from "../sessions/sessions.js";
import { asItIs, brokeOff, interrupted, isBefore, waitsInLine } from "../sessions/stored-run.js";
import { pricesOf, RunBudget } from "./spending.js";
import { headWith, messagesOf } from "./chain-head.js";
import { RunClock } from "./clock.js";
import type { SpokenInput } from "./commands.js";
import { EventBuffer } from "./event-buffer.js";
import { ending } from "./execution.js";
import { withFolders } from "./folders.js";
import { Inbox } from "./inbox.js";
import { toolList, withServers } from "./input.js";
import { offeredTools } from "./offered-tools.js";
import { attachedBytes, type RunPlace } from "./places.js";
import { isOfMoney, isSpending, purseOf } from "./purse.js";
import type { Turn } from "./waiter.js";
import type { AgentParts, RunContext, Spawned } from "./run-context.js";
import { begun } from "./run-record.js";
import { countIn, helpersSession } from "./spawn.js";
import { surroundingsFor, worksOnFiles } from "./surroundings.js";
import { systemPrompt } from "./system-prompt.js";

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
      : await (await import("./structured.js")).Structure.open(outputSchema, signal);
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
    const { tools, missing, release } = await agent.sources.open(list, of);
    releaseTools = release;
    const isCommand = input.commands === true && input.message.trimStart().startsWith("/");
    const asked = isCommand
      ? await (await import("./agent-commands.js")).spoken(agent, whole, of, place, signal)
      : whole;
    const inbox = new Inbox({ runId: id, sessionId, store, cancel, logger });
    closeInbox = () => inbox.close();
    const { tail, leave: leaveTail } = agent.live().open(sessionId, store);
    const hold = tail.hold();
    // Before anything is asked: what only a person can do is offered where one is there.
    const unattend = input.attended ? tail.attended(input.attended) : () => undefined;
    // A helper asks those of its asker for leave, and what it wants to know of nobody.
    const someone = !spawned && (input.ask !== undefined || tail.isAttended || agent.asking.unattended === "wait");
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
        store.notifier.publish(sessionId);
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
    // One that was kept was whole.
    const dangling = kept ? [] : danglingCalls(conversation.messages);
    const prompt = withState(promptOf(asked), news);
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

async function create({ id: runId, recorder, bus, conversation }: RunContext, prompt: ModelMessage): Promise<void> {
  const { session } = conversation;
  const message = conversation.compose(prompt);
  await recorder.begin({ ...session, lastSeq: message.seq }, message);
  conversation.add(message);
  bus.emit("session.created", { session, runId });
}

/** Whether a run waits in line before another; before one that does not wait there are all of them. */
function isAhead(run: RunRecord, own: RunRecord | undefined): boolean {
  return waitsInLine(run) && run.id !== own?.id && (!own || isBefore(run, own));
}

/** Mend what a crash left, and store the user's message, if there is one: one write. `dangling`: calls without a result, `unfinished`: runs that this one's lease ends. */
async function goOn(
  run: RunContext,
  set: SessionFields,
  { compact }: SpokenInput,
  prompt: ModelMessage,
  dangling: readonly DanglingCall[],
  unfinished: readonly RunRecord[],
): Promise<void> {
  const { id: runId, sessionId, conversation, recorder, bus } = run;
  const mended = dangling.map(({ call }) => conversation.compose(toolMessage(call, INTERRUPTED, true)));
  const add: Message[] = [...mended, ...(compact ? [] : [conversation.compose(prompt)])];
  const dead = unfinished.filter((one) => one.id !== runId && !waitsInLine(one));
  const change = { sync: "later", set: { ...set, updatedAt: now() }, add } as const;
  const ended = dead.map(interrupted);
  await recorder.write({ ...change, runs: [...ended, recorder.run] }).catch(async (error: unknown) => {
    const broken = hasCode(error, "run_key_taken")
      ? await brokenOff(run.store, sessionId, recorder.run.key)
      : undefined;
    if (!broken) throw error;
    // With the same change: a key that is free in between begins another session.
    const freed = { ...broken, key: "", fingerprint: "" };
    await recorder.write({ ...change, runs: [...ended.filter(({ id }) => id !== freed.id), freed, recorder.run] });
  });
  for (const message of add) conversation.add(message);
  bus.emit("session.resume", { runId, sessionId: conversation.session.id, rootId: sessionId });
}

/** The run of a chain that has a key and broke off, for whoever holds the chain's lease. */
async function brokenOff(store: SessionDriver, rootId: string, key: string): Promise<RunRecord | undefined> {
  const [stored] = await store.runs({ sessionId: rootId, key, limit: 1 });
  const run = stored && asItIs(stored);
  return run && brokeOff(run) ? run : undefined;
}

function promptOf(input: SpokenInput): ModelMessage {
  const { message: text, typed } = input;
  return {
    role: "user" as const,
    parts: [
      ...(text === "" && typed === undefined
        ? []
        : [{ type: "text" as const, text, ...(typed !== undefined && { typed }) }]),
      ...(input.attachments ?? []),
    ],
    toolCallId: "",
    name: "",
    failed: false,
  };
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

/** The session that a run goes on in. The original's fields are the chain's: a revert may have made an earlier follow-up the newest again. */
function goingOn({ original, newest }: ChainHead): Session {
  const { title, titled, provider, model, reasoningEffort, mode, leave, cuts, projectDir } = original;
  return { ...newest, title, titled, provider, model, reasoningEffort, mode, leave, cuts, projectDir };
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
