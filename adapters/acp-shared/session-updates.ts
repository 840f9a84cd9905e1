import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { hasCode, type Agent, type Logger, type Session } from "gantry";
import { loadConfigOptions } from "./config-options.js";
import type { RequestContext } from "./dispatcher.js";
import type { OpenSession } from "./open-session.js";
import { escapeInvisible } from "./printable-line.js";
import type { SelectOption, SessionUpdate } from "./wire.js";

/** Delay after a session is opened before models are listed, in ms. */
const OPTIONS_DELAY_MS = 100;

const MODEL_FIELDS = ["provider", "model", "reasoningEffort"] as const;
const REPORTED_FIELDS = ["title", "mode", ...MODEL_FIELDS] as const;

export interface SessionUpdatesDependencies {
  agent: Agent;
  logger: Logger;
  /** Whether to offer modes to the client. */
  offersModes: () => boolean;
  /** Sends an update, unless the client has closed the session meanwhile. */
  sendUpdate(openSession: OpenSession, update: SessionUpdate): void;
  /** Aborts when the client disconnects. */
  closeSignal: AbortSignal;
}

/** Sends changed titles, modes and options of a session to a client: each change once, from any client. */
export class SessionUpdates {
  readonly #dependencies: SessionUpdatesDependencies;

  constructor(dependencies: SessionUpdatesDependencies) {
    this.#dependencies = dependencies;
  }

  /**
   * Handles a session state from a watch, which may be outdated: reads the session again before it sends updates. Never
   * rejects.
   */
  async refresh(openSession: OpenSession, session: Session): Promise<void> {
    if (REPORTED_FIELDS.every((field) => session[field] === openSession.reportedState[field])) return;
    const { agent, logger } = this.#dependencies;
    const { changeCount } = openSession;
    try {
      const currentSession = await agent.sessions.get(openSession.root);
      // A change in this process during the read is newer.
      if (currentSession && openSession.changeCount === changeCount) this.sendChanges(openSession, currentSession);
    } catch (error) {
      logger.warn("session read failed; the client gets no update", { session: openSession.root, error });
    }
  }

  /** Stores the current state of a session and sends the changes. */
  sendChanges(openSession: OpenSession, session: Session): void {
    const { reportedState } = openSession;
    openSession.changeCount += 1;
    openSession.reportedState = session;
    if (session.title !== reportedState.title)
      this.#dependencies.sendUpdate(openSession, {
        sessionUpdate: "session_info_update",
        title: escapeInvisible(session.title),
        updatedAt: session.updatedAt,
      });
    const hasNewMode = session.mode !== reportedState.mode && this.#dependencies.offersModes();
    if (hasNewMode)
      this.#dependencies.sendUpdate(openSession, {
        sessionUpdate: "current_mode_update",
        currentModeId: session.mode,
      });
    // The first run of a session only stores the model that was already shown as current.
    const hasNewModel =
      reportedState.model !== "" && MODEL_FIELDS.some((field) => session[field] !== reportedState[field]);
    if ((hasNewMode || hasNewModel) && !openSession.hasPendingSetting) void this.sendOptions(openSession, 0);
  }

  /**
   * Applies a change that this client requested. The new options are not sent as an update, because the answer contains
   * them. `mode`: the requested mode, which is not sent as an update either; undefined for other changes.
   */
  async applySetting(
    openSession: OpenSession | undefined,
    updateSession: () => Promise<Session>,
    mode?: Session["mode"],
  ): Promise<Session> {
    if (!openSession) return updateSession();
    openSession.hasPendingSetting = true;
    if (mode) openSession.reportedState = { ...openSession.reportedState, mode };
    try {
      return await updateSession();
    } finally {
      openSession.hasPendingSetting = false;
    }
  }

  /** The options of a newly opened session. Models that providers list later are sent as an update. */
  async loadOptions(
    openSession: OpenSession,
    session: Session,
    context: RequestContext,
  ): Promise<readonly SelectOption[]> {
    const { options, isComplete } = await loadConfigOptions(this.#optionDependencies, session, context.signal);
    openSession.reportedOptions = options;
    if (!isComplete) context.runAfterAnswer(() => void this.sendOptions(openSession));
    return options;
  }

  /**
   * Sends the options if they differ from the last options sent. With a delay, waits until every provider has answered.
   * Never rejects.
   */
  async sendOptions(openSession: OpenSession, delayMs = OPTIONS_DELAY_MS): Promise<void> {
    const { agent, logger, closeSignal, sendUpdate } = this.#dependencies;
    try {
      // An editor's first prompt often follows at once and has priority.
      if (delayMs > 0) await sleep(delayMs, undefined, { signal: closeSignal });
      // Read after the delay, so that the state is current.
      const session = await agent.sessions.get(openSession.root);
      if (!session) return;
      const { options } = await loadConfigOptions(this.#optionDependencies, session, closeSignal, delayMs > 0);
      if (options.length === 0 || isDeepStrictEqual(options, openSession.reportedOptions) || closeSignal.aborted)
        return;
      openSession.reportedOptions = options;
      sendUpdate(openSession, { sessionUpdate: "config_option_update", configOptions: [...options] });
    } catch (error) {
      if (!closeSignal.aborted) logger.warn("config options not sent", { error });
    }
  }

  /** Sends the slash commands if they differ from the last commands sent. Never rejects. */
  async sendCommands(openSession: OpenSession): Promise<void> {
    const { agent, logger, closeSignal, offersModes, sendUpdate } = this.#dependencies;
    // A client without modes follows the interface specification, which has no update for commands.
    if (!offersModes()) return;
    try {
      const { servers } = openSession.clientResources;
      const agentCommands = await agent.commands({ sessionId: openSession.root, projectDir: openSession.cwd, servers });
      const commands = agentCommands.map(({ name, description, hint }) => ({
        name,
        description: escapeInvisible(description),
        ...(hint !== "" && { input: { hint: escapeInvisible(hint) } }),
      }));
      if (closeSignal.aborted || isDeepStrictEqual(commands, openSession.reportedCommands)) return;
      openSession.reportedCommands = commands;
      sendUpdate(openSession, { sessionUpdate: "available_commands_update", availableCommands: commands });
    } catch (error) {
      // A session that was deleted meanwhile has no commands.
      if (!closeSignal.aborted && !hasCode(error, "session_not_found"))
        logger.warn("slash commands not sent", { error });
    }
  }

  get #optionDependencies() {
    const { agent, logger, offersModes } = this.#dependencies;
    return { agent, logger, offersModes: offersModes() };
  }
}
