import { isRecord } from "gantry/plugin";
import type { RequestContext } from "./dispatcher.js";
import { invalidParams, RpcError, sessionBusy } from "./errors.js";
import type { ClientFacts, ConnectionParts, OpenSessions } from "./open-sessions.js";
import { readString } from "./params.js";
import { runPrompt } from "./prompt.js";
import { readPrompt, type PromptInput } from "./prompt-input.js";
import type { Turn } from "./turns.js";
import { CODES, type PromptResult } from "./wire.js";

type Params = Readonly<Record<string, unknown>>;

/** Handles prompts, steering and cancels of one client. */
export class ClientPrompts {
  readonly #parts: ConnectionParts;
  readonly #facts: ClientFacts;
  readonly #sessions: OpenSessions;
  readonly #pendingBySessionId: ReadonlyMap<string, Promise<unknown>>;
  readonly #ownTurns = new Set<Turn>();
  /** Root ids of the sessions for which ignored prompt parts were logged. */
  readonly #loggedSessions = new Set<string>();

  /** `order`: the last unfinished change of each session by the client's id; prompts wait for it. */
  constructor(
    parts: ConnectionParts,
    facts: ClientFacts,
    sessions: OpenSessions,
    order: ReadonlyMap<string, Promise<unknown>>,
  ) {
    this.#parts = parts;
    this.#facts = facts;
    this.#sessions = sessions;
    this.#pendingBySessionId = order;
  }

  /** Whether this client started the turn. */
  isOwn(turn: Turn): boolean {
    return this.#ownTurns.has(turn);
  }

  forget(rootId: string): void {
    this.#loggedSessions.delete(rootId);
  }

  /** `session/prompt`. Registers the turn synchronously, so that the next frame finds it. */
  prompt(params: Params, context: RequestContext): Promise<PromptResult> {
    const sessionId = readString(params, "sessionId");
    const input = readPrompt(params.prompt, this.#facts.clientProfile.editor);
    const { turns, refusing } = this.#parts;
    if (refusing.aborted) throw new RpcError(CODES.internal, "server shutting down");
    if (isRecord(params._meta) && params._meta.steer === true) return this.#steer(sessionId, input, context);
    // No await until here: a cancel in the next frame finds the turn.
    const before = turns.get(sessionId);
    if (before && !before.cancelled) throw sessionBusy(sessionId);
    return this.#begin(sessionId, input, before, context);
  }

  /** `session/cancel`; takes effect at once. */
  cancel(params: Params): null {
    const sessionId = readString(params, "sessionId");
    const turn = this.#parts.turns.get(sessionId);
    if (turn) turn.cancel();
    else void this.#cancelElsewhere(sessionId);
    return null;
  }

  #begin(sessionId: string, input: PromptInput, before: Turn | undefined, context: RequestContext) {
    const { turns } = this.#parts;
    const turn = turns.begin(sessionId);
    this.#ownTurns.add(turn);
    const cancel = () => turn.cancel();
    if (context.signal.aborted) cancel();
    context.signal.addEventListener("abort", cancel, { once: true });
    const earlier = Promise.all([before?.done, this.#pendingBySessionId.get(sessionId)]);
    const work = this.#turn(turn, earlier, sessionId, input).finally(() => {
      turns.end(turn);
      this.#ownTurns.delete(turn);
    });
    const late = turn.abandoned.then((): PromptResult => ({ stopReason: "cancelled" }));
    return Promise.race([work, late]).finally(() => {
      turn.answered = true;
      // The race may have ignored this promise: avoid an unhandled rejection. `turns` waits for its end.
      work.catch(() => undefined);
    });
  }

  async #turn(turn: Turn, earlier: Promise<unknown>, sessionId: string, input: PromptInput): Promise<PromptResult> {
    const { agent, logger, turns, options } = this.#parts;
    const sessions = this.#sessions;
    await earlier;
    const session = await sessions.stored(sessionId);
    if (turn.cancelled) return { stopReason: "cancelled" };
    turns.name(turn, [session.id, session.alias, session.chain.root]);
    const open = sessions.opened(session, sessionId);
    this.#logIgnored(open.root, input.ignored);
    const { clientProfile, client } = this.#facts;
    return runPrompt(turn, {
      agent,
      logger,
      profile: clientProfile.profile,
      session,
      open,
      input,
      client: sessions.client(sessionId),
      clientName: sessions.clientName,
      canAsk: sessions.canAsk(session),
      alwaysAsk: options.requestPermission,
      compaction: client?.compaction === true,
      editor: clientProfile.editor,
      send: (update) => sessions.update(sessionId, update),
      ready: () => sessions.ready(sessionId),
      // The MCP servers are connected now and may offer slash commands.
      onStarted: () => void sessions.sessionUpdates.commands(open),
    }).finally(() => {
      void sessions.watch(open);
      void sessions.sessionUpdates.commands(open);
    });
  }

  /** Sends the text to the active run. Without an active run it becomes a normal prompt. */
  async #steer(sessionId: string, input: PromptInput, context: RequestContext): Promise<PromptResult> {
    const { agent, turns } = this.#parts;
    const run = await this.#activeRun(sessionId);
    if (run) {
      if (input.attachments.length > 0) throw invalidParams("prompt", "text only, because a run is active");
      this.#logIgnored(run.sessionId, input.ignored);
      const _meta = { steered: { runId: run.id } };
      if (await agent.runs.steer(run.id, input.message)) return { stopReason: "end_turn", _meta };
    }
    const before = turns.get(sessionId);
    // A prompt has arrived, but its run has not started.
    if (before && !before.cancelled && !run) throw sessionBusy(sessionId);
    return this.#begin(sessionId, input, before, context);
  }

  /** Cancels a run of another client or process in a session that this client has open. Never rejects. */
  async #cancelElsewhere(sessionId: string): Promise<void> {
    const { agent, logger } = this.#parts;
    try {
      const run = await this.#activeRun(sessionId);
      if (run && this.#sessions.get(run.sessionId)) await agent.runs.cancel(run.id);
    } catch (error) {
      if (!(error instanceof RpcError)) logger.warn("run cancel failed; the run continues", { error });
    }
  }

  /** The active run of a session, of any client or process. */
  async #activeRun(sessionId: string) {
    const { chain } = await this.#sessions.stored(sessionId);
    const { runs } = this.#parts.agent;
    const [run] = await runs.list({ sessionId: chain.root, states: ["running", "waiting"], limit: 1 });
    return run;
  }

  /** Logged once for each session, so that the missing parts can be explained. */
  #logIgnored(rootId: string, types: readonly string[]): void {
    if (types.length === 0 || this.#loggedSessions.has(rootId)) return;
    this.#loggedSessions.add(rootId);
    const { client, clientProfile } = this.#facts;
    const why = clientProfile.editor
      ? "prompt parts ignored; gantry cannot read them"
      : "prompt parts ignored; only the first text is read. Set acp.profile or --acp-profile to official to read all parts";
    this.#parts.logger.warn(why, { types: [...new Set(types)], client: client?.clientName ?? "", session: rootId });
  }
}
