import { isRecord } from "gantry/plugin";
import type { RequestContext } from "./dispatcher.js";
import { toParamsError, RpcError, createSessionBusyError } from "./errors.js";
import type { ClientFacts, ConnectionDependencies, OpenSessions } from "./open-sessions.js";
import { readString } from "./params.js";
import { runPrompt } from "./prompt.js";
import { escapeInvisible } from "./printable-line.js";
import { readPrompt, readTrace, type PromptInput } from "./prompt-input.js";
import type { Turn } from "./turns.js";
import { ERROR_CODES, type PromptResult, type RequestId } from "./wire.js";

type Params = Readonly<Record<string, unknown>>;

/** Handles prompts, steering and cancels of one client. */
export class ClientPrompts {
  readonly #dependencies: ConnectionDependencies;
  readonly #facts: ClientFacts;
  readonly #sessions: OpenSessions;
  readonly #pendingChangeBySessionId: ReadonlyMap<string, Promise<unknown>>;
  readonly #ownTurns = new Set<Turn>();
  /** Root ids of the sessions for which ignored prompt blocks were logged. */
  readonly #loggedRootIds = new Set<string>();

  /** `pendingChangeBySessionId`: as in `ClientSessions`. A prompt waits for the pending change of its session. */
  constructor(
    dependencies: ConnectionDependencies,
    facts: ClientFacts,
    sessions: OpenSessions,
    pendingChangeBySessionId: ReadonlyMap<string, Promise<unknown>>,
  ) {
    this.#dependencies = dependencies;
    this.#facts = facts;
    this.#sessions = sessions;
    this.#pendingChangeBySessionId = pendingChangeBySessionId;
  }

  /** Whether this client started the turn. */
  isOwnTurn(turn: Turn): boolean {
    return this.#ownTurns.has(turn);
  }

  forgetSession(rootId: string): void {
    this.#loggedRootIds.delete(rootId);
  }

  /** `session/prompt`. Registers the turn synchronously, so that the next frame finds the turn. */
  prompt(params: Params, context: RequestContext): Promise<PromptResult> {
    const sessionId = readString(params, "sessionId");
    const input = { ...readPrompt(params.prompt, this.#facts.clientProfile.isEditor), ...readTrace(params._meta) };
    const { turns, drainSignal } = this.#dependencies;
    if (drainSignal.aborted) throw new RpcError(ERROR_CODES.internal, "server shutting down");
    if (isRecord(params._meta) && params._meta.steer === true) return this.#steer(sessionId, input, context);
    // No await until here: a cancel in the next frame finds the turn.
    const previousTurn = turns.get(sessionId);
    if (previousTurn && !previousTurn.isCancelled) throw createSessionBusyError(sessionId);
    return this.#startTurn(sessionId, input, previousTurn, context);
  }

  /** `session/cancel`; takes effect at once. */
  cancel(params: Params): null {
    const sessionId = readString(params, "sessionId");
    const turn = this.#dependencies.turns.get(sessionId);
    if (turn) turn.cancel();
    else void this.#cancelOtherRun(sessionId);
    return null;
  }

  #startTurn(sessionId: string, input: PromptInput, previousTurn: Turn | undefined, context: RequestContext) {
    const { turns } = this.#dependencies;
    const turn = turns.begin(sessionId);
    this.#ownTurns.add(turn);
    const cancel = () => turn.cancel();
    if (context.signal.aborted) cancel();
    context.signal.addEventListener("abort", cancel, { once: true });
    const earlierWork = Promise.all([previousTurn?.runEnd, this.#pendingChangeBySessionId.get(sessionId)]);
    const work = this.#runTurn(turn, earlierWork, sessionId, input, context.requestId).finally(() => {
      turns.end(turn);
      this.#ownTurns.delete(turn);
    });
    const cancelResult = turn.cancelTimeout.then((): PromptResult => ({ stopReason: "cancelled" }));
    return Promise.race([work, cancelResult]).finally(() => {
      turn.isAnswered = true;
      // If the cancel timeout won the race, a later rejection must not be unhandled. `turns` waits for the end of
      // `work`.
      work.catch(() => undefined);
    });
  }

  async #runTurn(
    turn: Turn,
    earlierWork: Promise<unknown>,
    sessionId: string,
    input: PromptInput,
    requestId: RequestId | undefined,
  ): Promise<PromptResult> {
    const { agent, logger, turns, options } = this.#dependencies;
    const sessions = this.#sessions;
    await earlierWork;
    const session = await sessions.requireSession(sessionId);
    if (turn.isCancelled) return { stopReason: "cancelled" };
    turns.addIds(turn, [session.id, session.alias, session.chain.root]);
    const openSession = sessions.register(session, sessionId);
    this.#logIgnoredBlocks(openSession.root, input.ignoredTypes);
    const { clientProfile, client } = this.#facts;
    return runPrompt(turn, {
      agent,
      logger,
      ...clientProfile,
      session,
      openSession,
      input,
      client: sessions.createClient(sessionId),
      clientName: this.#facts.clientName,
      ...(requestId !== undefined && { logFields: { request: escapeInvisible(String(requestId).slice(0, 64)) } }),
      canAsk: sessions.canAsk(session),
      alwaysAsk: options.requestPermission,
      supportsCompactionUpdates: client?.supportsCompactionUpdates === true,
      send: (update) => sessions.sendUpdate(sessionId, update),
      waitUntilReady: () => sessions.waitUntilReady(sessionId),
      // The MCP servers are connected now and may offer slash commands.
      onStarted: () => void sessions.sessionUpdates.sendCommands(openSession),
    }).finally(() => {
      sessions.scheduleWatch(openSession);
      void sessions.sessionUpdates.sendCommands(openSession);
    });
  }

  /** Sends the text to the active run. Without an active run, the text becomes a normal prompt. */
  async #steer(sessionId: string, input: PromptInput, context: RequestContext): Promise<PromptResult> {
    const { agent, turns } = this.#dependencies;
    const run = await this.#findActiveRun(sessionId);
    if (run) {
      if (input.attachments.length > 0) throw toParamsError("prompt", "text only, because a run is active");
      this.#logIgnoredBlocks(run.sessionId, input.ignoredTypes);
      const _meta = { steered: { runId: run.id } };
      if (await agent.runs.steer(run.id, input.message)) return { stopReason: "end_turn", _meta };
    }
    const previousTurn = turns.get(sessionId);
    // The run of the previous prompt has not started: no run can receive the text.
    if (previousTurn && !previousTurn.isCancelled && !run) throw createSessionBusyError(sessionId);
    return this.#startTurn(sessionId, input, previousTurn, context);
  }

  /** Cancels a run of another client or process in a session that this client has open. Never rejects. */
  async #cancelOtherRun(sessionId: string): Promise<void> {
    const { agent, logger } = this.#dependencies;
    try {
      const run = await this.#findActiveRun(sessionId);
      if (run && this.#sessions.get(run.sessionId)) await agent.runs.cancel(run.id);
    } catch (error) {
      if (!(error instanceof RpcError)) logger.warn("run cancel failed; the run continues", { error });
    }
  }

  /** The active run of a session, of any client or process. */
  async #findActiveRun(sessionId: string) {
    const { chain } = await this.#sessions.requireSession(sessionId);
    const { runs } = this.#dependencies.agent;
    const [run] = await runs.list({ sessionId: chain.root, states: ["running", "waiting"], limit: 1 });
    return run;
  }

  /** Logs ignored prompt blocks once for each session. */
  #logIgnoredBlocks(rootId: string, types: readonly string[]): void {
    if (types.length === 0 || this.#loggedRootIds.has(rootId)) return;
    this.#loggedRootIds.add(rootId);
    const { client, clientProfile } = this.#facts;
    const message = clientProfile.isEditor
      ? "prompt blocks ignored; gantry cannot read them"
      : "prompt blocks ignored; only the first text is read. Set acp.profile or --acp-profile to official to read all blocks";
    this.#dependencies.logger.warn(message, {
      types: [...new Set(types)],
      client: client?.clientName ?? "",
      session: rootId,
    });
  }
}
